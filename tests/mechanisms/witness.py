"""What tests of the doors share: a witness that keeps what is behind every answer, and a door."""

from missdp.accounting import Budget, Cost
from missdp.mechanisms import Door, Witness
from missdp.sources import MemorySource, strategy_named


class Keeper(Witness):
    """Keeps what was charged, by which law it is answered, the exact numbers, and the answers."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.kept = []
        self.answers = []

    def answer(self, event, law, exact):
        self.event, self.law, self.exact = found = event, law, exact()
        self.kept.append(found)
        self.answers.append(super().answer(event, law, lambda: found[2]))
        return self.answers[-1]


def strange(kind):
    """A stranger's type, made from one of ours: it could state another event, or keep counts."""
    return type("Strange", (kind,), {})


def door_to(source, missing="joint", *, cost=None, noise=None):
    """Return what keeps the answers, and a door to a source, or to rows in memory."""
    noise = noise or Keeper(0)
    budget = Budget.from_cost(cost or Cost(currency="gdp", amount=1.0), delta=1e-6)
    source = source if hasattr(source, "counts") else MemorySource(source)
    return noise, Door(source, strategy_named(missing), budget=budget, noise=noise)
