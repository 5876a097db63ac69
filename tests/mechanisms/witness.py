"""What tests of the doors share: a witness that keeps what is behind every answer."""

from missdp.mechanisms import Witness


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
