"""The server of the page: routes, and checks of every request.

It listens on 127.0.0.1. A request needs the token of the address, or the cookie that the token
sets. Requests of other hosts and origins are refused, so that no other page can use this page.
"""

from __future__ import annotations

import hmac
import io
import secrets
import socket
import threading
import webbrowser
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from missdp.app.pages import page
from missdp.app.workspace import STEPS, Workspace
from missdp.errors import OutputError, import_optional, replacing

HOST = "127.0.0.1"
_STATIC = Path(__file__).parent / "static"
_SELF = "'self'"
_POLICY = (
    f"default-src 'none'; script-src {_SELF}; style-src {_SELF}; img-src data:; "
    f"connect-src {_SELF}; form-action {_SELF}; frame-ancestors 'none'; base-uri 'none'"
)
# Documents with inline style. They run in no origin, so that they cannot use the page.
_DOCUMENT = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; sandbox allow-scripts"
)
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_MAX_BYTES = 2**24  # bytes of a form


class Guard:
    """ASGI application that checks each request before the page gets it.

    Parameters
    ----------
    app : ASGI application
        The page.
    port : int
        The port of the server.
    token : str
        The secret of the address and of the cookie.
    """

    def __init__(self, app: Any, port: int, token: str) -> None:
        self._app, self._token = app, token
        self._host, self._cookie = f"{HOST}:{port}", f"missdp-{port}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse, RedirectResponse

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                added = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
                message["headers"] += [pair for pair in added if pair[0] not in present]
            await send(message)

        if scope["type"] != "http":
            return
        request, answer = Request(scope), self._app
        token = request.query_params.get("token", "")
        if refusal := self._refusal(request):
            answer = PlainTextResponse(f"missdp: {refusal}\n", status_code=403)
        elif request.method == "GET" and self._is_token(token):
            answer = RedirectResponse(request.url.path, status_code=303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        try:
            await answer(scope, receive, send_guarded)
        except Exception:  # noqa: BLE001 - no text or traceback may quote a private cell
            failed = PlainTextResponse("missdp: unexpected error. Reload the page.\n", 500)
            await failed(scope, receive, send_guarded)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._token.encode())

    def _refusal(self, request: Any) -> str:
        """Return the reason why a request is refused, or an empty text."""
        headers = request.headers
        if headers.get("host") != self._host:
            return f"this page is at http://{self._host} only. Use the printed address."
        if request.method == "POST" and headers.get("origin") != f"http://{self._host}":
            return "a form of another page was sent. Use the page itself."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return "another page sent this request. Open the printed address by hand."
        known = self._is_token(request.cookies.get(self._cookie, ""))
        if not (known or self._is_token(request.query_params.get("token", ""))):
            return "the token is absent or wrong. Open the address that `missdp app` printed."
        return ""


def application(space: Workspace) -> Any:
    """Return the ASGI application of the page, without the checks of `Guard`."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
    from starlette.routing import Route

    def progress(request: Any) -> Response:
        del request
        job = space.job
        stage, done = ("", None) if job is None else (job.stage, job.done)
        return JSONResponse({"running": space.is_busy, "stage": stage, "done": done})

    def show(request: Any) -> Response:
        step = request.path_params["step"]
        if step not in STEPS:
            return RedirectResponse("/data", status_code=303)
        return HTMLResponse(page(space, step))

    async def act(request: Any) -> Response:
        form, step = await _form(request), request.path_params["step"]
        if (step, request.path_params["action"]) == ("schema", "try"):
            return JSONResponse({"problem": await run_in_threadpool(space.check_rule, form)})
        await run_in_threadpool(space.act, step, request.path_params["action"], form)
        shown = "release" if request.path_params["action"] == "choose" else step
        return RedirectResponse(f"/{shown if shown in STEPS else 'data'}", status_code=303)

    def static(request: Any) -> Response:
        name, kinds = (
            request.path_params["name"],
            {"app.js": "text/javascript", "app.css": "text/css"},
        )
        if name not in kinds:
            return Response(status_code=404)
        return Response((_STATIC / name).read_bytes(), media_type=kinds[name])

    def document(request: Any) -> Any:
        return _document(space, request.path_params["name"])

    first = RedirectResponse("/data", status_code=303)
    routes = [
        Route("/", lambda _: first),
        Route("/progress", progress),
        Route("/static/{name}", static),
        Route("/file/{name}", document),
        Route("/{step}", show),
        Route("/{step}/{action}", act, methods=["POST"]),
    ]
    return Starlette(routes=routes)


async def _form(request: Any) -> dict[str, str]:
    """Return the fields of a form. A file is never sent, so the form is short."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BYTES:
            return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _document(space: Workspace, name: str) -> Any:
    """Return the response with a file of the release, or with the private comparison."""
    from starlette.responses import FileResponse, HTMLResponse, Response

    paths = {"rows": space.rows, "model": space.model}
    if name in paths and (path := paths[name]) is not None and path.is_file():
        return FileResponse(path, filename=path.name)
    if name == "curator" and space.curator:
        return HTMLResponse(space.curator, headers={"content-security-policy": _DOCUMENT})
    if space.dossier is not None and space.dossier.is_dir():
        if name == "report":
            text = (space.dossier / "report.html").read_text(encoding="utf-8")
            return HTMLResponse(text, headers={"content-security-policy": _DOCUMENT})
        if name == "dossier":
            disposition = f'attachment; filename="{space.dossier.name}.zip"'
            headers = {"content-disposition": disposition}
            return Response(_zipped(space.dossier), media_type="application/zip", headers=headers)
    return Response("missdp: there is no such file yet.\n", 404, media_type="text/plain")


def _zipped(folder: Path) -> bytes:
    """Return the files of a folder as a ZIP file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"{folder.name}/{path.name}")
    return packed.getvalue()


class PageServer:
    """A server of the page on a port of this machine.

    Parameters
    ----------
    space : Workspace
        The state of the page.
    port : int, default 0
        The port. 0 is any free port.

    Raises
    ------
    OutputError
        If the port is in use.
    MissingDependencyError
        If the extra ``app`` is not installed.
    """

    def __init__(self, space: Workspace, port: int = 0) -> None:
        import_optional("starlette", purpose="pages in the browser")
        uvicorn = import_optional("uvicorn", purpose="pages in the browser")
        in_use = OutputError(f"port {port} cannot be used. Choose another --port, or leave it out.")
        with replacing(OSError, OverflowError, by=in_use):
            self._socket = socket.create_server((HOST, port))
        self._space, self._token = space, secrets.token_urlsafe(32)
        self.port = int(self._socket.getsockname()[1])
        guarded = Guard(application(space), self.port, self._token)
        quiet = {"log_config": None, "access_log": False, "log_level": "critical"}
        plain = {"lifespan": "off", "ws": "none", "server_header": False}
        config = uvicorn.Config(guarded, timeout_graceful_shutdown=1, **quiet, **plain)
        self._server = uvicorn.Server(config)
        # In a thread, uvicorn leaves signals to the command.
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    @property
    def url(self) -> str:
        """The address with the secret token."""
        return f"http://{HOST}:{self.port}/?token={self._token}"

    def start(self) -> None:
        """Start to answer requests."""
        self._thread.start()

    def run(self, *, browser: bool) -> None:
        """Answer requests until a signal stops the command."""
        self.start()
        if browser:
            webbrowser.open(self.url)
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
        finally:
            self.close()

    def close(self) -> None:
        """Stop. A running command is interrupted, and a charged model is saved first."""
        self._server.should_exit = True
        if self._space.is_busy and self._space.job is not None:
            self._space.job.stop()
            self._space.job.wait()
        self._thread.join(3)
        self._socket.close()
