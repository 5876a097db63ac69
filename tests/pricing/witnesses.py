"""Witnesses of the replace-one door that also see that everything was charged for first."""

from missdp.testing.findings import Differs, Recorder, Repeater


class Tape(Repeater):
    """Keep every answer with what was behind it; or, for another table, repeat what was kept."""

    def __init__(self, repeat=None, budget=None):
        super().__init__(repeat or Recorder(0))
        self.repeats, self.budget = repeat is not None, budget

    def answer(self, event, law, exact):
        if self.budget is not None and event not in self.budget.events:
            raise Differs("not charged before")
        kind = Repeater if self.repeats else Recorder
        return kind.answer(self, event, law, exact)

    def answered(self):
        """What was charged for, in order, and how often the rows were read for it."""
        found = []
        for one in self.kept:
            again = found and found[-1][0] is one.event
            found[-1:] = [(one.event, found[-1][1] + 1)] if again else [*found[-1:], (one.event, 1)]
        return found
