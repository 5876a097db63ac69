"""Writers of one ledger that are killed with -9 meanwhile, and how fast charges are.

    python bench/ledger.py [URL] [--writers 16] [--charges 200] [--kills] [--budgets 1]

Without a URL: SQLite in a temporary folder. Every writer makes its charges under ids of their own,
and writes down what it drew after each; with ``--kills`` one is killed every 50 to 500 ms and
replaced by one that asks for the same ids again. Then: overspent, lost (drawn, but not charged),
doubled (charged twice), drawn twice. The budgets hold three quarters of what is asked for. Then the
same for "compute, then charge", which the ledger replaces: the answers that were free.
"""

import argparse
import hashlib
import os
import random
import signal
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

from missdp.accounting import PureEvent
from missdp.errors import BudgetExceededError, LedgerError
from missdp.office import Ledger

COST = 1e-12
EVENTS = (PureEvent(epsilon=COST),)


def request_of(writer, number):
    """Return the id of a writer's request."""
    return hashlib.sha256(f"{writer}/{number}".encode()).hexdigest()[:32]


def write(url, writer, charges, budgets, folder, late):
    """Charge, then draw, or for comparison the other way round; note every draw."""
    ledger = Ledger(url, who=f"writer {writer}")
    drawn = os.open(folder / f"{writer}.drawn", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    name = f"table-{writer % budgets}"
    noted = (folder / f"{writer}.drawn").read_text().split()[:-1]  # the last one is asked again
    for number in range(charges):
        request = request_of(writer, number)
        if request in noted:
            continue
        if late:
            os.write(drawn, f"{request}\n".encode())
        try:
            ledger.start(name, EVENTS, request=request)
        except LedgerError as error:  # spent, refused, or the server is gone: never drawn
            if "cannot be used" in str(error):
                time.sleep(0.2)
            continue
        except BudgetExceededError:
            continue
        if not late:
            os.write(drawn, f"{request}\n".encode())


def forked(*given):
    """Run a writer in a process of its own."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            write(*given)
            code = 0
        finally:
            os._exit(code)
    return child


def run(url, *, writers, charges, budgets=1, kills=False, late=False, seed=0):
    """Let writers charge budgets; return what went wrong, and how fast it went."""
    ledger = Ledger(url)
    asked = -(-writers // budgets) * charges
    for number in range(budgets):
        ledger.create(f"table-{number}", epsilon=float(Fraction(3 * asked, 4) / 10**12))
    ledger.close()  # a child inherits no connection
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder, began, killed = Path(place), time.perf_counter(), 0
        start = lambda w: forked(url, w, charges, budgets, folder, late)  # noqa: E731
        alive = {start(writer): writer for writer in range(writers)}
        following = time.perf_counter() + rng.uniform(0.05, 0.5)
        while alive:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child:
                writer = alive.pop(child)
                if status:
                    alive[start(writer)] = writer
            elif kills and time.perf_counter() > following:
                os.kill(rng.choice([*alive]), signal.SIGKILL)
                killed, following = killed + 1, time.perf_counter() + rng.uniform(0.05, 0.5)
            else:
                time.sleep(0.002)
        seconds = time.perf_counter() - began
        drawn = Counter(
            line for path in folder.glob("*.drawn") for line in path.read_text().split()
        )
    return found(ledger, drawn) | {"killed": killed, "seconds": round(seconds, 2)}


def found(ledger, drawn):
    """Compare what was drawn with what the ledger holds, which is verified."""
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


def bare_rate(folder, times=200):
    """Return how many small writes a second this disk makes lasting."""
    with (folder / "bare").open("wb") as file:
        began = time.perf_counter()
        for _ in range(times):
            file.write(b"x" * 600)
            file.flush()
            os.fsync(file.fileno())
    return times / (time.perf_counter() - began)


def main():
    """Print one line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--charges", type=int, default=200)
    parser.add_argument("--budgets", type=int, default=1)
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--late", action="store_true", help="compute, then charge: what to avoid")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.url or f"sqlite:///{folder}/budget.db"
        got = run(
            url,
            writers=asked.writers,
            charges=asked.charges,
            budgets=asked.budgets,
            kills=asked.kills,
            late=asked.late,
        )
        total = asked.writers * asked.charges
        print(got, f"{total / got['seconds']:.0f} requests/s", end="; ")
        print(f"{bare_rate(Path(folder)):.0f} writes with fsync/s on this disk")


if __name__ == "__main__":
    main()
