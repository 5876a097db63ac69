"""The server of the page: routes, and checks of every request.

It listens on 127.0.0.1. A request needs the token of the address, or the cookie that the token
sets. Requests of other hosts and origins are refused, so that no other page can use this page.
"""

from __future__ import annotations

import hmac
import secrets
import shutil
import socket
import threading
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl

from missdp.app.pages import page
from missdp.app.workspace import STEPS, Workspace
from missdp.errors import OutputError, import_optional, replacing

HOST = "127.0.0.1"
_STATIC = Path(__file__).parent / "static"
_STYLE = ("missdp", "governance/templates")  # the style of reports
_FRAMES = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; img-src data:; "
_POLICY = "script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'"
# Documents with inline style. They run in no origin, so that they cannot use the page.
_DOCUMENT = "style-src 'unsafe-inline'; script-src 'unsafe-inline'; sandbox allow-scripts"
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": _FRAMES + _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without a referrer, forms have no origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_MAX_BYTES = 2**24  # bytes of a form


class Guard:
    """Check of each request before the page gets it.

    Parameters
    ----------
    port : int
        The port of the server.
    token : str
        The secret of the address and of the cookie.
    """

    def __init__(self, port: int, token: str) -> None:
        self._host, self._cookie, self._token = f"{HOST}:{port}", f"missdp-{port}", token

    async def __call__(self, request: Any, answer: Any) -> Any:
        """Return the response of the page, or a refusal. Both get the headers of the page."""
        from starlette.responses import PlainTextResponse, RedirectResponse

        response: Any
        if refusal := self._refusal(request):
            response = PlainTextResponse(f"missdp: {refusal}\n", status_code=403)
        elif request.method == "GET" and self._is_token(request.query_params.get("token", "")):
            response = RedirectResponse("/" + request.url.path.lstrip("/"), status_code=303)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        else:
            try:
                response = await answer(request)
            except Exception:  # noqa: BLE001 - no text or traceback may quote a private cell
                response = PlainTextResponse("missdp: unexpected error. Reload the page.\n", 500)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

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


def application(space: Workspace, guard: Guard) -> Any:
    """Return the ASGI application of the page."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    def progress(_: Any) -> Any:
        stage, share = (space.job.stage, space.job.share) if space.job else ("", None)
        return JSONResponse({"running": space.is_busy, "stage": stage, "done": share})

    def show(request: Any) -> Any:
        step = request.path_params.get("step", "")
        return HTMLResponse(page(space, step)) if step in STEPS else RedirectResponse("/data", 303)

    async def act(request: Any) -> Any:
        step, action = request.path_params["step"], request.path_params["action"]
        form = await _form(request)
        if action == "try":
            return JSONResponse({"problem": await run_in_threadpool(space.try_schema, form)})
        await run_in_threadpool(space.act, step, action, form)
        place = f"column-{form['changed']}" if "changed" in form else action
        return RedirectResponse(f"/{step if step in STEPS else 'data'}#{place}", status_code=303)

    routes = [
        Route("/progress", progress),
        Mount("/static", StaticFiles(directory=_STATIC, packages=[_STYLE])),
        Route("/file/{name}", lambda request: _document(space, request.path_params["name"])),
        Route("/{step}/{action}", act, methods=["POST"]),
        Route("/{step}", show),
        Route("/", show),
    ]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)])


async def _form(request: Any) -> dict[str, str]:
    """Return the fields of a form. A file is never sent, so the form is short."""
    from starlette.exceptions import HTTPException

    if int(request.headers.get("content-length", _MAX_BYTES + 1)) > _MAX_BYTES:
        raise HTTPException(413)
    fields = parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
    return {name: text.replace("\r\n", "\n") for name, text in fields}


def _document(space: Workspace, name: str) -> Any:
    """Return the response with a file of the release, or with a document of the last command."""
    from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

    inline = {"content-security-policy": _FRAMES + _DOCUMENT}
    document = space.results.get("look/dossier" if name == "report" else f"look/{name}", {})
    path = Path(document.get("output") or document.get("model", ""))
    if document and name == "compare":
        return HTMLResponse(document["html"], headers=inline)
    if document and name == "estimate":
        return JSONResponse(document)
    if not document or not path.exists():
        return Response("missdp: there is no such file yet.\n", 404, media_type="text/plain")
    if name == "report":
        return FileResponse(path / "report.html", headers=inline)
    if name == "dossier":
        headers = {"content-disposition": f'attachment; filename="{path.name}.zip"'}
        return Response(_zipped(path), media_type="application/zip", headers=headers)
    return FileResponse(path, filename=path.name)


def _zipped(folder: Path) -> bytes:
    """Return the files of a folder as a ZIP file."""
    with TemporaryDirectory() as place:
        name = shutil.make_archive(f"{place}/packed", "zip", folder.parent, folder.name)
        return Path(name).read_bytes()


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
        application_ = application(space, Guard(self.port, self._token))
        quiet = {"log_config": None, "access_log": False, "log_level": "critical"}
        plain = {"lifespan": "off", "ws": "none", "server_header": False}
        config = uvicorn.Config(application_, timeout_graceful_shutdown=1, **quiet, **plain)
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
