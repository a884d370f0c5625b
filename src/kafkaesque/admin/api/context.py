"""What the handlers of the API share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kafkaesque.admin.api.fan_out import FanOut
from kafkaesque.admin.api.paging import PageOf
from kafkaesque.admin.api.values import Listing, Origin, View
from kafkaesque.admin.census import Census, take_census
from kafkaesque.admin.series import Sampler
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_views import readable_partition
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import LeaderNotAvailable
from kafkaesque.model.ids import NodeId, TopicPartition

#: A census that is not older than this serves once more.
CENSUS_MS_MAX: Final = 2_000
#: The same for a view as a whole.
SHARED_MS_MAX: Final = 1_000
#: Nothing takes so long.
GIVEN_UP_MS: Final = 10_000

ViewT = TypeVar("ViewT", bound=View)
ListingT = TypeVar("ListingT", bound=Listing)


class CensusDesk:
    """Counts for many who ask at about the same time once."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._census: Census | None = None
        self._at_ms = 0
        self._waiting: list[Callable[[Census], None]] = []

    def take(self, on_done: Callable[[Census], None]) -> None:
        """Return a census of the last two seconds."""
        now_ms = self._doors.clock.now_ms()
        if self._census is not None and now_ms - self._at_ms <= CENSUS_MS_MAX:
            on_done(self._census)
            return
        self._waiting.append(on_done)
        if len(self._waiting) == 1:
            take_census(self._doors, self._on_counted)

    def _on_counted(self, census: Census) -> None:
        self._census, self._at_ms = census, self._doors.clock.now_ms()
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done(census)


class SharedView(Generic[ViewT]):
    """A view that is made once for many who ask within a second; it says itself how old it is."""

    def __init__(self, clock: Clock, make: Callable[[Callable[[ViewT], None]], None]) -> None:
        self._clock = clock
        self._make = make
        self._view: ViewT | None = None
        self._made_ms = 0
        self._begun_ms = 0
        self._waiting: list[Callable[[ViewT], None]] = []

    def take(self, on_done: Callable[[ViewT], None]) -> None:
        """Return the view, if there is none of the last second when it is made."""
        now_ms = self._clock.now_ms()
        if self._view is not None and now_ms - self._made_ms < SHARED_MS_MAX:
            on_done(self._view)
            return
        self._waiting.append(on_done)
        # Should it never have been done, those who come later do not wait for it.
        if len(self._waiting) == 1 or now_ms - self._begun_ms > GIVEN_UP_MS:
            self._begun_ms = now_ms
            self._make(self._on_made)

    def _on_made(self, view: ViewT) -> None:
        self._view, self._made_ms = view, self._clock.now_ms()
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done(view)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One broker, as the API sees it."""

    doors: Doors
    chassis: Chassis
    version: str
    sampler: Sampler
    fan_out: FanOut
    census: CensusDesk

    @property
    def node(self) -> NodeId:
        """This broker."""
        return self.doors.cluster.node

    def now(self) -> int:
        """Return the time that answers bear."""
        return self.doors.clock.wall_ms()

    def page_view(
        self, listing: Callable[..., ListingT], page: PageOf, sources: Sequence[Origin] = ()
    ) -> ListingT:
        """Return a page of a list as it is answered."""
        return listing(
            as_of=self.now(),
            seen_by=self.node,
            sources=list(sources),
            total=page.total,
            next=page.next,
            items=page.items,
        )

    def leader(self, where: TopicPartition) -> NodeId:
        """Return who leads a partition of a topic, or of a queue that is shown as one.

        Raises:
            UnknownTopicOrPartition: there is none.
            LeaderNotAvailable: nobody does, as far as is known.
        """
        cluster = self.doors.cluster
        placed = readable_partition(cluster.state, where.topic, where.partition)
        leader = cluster.leaders.leader(placed.group)
        if leader is None:
            raise LeaderNotAvailable(f"{where} has no leader at the moment")
        return leader
