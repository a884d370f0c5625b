"""Messages that are on their way through lanes: how many places they need yet, and who is told."""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.model.errors import RequestRefused

#: How many have a message, or why it is not everywhere; called once.
OnKept = Callable[[int | RequestRefused], None]
#: Which messages of a run are not everywhere, and why, by their numbers in it; called once.
OnRunKept = Callable[[dict[int, RequestRefused]], None]
#: A topic has a message, or has refused it; called once.
OnLogged = Callable[[], None]


class Ticket:
    """A message that is on its way to one or more places."""

    __slots__ = ("count", "held", "left", "lost", "on_kept", "refused", "size", "total")

    def __init__(self, total: int, size: int, held: int, on_kept: OnKept) -> None:
        self.total = total
        self.count = 1
        #: Times that a place has to have a message.
        self.left = total
        #: Bytes of the largest one that a place gets.
        self.size = size
        #: Bytes of all that is kept of it until it is there.
        self.held = held
        #: The first refusals, by numbers of messages.
        self.refused: dict[int, RequestRefused] = {}
        #: In how many places that are gone with what they had messages would have been, by numbers.
        self.lost: dict[int, int] = {}
        self.on_kept = on_kept

    def lose(self, first: int, count: int, refusal: RequestRefused) -> None:
        """A place of some messages is gone: nobody misses them there, if they are elsewhere."""
        for number in range(first, first + count):
            lost = self.lost[number] = self.lost.get(number, 0) + 1
            if lost == self.total:
                self.refused.setdefault(number, refusal)

    def finish(self) -> None:
        """All places have said what they make of it."""
        self.on_kept(self.refused.get(0, self.total - self.lost.get(0, 0)))


class RunTicket(Ticket):
    """Messages that are on their way together, to the same places."""

    __slots__ = ("on_run_kept",)

    def __init__(
        self, total: int, count: int, size: int, held: int, on_run_kept: OnRunKept
    ) -> None:
        super().__init__(total, size, held, _nobody)
        self.count = count
        self.left = total * count
        self.on_run_kept = on_run_kept

    def finish(self) -> None:
        """See `Ticket`."""
        self.on_run_kept(self.refused)


def _nobody(_: int | RequestRefused) -> None:
    """A run is told otherwise."""


class LoggedTicket(RunTicket):
    """Messages that a topic is to have before references to them go to queues."""

    __slots__ = ("log", "missing", "on_logged", "places", "refusal")

    def __init__(
        self,
        total: int,
        count: int,
        size: int,
        held: int,
        on_run_kept: OnRunKept,
        log: str,
        on_logged: OnLogged,
    ) -> None:
        super().__init__(total, count, size, held, on_run_kept)
        #: The topic.
        self.log = log
        #: Told when it is known what has become of all, before `on_run_kept`.
        self.on_logged = on_logged
        #: In which partition each is and at which offset.
        self.places: list[tuple[int, int]] = [(-1, -1)] * count
        #: How many are not known of.
        self.missing = count
        #: Why one of them, or all, are not there.
        self.refusal: RequestRefused | None = None

    def note(self, first: int, count: int, place: tuple[int, int] | RequestRefused) -> None:
        """The topic has some of them, from a place on, or has refused them."""
        if isinstance(place, RequestRefused):
            self.refusal = self.refusal or place
        else:
            partition, offset = place
            self.places[first : first + count] = [(partition, offset + at) for at in range(count)]
        self.missing -= count
        if not self.missing:
            self.on_logged()
