"""A folder with a small table, and a page on it."""

import http.client
import time
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest

from missdp.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Be in a folder of one's own with a table that has a secret cell."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    columns = {"smoker": rng.choice(["no", "yes"], 400), "age": rng.integers(20, 91, 400)}
    frame = pd.DataFrame(columns).astype({"age": "Int64"}).mask(rng.random((400, 2)) < 0.1)
    frame.assign(remarks=[f"secret {k}" for k in range(400)]).to_csv("people.csv", index=False)
    return tmp_path


@pytest.fixture
def account(folder):
    """Create an account in the folder. The words name it in a command."""
    words = ["--ledger", "sqlite:///l.db", "--account", "p"]
    assert main(["ledger", "create", *words, "--epsilon", "3", "--delta", "1e-5", "-q"]) == 0
    return words


class Client:
    """A browser without scripts: it keeps the cookie and sends the headers of a browser."""

    def __init__(self, server, space):
        self.server, self.space, self.cookie = server, space, ""
        self.host = f"127.0.0.1:{server.port}"

    def send(self, method, path, body=None, **headers):
        sent = {"Host": self.host, "Cookie": self.cookie, "Origin": f"http://{self.host}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        connection.request(method, path, body, {k: v for k, v in sent.items() if v})
        answer = connection.getresponse()
        answer.text = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer

    def enter(self):
        answer = self.send("GET", self.server.url.partition(self.host)[2], Origin="")
        self.cookie = answer.getheader("Set-Cookie").partition(";")[0]
        return answer

    def page(self, step):
        return self.send("GET", f"/{step}", Origin="").text

    def do(self, step, action, /, **form):
        """Send a form, wait for the end of its command, and return the page of the step."""
        answer = self.send("POST", f"/{step}/{action}", urlencode(form))
        assert answer.status == 303
        while '"running":true' in self.send("GET", "/progress", Origin="").text:
            time.sleep(0.05)
        return self.page(step)


@pytest.fixture
def space(folder):
    pytest.importorskip("starlette")
    from missdp.app.workspace import Workspace

    return Workspace("people.csv")


@pytest.fixture
def client(space):
    from missdp.app.server import PageServer

    server = PageServer(space)
    server.start()
    yield Client(server, space)
    server.close()
