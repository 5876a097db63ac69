"""A PostgreSQL server of our own: in a temporary folder, on a Unix socket, gone afterwards."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

_PLACES = ("/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/17/bin")


def _binary(name):
    return shutil.which(name, path=os.pathsep.join((*_PLACES, os.environ.get("PATH", ""))))


def _user():
    """Return the user that runs the server. The superuser root may not run one."""
    if not hasattr(os, "getuid") or os.getuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    pytest.skip("needs a user 'postgres' to run the server as")


@contextlib.contextmanager
def server():
    initdb, postgres = _binary("initdb"), _binary("postgres")
    if initdb is None or postgres is None:
        pytest.skip("needs PostgreSQL: install postgresql")
    user = _user()
    options = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid}
    name = "postgres"
    folder = Path(tempfile.mkdtemp(prefix="missdp-pg-", dir="/tmp"))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    try:
        subprocess.run(
            [initdb, "-D", folder / "data", "-U", name, "-A", "trust", "--no-sync", "-E", "UTF8"],
            check=True, stdout=subprocess.DEVNULL, cwd=folder, **options,
        )  # fmt: skip
        settings = ("fsync=off", "listen_addresses=", f"unix_socket_directories={folder}",
                    "shared_buffers=32MB", "max_connections=40")  # fmt: skip
        arguments = [part for setting in settings for part in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [postgres, "-D", folder / "data", *arguments], stdout=log, stderr=log,
                cwd=folder, **options,
            )  # fmt: skip
        try:
            _wait(folder / ".s.PGSQL.5432")
            yield f"postgresql://{name}@/postgres?host={folder}"
        finally:
            process.send_signal(signal.SIGINT)  # fast shutdown
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            if process.poll() is None:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(socket):
    psycopg = pytest.importorskip("psycopg")
    for _ in range(200):
        if socket.exists():
            with contextlib.suppress(psycopg.Error):
                address = f"host={socket.parent} user=postgres dbname=postgres"
                psycopg.connect(address).close()
                return
        time.sleep(0.1)
    raise AssertionError("the server did not start")
