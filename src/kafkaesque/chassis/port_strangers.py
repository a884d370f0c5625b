"""Clients of a port over HTTP that have to say who they are, and have not yet.

Each request says it, so a connection may be anybody's before its first one, and between those that
are refused. Such clients have half of a port at most, so that who is known finds room. One more
costs a connection of that address which has most of them: the one that came first.
"""

from typing import Final, Protocol

from kafkaesque.access.attempts import group_of


class Stranger(Protocol):
    """A connection that nobody has logged in by."""

    @property
    def peer_host(self) -> str:
        """The client's address."""

    def refuse(self, reason: str) -> None:
        """Close it at once."""


class PortStrangers:
    """Of one port."""

    __slots__ = ("_by_place", "_count", "_most")

    def __init__(self, most: int) -> None:
        self._most: Final = most
        #: Those that came first at the front.
        self._by_place: Final[dict[str, dict[int, Stranger]]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def add(self, stranger: Stranger) -> None:
        """Somebody has come."""
        self._by_place.setdefault(group_of(stranger.peer_host), {})[id(stranger)] = stranger
        self._count += 1
        if self._count > self._most:
            most = max(self._by_place.values(), key=len)
            first = next(iter(most.values()))
            self.remove(first)
            first.refuse(f"{self._most} clients have not said who they are, of whom it is one")

    def remove(self, stranger: Stranger) -> None:
        """It has said who it is, or is gone; harmless if it was not here."""
        place = group_of(stranger.peer_host)
        found = self._by_place.get(place, {})
        if found.pop(id(stranger), None) is None:
            return
        self._count -= 1
        if not found:
            del self._by_place[place]
