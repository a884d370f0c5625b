"""Whose a committed offset is, where a topic was deleted and made anew under its name.

Offsets are stored with the id of their topic, so that those of a deleted topic are not taken for
its namesake's. A client that commits by name does not say which topic it means; a coordinator that
lags behind the controller may take the name for the topic that was. So an offset that was committed
by name goes by time, too, where the ids do not tell: it is of the topic that had the name then.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.topic_views import find_readable
from kafkaesque.env.clock import Clock
from kafkaesque.groups.results import FetchedOffset

#: So long somebody who asks for offsets may wait until this broker knows whose they are.
SURE_MS_MAX: Final = 2_000
#: So long after a commit by name it is found out whether the name was known rightly, for all
#: commits of that time at once.
CONFIRM_MS: Final = 500
CONFIRM_TIMEOUT_MS: Final = 5_000


def is_of_topic(state: ClusterState, each: FetchedOffset) -> bool:
    """Tell whether an offset is not one of another topic than has its name now."""
    topic = find_readable(state, each.partition.topic)
    if topic is None or each.committed is None or _has_id(topic.topic_id, each):
        return True
    committed = each.committed
    return committed.is_by_name and 0 < topic.created_ms <= committed.commit_wall_ms


def _has_id(topic_id: bytes, each: FetchedOffset) -> bool:
    return each.committed is None or each.committed.topic_id in (None, topic_id)


class KnownMetadata(Protocol):
    """What is needed of the metadata: what is known, and a wait until that is the newest."""

    @property
    def state(self) -> ClusterState:
        """The metadata as they are known here."""

    @property
    def when_current(self) -> Callable[[int, Callable[[bool], None]], None]:
        """See `MetadataView.when_current`."""


def when_sure(
    metadata: KnownMetadata, offsets: Iterable[FetchedOffset], on_done: Callable[[bool], None]
) -> None:
    """Call with True once `is_of_topic` can be believed, which is nearly always at once.

    An id that is not the topic's may be newer than what this broker knows: then the controller is
    asked; with False if it did not answer in time.
    """
    for each in offsets:
        topic = find_readable(metadata.state, each.partition.topic)
        if topic is not None and not _has_id(topic.topic_id, each):
            metadata.when_current(SURE_MS_MAX, on_done)
            return
    on_done(True)


class NameWatch:
    """Until when this broker has taken the names in commits for the right topics."""

    def __init__(
        self,
        *,
        clock: Clock,
        metadata: MetadataView,
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._is_due = False
        #: Unix time, by this broker's clock. What was deleted before it, this broker knew of then.
        self.confirmed_wall_ms = 0

    def on_commit(self) -> None:
        """Something is committed by name: have it confirmed."""
        if not self._is_due:
            self._is_due = True
            self._clock.call_later(CONFIRM_MS, self._confirm)

    def _confirm(self) -> None:
        self._is_due = False
        asked_wall_ms = self._clock.wall_ms()

        def on_done(is_current: bool) -> None:
            if is_current:
                self.confirmed_wall_ms = max(self.confirmed_wall_ms, asked_wall_ms)

        self._metadata.when_current(CONFIRM_TIMEOUT_MS, on_done)
