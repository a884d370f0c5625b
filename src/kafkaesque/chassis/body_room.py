"""Memory for the bodies of HTTP requests, of all ports of a broker together.

Each body has a bound, and so has the number of connections; their product is more than a machine
has. So bodies share two rooms: one of clients that have said who they are, or need not, and a
smaller one of strangers. Who may send a long body is often known only when all of it is there (a
signature covers it), so strangers have to have some room. Where a room is full, the one that came
first has to go, as with strangers at other ports: who sends slowly makes place for who does not.
"""

from typing import Final, Protocol

#: Of clients that have said who they are, or need not.
KNOWN_BYTES_MAX: Final = 256 * 1024 * 1024
STRANGERS_BYTES_MAX: Final = 32 * 1024 * 1024


class Sender(Protocol):
    """A connection whose request has a body."""

    def refuse(self, reason: str) -> None:
        """Close it at once."""


class BodyRoom:
    """Bytes that are held for requests, from the first until the request is answered."""

    __slots__ = ("_bytes_max", "_held", "_held_bytes", "_may_go")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max: Final = bytes_max
        self._held: Final[dict[int, int]] = {}
        self._held_bytes = 0
        #: By `id`, the one that came first at the front; requests that are answered are not here.
        self._may_go: Final[dict[int, Sender]] = {}

    @property
    def held_bytes(self) -> int:
        """How much is held for all of them."""
        return self._held_bytes

    def held_by(self, sender: Sender) -> int:
        """Return how much is held for one of them."""
        return self._held.get(id(sender), 0)

    def take(self, sender: Sender, count: int) -> bool:
        """Hold so many more bytes for a request; False where no other one can make place."""
        self._may_go.setdefault(id(sender), sender)
        while self._held_bytes + count > self._bytes_max:
            first = next((each for each in self._may_go.values() if each is not sender), None)
            if first is None:
                return False
            self.release(first)
            first.refuse("too many long requests come at once, and this one takes longest")
        self._held[id(sender)] = self._held.get(id(sender), 0) + count
        self._held_bytes += count
        return True

    def keep(self, sender: Sender) -> None:
        """All of a request is there, and is answered: it does not have to go any more."""
        self._may_go.pop(id(sender), None)

    def release(self, sender: Sender) -> None:
        """Hold nothing for a sender any more; harmless if nothing is held."""
        self._may_go.pop(id(sender), None)
        self._held_bytes -= self._held.pop(id(sender), 0)


class BodyRooms:
    """One for each broker."""

    __slots__ = ("known", "strangers")

    def __init__(self) -> None:
        self.known: Final = BodyRoom(KNOWN_BYTES_MAX)
        self.strangers: Final = BodyRoom(STRANGERS_BYTES_MAX)

    def let_in(self, sender: Sender) -> BodyRoom:
        """A stranger whose request has come has said by it who it is; return where it is held.

        Where there is no place among those that are known, it stays where it is.
        """
        if self.known.take(sender, self.strangers.held_by(sender)):
            self.strangers.release(sender)
            room = self.known
        else:
            self.known.release(sender)
            room = self.strangers
        room.keep(sender)
        return room
