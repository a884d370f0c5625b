"""What is wrong, as far as it was seen."""

from typing import Final

#: More anomalies of one run are counted, not described.
ANOMALIES_MAX: Final = 100


class Findings:
    """The anomalies of one run, whoever saw them."""

    def __init__(self) -> None:
        self.anomalies: list[str] = []
        #: All of them, described or not.
        self.count = 0
        self._producer_ids: dict[int, str] = {}

    def note(self, what: str) -> None:
        """Something that must never be was seen."""
        self.count += 1
        if len(self.anomalies) < ANOMALIES_MAX:
            self.anomalies.append(what)

    def note_producer_id(self, name: str, producer_id: int) -> None:
        """A producer got its id; nobody else may get the same."""
        owner = self._producer_ids.setdefault(producer_id, name)
        if owner != name:
            self.note(f"producer id {producer_id} was given to {owner} and to {name}")
