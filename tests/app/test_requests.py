"""Requests to the page: token, host, origin, headers, and files."""

import json

import pytest

STEPS = ("data", "schema", "plan", "release", "look")


def test_token_sets_a_strict_cookie_and_leaves_the_address(client):
    answer = client.enter()
    assert (answer.status, answer.getheader("Location")) == (303, "/")
    cookie = answer.getheader("Set-Cookie").lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize("path", ["/", "/data", "/progress", "/static/app.js", "/file/compare"])
def test_no_request_without_the_token_is_answered(client, path):
    for wrong in (path, f"{path}?token=wrong"):
        answer = client.send("GET", wrong, Origin="")
        assert answer.status == 403
        assert "token" in answer.text
    client.cookie = f"missdp-{client.server.port}=wrong"
    assert client.send("GET", path, Origin="").status == 403


def test_other_hosts_are_refused(client):
    client.enter()
    for host in ("evil.example", f"localhost:{client.server.port}", "127.0.0.1:1"):
        answer = client.send("GET", "/data", Host=host, Origin="")
        assert answer.status == 403
        assert client.host in answer.text


@pytest.mark.parametrize("origin", ["", "null", "http://evil.example", "http://127.0.0.1:1"])
def test_forms_of_other_origins_are_refused(client, space, origin):
    client.enter()
    answer = client.send("POST", "/data/read", "data=people.csv", Origin=origin)
    assert answer.status == 403
    assert space.job is None


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_that_other_pages_start_are_refused(client, site):
    client.enter()
    assert client.send("GET", "/data", Origin="", Sec_Fetch_Site=site).status == 403
    assert client.send("GET", "/data", Origin="", Sec_Fetch_Site="same-origin").status == 200


def test_headers_forbid_caches_frames_and_other_sources(client):
    client.enter()
    for path in (*(f"/{step}" for step in STEPS), "/progress", "/static/app.css", "/file/rows"):
        answer = client.send("GET", path, Origin="")
        assert answer.getheader("Cache-Control") == "no-store"
        policy = answer.getheader("Content-Security-Policy")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.getheader("Server") is None


def test_every_step_is_shown_and_other_paths_lead_to_the_first(client):
    client.enter()
    for step in STEPS:
        assert f'<a href="/{step}" aria-current="step">' in client.page(step)
    assert client.send("GET", "/nowhere", Origin="").getheader("Location") == "/data"
    assert client.send("GET", "/static/../server.py", Origin="").status == 404
    assert client.send("GET", "/file/open", Origin="").status == 404


def test_an_unknown_action_is_a_problem(client):
    client.enter()
    assert "there is no such action" in client.do("data", "nonsense")


def test_an_unexpected_error_shows_nothing_private(client, space, monkeypatch, capfd):
    client.enter()

    def fail(*_):
        raise RuntimeError("secret 7")

    monkeypatch.setattr("missdp.app.server.page", fail)
    answer = client.send("GET", "/data", Origin="")
    assert (answer.status, "secret" in answer.text) == (500, False)
    assert "secret" not in "".join(capfd.readouterr())


def test_the_token_redirects_to_this_page_only(client):
    token = client.server.url.partition("token=")[2]
    answer = client.send("GET", f"//example.com/?token={token}", Origin="")
    assert answer.getheader("Location") == "/example.com/"


def test_a_form_that_is_too_long_is_not_read(client, space, monkeypatch):
    monkeypatch.setattr("missdp.app.server._MAX_BYTES", 10)
    client.enter()
    answer = client.send("POST", "/data/read", "data=" + "people.csv" * 9)
    assert answer.status == 413
    assert space.job is None


def test_progress_is_json_without_a_job(client):
    client.enter()
    answer = client.send("GET", "/progress", Origin="")
    assert json.loads(answer.text) == {"running": False, "stage": "", "done": None}
