"""``missdp app``: the page in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from missdp.cli import check_stdout, emit
from missdp.cli.options import FILE, Command, data_argument, ledger_options, option


@click.command(cls=Command)
@data_argument(metavar="[DATA]", required=False)
@option("--schema", "Schema file that the page shows first.", "Data", type=FILE)
@option("--port", "Port on this machine. Default: any free port.", type=int, default=0)
@option("--no-browser", "Print the address only.", is_flag=True)
@ledger_options
def app(
    data: str | None,
    schema: Path | None,
    port: int,
    no_browser: bool,
    ledger: str | None,
    account: str | None,
) -> None:
    """Open a page in the browser that leads from a private table to a published release.

    The page runs the commands of this tool and shows each command line. It listens on 127.0.0.1
    only, and needs the secret of the printed address. Ctrl-C stops it.

    Try:
      missdp app
      missdp app patients.csv
      missdp app patients.csv --schema patients.toml --no-browser
    """
    from missdp.app.server import PageServer
    from missdp.app.workspace import Workspace

    check_stdout()
    space = Workspace(data or "", schema, ledger=ledger or "", account=account or "")
    server = PageServer(space, port)
    text = f"The page is at {server.url}\nThe address is secret. Ctrl-C stops the page."
    emit({"url": server.url}, text)
    server.run(browser=not no_browser)
