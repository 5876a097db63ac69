"""Private rows that note when they are read and when noise is drawn."""

from missdp.accounting import PureEvent
from missdp.session.session import Release

EVENT = PureEvent(epsilon=0.25, label="made up")


class Rows:
    """Private rows that note when they are read and when noise is drawn."""

    adjacency, facts, conditions = "add-remove", None, ()

    def __init__(self, budget, *, ledger="", exact=None, **facts):
        self.budget, self.ledger, self.facts_of_release = budget, ledger, facts
        self.log, self.computing = [], exact

    def exact(self, *at):
        self.log.append(("computed", len(self.budget.events), *at))
        return self.computing() if self.computing else 7

    def draw(self, exact, source):
        del source
        self.log.append(("drawn", len(self.budget.events)))
        return exact

    def plan(self, query, mechanism):
        del query, mechanism
        return Release(EVENT, self, self.exact, **self.facts_of_release)

    def changed(self, change, rng):
        del change, rng
        return self

    def expect(self, queries):
        del queries

    def __repr__(self):
        return "rows"
