"""What tests of the doors share: a witness that keeps what is behind every answer."""

from typing import Any

from missdp.mechanisms import Witness


class Keeper(Witness):
    """Keeps what was charged, by which law it is answered, the exact numbers, and the answers."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.kept: list[tuple[Any, Any, Any]] = []
        self.answers: list[Any] = []

    def answer(self, event: Any, law: Any, exact: Any) -> Any:
        self.event, self.law, self.exact = found = event, law, exact()
        self.kept.append(found)
        self.answers.append(super().answer(event, law, lambda: found[2]))
        return self.answers[-1]
