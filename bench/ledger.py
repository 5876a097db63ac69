"""Writers of one ledger that are killed with -9 while they charge, and the rate of charges.

Usage::

    python bench/ledger.py writers [URL] [--writers 16] [--charges 200] [--kills] [--budgets 1]
    python bench/ledger.py server --kills             # writers of a separate PostgreSQL server
    python bench/ledger.py server --kills --crashes   # the server is killed with -9, too
    python bench/ledger.py growth [--charges 100000]  # CPU time of a charge as the ledger grows
    python bench/ledger.py releases [--charges 200] [--late]  # commands that are killed

Without a URL, the ledger is SQLite in a temporary folder. Every writer charges under separate
request ids, and writes down each draw afterwards. With ``--kills``, a writer is killed every 50 to
500 ms. A new writer then repeats its request ids. The script prints the numbers of charges that are
overspent, lost (drawn, but not charged), doubled (charged twice) or drawn twice. The budgets hold
three quarters of the requested cost. With ``--late``, writers compute first and charge afterwards.
The ledger replaces this order, which gives free answers.

``releases`` kills `missdp synthesize` and `query` on a small table before and after each commit,
and at ``--charges`` random times. It counts outputs without a charge and double charges.

``TMPDIR=/dev/shm`` keeps all files in memory. A killed process loses no more there than on a disk,
and more kills fit into an hour.
"""

import argparse
import contextlib
import hashlib
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

from sqlalchemy import Connection

from missdp import Categorical, Numeric, Schema
from missdp.accounting import PureEvent
from missdp.cli.app import command_named
from missdp.cli.main import main as run_command
from missdp.errors import BudgetExceededError, LedgerError
from missdp.governance import Ledger, Started

COST = 1e-12
EVENTS = (PureEvent(epsilon=COST),)


def request_of(writer, number):
    """Return the id of a writer's request."""
    return hashlib.sha256(f"{writer}/{number}".encode()).hexdigest()[:32]


def write(url, writer, charges, budgets, folder, late):
    """Charge, then draw, or for comparison in the reverse order. Note every draw."""
    ledger = Ledger(url, who=f"writer {writer}")
    drawn = os.open(folder / f"{writer}.drawn", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    name = f"table-{writer % budgets}"
    refused = os.open(folder / f"{writer}.refused", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    # The last request is repeated.
    noted = {*(folder / f"{writer}.drawn").read_text().split()[:-1]}
    noted |= {*(folder / f"{writer}.refused").read_text().split()}
    for number in range(charges):
        request = request_of(writer, number)
        if request in noted:
            continue
        line = f"{request}\n".encode()
        if late:
            os.write(drawn, line)
        granted = charged(ledger, name, request)
        if not late or not granted:
            os.write(drawn if granted else refused, line)


def charged(ledger, name, request):
    """Whether a request is charged now. The request is repeated while the server is down."""
    while True:
        try:
            ledger.start(name, EVENTS, request=request)
        except BudgetExceededError:
            return False
        except LedgerError as error:  # spent, refused, or the server is down
            if "cannot be used" not in str(error):
                return False
            time.sleep(0.2)
        else:
            return True


def forked(*arguments):
    """Run a writer in a separate process."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            write(*arguments)
            code = 0
        finally:
            os._exit(code)
    return child


def run(url, *, writers, charges, budgets=1, kills=False, late=False, seed=0, server=None):
    """Let writers charge budgets. Return the problems and the seconds."""
    ledger = Ledger(url)
    asked = -(-writers // budgets) * charges
    for number in range(budgets):
        ledger.create(f"table-{number}", epsilon=float(Fraction(3 * asked, 4) / 10**12))
    ledger.close()  # a child inherits no connection
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder, began, killed, crashed = Path(place), time.perf_counter(), 0, 0
        start = lambda w: forked(url, w, charges, budgets, folder, late)  # noqa: E731
        alive = {start(writer): writer for writer in range(writers)}
        following, crash = began + rng.uniform(0.05, 0.5), began + rng.uniform(3, 10)
        while alive:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child in alive:
                writer = alive.pop(child)
                if status:
                    alive[start(writer)] = writer
            elif kills and time.perf_counter() > following:
                os.kill(rng.choice([*alive]), signal.SIGKILL)
                killed, following = killed + 1, time.perf_counter() + rng.uniform(0.05, 0.5)
            elif server is not None and time.perf_counter() > crash:
                server.crash()
                crashed, crash = crashed + 1, time.perf_counter() + rng.uniform(3, 10)
            else:
                time.sleep(0.002)
        seconds = time.perf_counter() - began
        drawn = Counter(
            line for path in folder.glob("*.drawn") for line in path.read_text().split()
        )
    killings = {"killed": killed} | ({"crashed": crashed} if server is not None else {})
    return compared(ledger, drawn) | killings | {"seconds": round(seconds, 2)}


def compared(ledger, drawn):
    """Compare the draws with the lines of the ledger, which is verified."""
    ledger.verify()
    lines = [line["request"] for line in ledger.history() if line["state"] == "started"]
    over = sum(row.spent > Fraction(repr(row.facts.cost.amount)) for row in ledger.rows().values())
    spent = sum(row.spent for row in ledger.rows().values())
    return {
        "charged": len(lines),
        "overspent": over + (spent != len(lines) * Fraction(1, 10**12)),
        "lost": len({*drawn} - {*lines}),
        "doubled": len(lines) - len({*lines}),
        "drawn twice": sum(times > 1 for times in drawn.values()),
    }


class Server:
    """A separate PostgreSQL server in a temporary folder, as Debian installs it."""

    def __init__(self, folder):
        binary = max(Path("/usr/lib/postgresql").glob("*/bin"))
        user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        self._as = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid}
        self._binary, self._folder = binary, folder
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        made = [binary / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=folder, **self._as)
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self.start()

    def start(self):
        """Start the server. It replays the log that it wrote before it was killed."""
        facts = ("listen_addresses=", f"unix_socket_directories={self._folder}")
        settings = [part for one in facts for part in ("-c", one)]
        command = [self._binary / "postgres", "-D", self._folder / "data", *settings]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, **self._as
            )
        import psycopg

        for _ in range(600):
            time.sleep(0.05)
            if self._process.poll() is not None:  # the killed server still frees memory
                return self.start()
            with contextlib.suppress(psycopg.Error):
                return psycopg.connect(self.url).close()
        raise SystemExit("the server does not start")

    def crash(self):
        """Kill the server and its children with -9, and start it again."""
        number = self._process.pid
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        for one in (number, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            self._process.wait()
        self.start()

    def stop(self):
        """Stop the server."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=60)


@contextlib.contextmanager
def served():
    """Yield a server that is stopped afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="ledger-"))
    try:
        server = Server(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bare_rate(folder, times=200):
    """Return the number of small writes that reach this disk in a second."""
    with (folder / "bare").open("wb") as file:
        began = time.perf_counter()
        for _ in range(times):
            file.write(b"x" * 600)
            file.flush()
            os.fsync(file.fileno())
    return times / (time.perf_counter() - began)


PGBENCH = r"""
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT last + 1 AS number FROM budgets WHERE name = 'table-' || (:client_id % {0}) FOR UPDATE \gset
SELECT body FROM lines WHERE request = (SELECT md5(random()::text)) ORDER BY number;
SELECT time FROM lines WHERE root = 'table-' || (:client_id % {0}) AND number = :number - 1;
INSERT INTO lines VALUES ('table-' || (:client_id % {0}), :number, md5(random()::text), 'started',
  NULL, '', repeat('x', 500), md5(:number::text));
UPDATE budgets SET spent = spent, failed = failed, spent_floor = spent_floor,
  failed_floor = failed_floor, last = :number, head = md5(:number::text)
  WHERE name = 'table-' || (:client_id % {0});
COMMIT;
"""


def pgbench(server, clients, budgets, seconds=5):
    """Return the number of transactions in a second, by pgbench, of the statements of a charge.

    The ledger does not verify afterwards, since only the statements are those of a charge.
    """
    script = server._folder / "script"
    script.write_text(PGBENCH.format(budgets))
    options = ("-n", "-c", str(clients), "-T", str(seconds), "-f", script, "-h", server._folder)
    said = subprocess.run(
        [server._binary / "pgbench", *options, "-U", "postgres", "postgres"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    (rate,) = (line.split()[2] for line in said.splitlines() if line.startswith("tps"))
    return float(rate)


def growth(url, charges, sample=500):
    """Print the CPU time of a charge after 100, 1,000, ... charges, and of the verification."""
    ledger = Ledger(url, who="one")
    ledger.create("table-0", epsilon=1.0)
    done, wanted = 0, 100
    while done < charges:
        for _ in range(wanted - done):
            ledger.start("table-0", EVENTS)
        began = time.process_time()
        for _ in range(sample):
            ledger.start("table-0", EVENTS)
        print(f"after {wanted}: {1e6 * (time.process_time() - began) / sample:.0f} µs")
        done, wanted = wanted + sample, min(10 * wanted, charges)
        if done > charges:
            break
    assert ledger.row("table-0").spent == done * Fraction(1, 10**12)
    began = time.process_time()
    ledger.verify()
    print(f"verified {done} in {time.process_time() - began:.1f} s")


RELEASE = "0123456789abcdef" * 2
PAID = ("--ledger", "sqlite:///budget.db", "--account", "patients")
COMMANDS = (
    (*("synthesize", "data.csv", "--schema", "schema.toml", "--epsilon", "1", "--delta", "0"),
     *("--method", "privbayes", "-o", "out.csv", "--rows", "20", *PAID)),
    (*("query", "data.csv", "mean(age)", "--schema", "schema.toml", "--impute", "age"),
     *("--match", "smoker", "--epsilon", "0.25", *PAID)),
)  # fmt: skip


def command(arguments, folder, *, boundary=None, late=False):
    """Run a command in a fork, which dies at the start or end of a commit. Return its number."""
    if child := os.fork():
        return child
    code = 70
    try:
        os.chdir(folder)
        for stream, name in ((1, "said"), (2, "errors")):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = (open(k, "w", closefd=False) for k in (1, 2))  # noqa: SIM115
        _note_draws()
        if late:
            _charge_late()
        if boundary is not None:
            _die_at(*boundary)
        code = run_command([*arguments])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _note_draws():
    """Write a line to a file whenever a release is computed."""
    from missdp import statistics
    from missdp.synth.base import Synthesizer

    for owner, name in ((Synthesizer, "fit"), (statistics, "run_queries")):
        real = getattr(owner, name)

        def noted(*arguments, _real=real, **named):
            with Path("drawn").open("a") as file:
                file.write("x\n")
            return _real(*arguments, **named)

        setattr(owner, name, noted)


def _charge_late():
    """Compute first and charge afterwards, in the order that the ledger replaces."""
    start, finish, requests = Ledger.start, Ledger.finish, []

    def put_off(_, *arguments, **named):
        requests.append((arguments, named))
        return Started(RELEASE, 0, "")

    def both(self, *arguments, **named):
        start(self, *requests[0][0], **requests[0][1])
        finish(self, *arguments, **named)

    Ledger.start, Ledger.finish = put_off, both


def _die_at(number, when):
    """Kill this process before or after the n-th commit, all of which write."""
    commit, commits = Connection.commit, []

    def dying(connection):
        commits.append(1)
        if when == "before" and len(commits) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(connection)
        if when == "after" and len(commits) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    Connection.commit = dying


def look(folder):
    """Return the state that a killed command leaves."""
    ledger = Ledger(f"sqlite:///{folder}/budget.db")
    lines = ledger.history()
    started = [line["request"] for line in lines if line["state"] == "started"]
    models = [*folder.glob("*.model.json")]
    files = [*models, *folder.glob("out.csv"), folder / "said"]
    out = any(path.exists() and path.stat().st_size > 0 for path in files)
    (summary,) = ledger.summaries("patients")
    ended = [line["request"] for line in lines if line["state"] == "released"]
    ledger.verify(*models)
    ledger.close()
    drawn = (folder / "drawn").read_text().count("x") if (folder / "drawn").exists() else 0
    return Counter(
        {
            "killed": 1,
            "charged when killed": bool(started),
            "free answers": out and not started,
            "charged twice": len(started) > 1,
            "drawn twice": drawn > 1,
            "hidden": {*started} - {*ended} != {*summary["started"]},
        }
    )


def prepare(folder):
    """Write a small table, its schema and its ledger."""
    smoker = Categorical(name="smoker", levels=("no", "yes"), nullable=True)
    age = Numeric(name="age", lower=0, upper=99, integer=True, bins=4, nullable=True)
    Schema((smoker, age)).to_toml(folder / "schema.toml")
    rng = random.Random(0)
    cells = [(rng.choice(["no", "yes", ""]), rng.choice(["", 5, 50, 70])) for _ in range(60)]
    rows = "".join(f"{smoker},{age}\n" for smoker, age in cells)
    (folder / "data.csv").write_text(f"smoker,age\n{rows}")
    Ledger(f"sqlite:///{folder}/budget.db").create("patients", epsilon=9.0)


def releases(times, *, late, seed=0):
    """Kill commands at commits and at random times. Print the problems."""
    rng, totals = random.Random(seed), {"at commits": Counter(), "at random times": Counter()}
    lasted = {}
    for name in ("synthesize", "query"):
        command_named(name)  # slow modules are imported once
    with tempfile.TemporaryDirectory() as place:
        folders = iter(Path(place) / str(number) for number in range(10**6))

        def fresh():
            folder = next(folders)
            folder.mkdir()
            prepare(folder)
            return folder

        for arguments in COMMANDS:
            for _ in range(2):  # the first run is slower
                folder, began = fresh(), time.perf_counter()
                os.waitpid(command(arguments, folder, late=late), 0)
                lasted[arguments] = time.perf_counter() - began
            print(arguments[0], f"lasts {lasted[arguments]:.2f} s", flush=True)
            for boundary in ((n, when) for n in range(1, 9) for when in ("before", "after")):
                folder = fresh()
                child = command(arguments, folder, boundary=boundary, late=late)
                if os.waitpid(child, 0)[1] != signal.SIGKILL:
                    break  # there are no more commits
                totals["at commits"] += look(folder)
        print("at commits", dict(totals["at commits"]), flush=True)
        for number in range(times):
            arguments, folder = COMMANDS[number % 2], fresh()
            child = command(arguments, folder, late=late)
            time.sleep(rng.uniform(0, 1.1 * lasted[arguments]))
            os.kill(child, signal.SIGKILL)
            if os.waitpid(child, 0)[1] == signal.SIGKILL:
                totals["at random times"] += look(folder)
            shutil.rmtree(folder)
    print("at random times", dict(totals["at random times"]))


def main():
    """Print the results of one kind of run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["writers", "server", "growth", "releases"])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--charges", type=int, default=200)
    parser.add_argument("--budgets", type=int, default=1)
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--crashes", action="store_true", help="kill the server, too")
    parser.add_argument("--late", action="store_true", help="compute first, charge afterwards")
    options = parser.parse_args()
    if options.what == "releases":
        releases(options.charges, late=options.late)
        return
    settings = {name: getattr(options, name) for name in ("writers", "charges", "budgets", "late")}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = options.url or f"sqlite:///{folder}/budget.db"
        if options.what == "growth":
            growth(url, options.charges)
            return
        server = None
        if options.what == "server":
            server = stack.enter_context(served())
            url = server.url
        crashed = server if options.crashes else None
        got = run(url, **settings, kills=options.kills, server=crashed)
        total = options.writers * options.charges
        print(got, f"{total / got['seconds']:.0f} requests/s", flush=True)
        if server is not None:
            rate = pgbench(server, options.writers, options.budgets)
            print(f"pgbench: {rate:.0f}/s of the same statements")
        print(f"{bare_rate(Path(folder)):.0f} writes with fsync/s there")


if __name__ == "__main__":
    main()
