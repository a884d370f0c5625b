"""What is told of a stream's origins: how many messages of each are still to come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.requests.commands import LATEST, FetchResult
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS
from kafkaesque.gateway.nats.jetstream.copier import origin_key
from kafkaesque.gateway.nats.jetstream.copying import Copying, origins_of
from kafkaesque.gateway.nats.jetstream.errors import ApiError
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.gateway.nats.jetstream.origins import sources_of
from kafkaesque.gateway.nats.jetstream.retention import catch_up
from kafkaesque.gateway.nats.jetstream.sources import StreamSource
from kafkaesque.gateway.nats.jetstream.stream_log import READ_MS_MAX
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicPartition

OnTold = Callable[[dict[str, object]], None]


@dataclass(slots=True)
class _Found:
    """Messages that are to come; when the last one came; why no more come."""

    lag: int = 0
    at_ms: int | None = None
    error: ApiError | None = None


class OriginInfo:
    """Asks the origins of one stream, whose own view is current, one after the other."""

    __slots__ = ("_copying", "_found", "_left", "_office", "_on_told", "_stream")

    def __init__(self, office: Office, copying: Copying, stream: Stream, on_told: OnTold) -> None:
        self._office: Final = office
        self._copying: Final = copying
        self._stream: Final = stream
        self._on_told: Final = on_told
        self._left: Final = list(origins_of(office, stream))
        #: By source, in all its partitions.
        self._found: Final[dict[tuple[str, bytes], _Found]] = {}

    def begin(self) -> None:
        """Find out, and tell; at once, if the stream has no origins."""
        if self._left:
            self._look(*self._left.pop())
            return
        shown = [self._shown(each) for each in sources_of(self._stream.config)]
        if not shown:
            self._on_told({})
        elif self._stream.config.mirror is not None:
            self._on_told({"mirror": shown[0]})
        else:
            self._on_told({"sources": shown})

    def _look(self, source: StreamSource, topic: TopicState, partition: int) -> None:
        key = origin_key(topic, partition, source)
        place = self._stream.log.position_of(key)
        start = place.next_offset if place is not None else max(source.opt_start_seq - 1, 0)
        self._note(source, key, None if place is None else place.at_ms)
        origin = self._office.streams.look(topic.name)

        def on_known(lag: int) -> None:
            self._of(source).lag += lag
            # In a later turn: partitions that are led here answer at once, and may be thousands.
            self._office.doors.clock.call_soon(self.begin)

        if origin is not None:
            filters = [each.src for each in source.transforms if each.src]
            view = origin.log.view
            catch_up(self._office, origin, lambda _: on_known(view.pending(filters, start + 1)))
            return

        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            end = outcome.last_stable_offset if isinstance(outcome, FetchResult) else start
            on_known(max(0, end - start))

        where = TopicPartition(topic.name, partition)
        self._office.doors.reading.fetch(where, LATEST, 1, READ_MS_MAX, on_fetched)

    def _of(self, source: StreamSource) -> _Found:
        return self._found.setdefault((source.name, source.mark), _Found())

    def _note(self, source: StreamSource, key: bytes, at_ms: int | None) -> None:
        known = self._of(source)
        if at_ms is not None:
            known.at_ms = max(known.at_ms or 0, at_ms)
        known.error = known.error or self._copying.error_of(self._stream, key)

    def _shown(self, source: StreamSource) -> dict[str, object]:
        found = self._of(source)
        more: dict[str, object] = {} if found.error is None else {"error": found.error.body}
        if source.filter_subject:
            more["filter_subject"] = source.filter_subject
        if source.subject_transforms:
            more["subject_transforms"] = [
                {"src": each.src, "dest": each.dest} for each in source.subject_transforms
            ]
        active_ns = -1
        if found.at_ms is not None:
            active_ns = max(0, self._office.doors.clock.wall_ms() - found.at_ms) * NS_PER_MS
        return {"name": source.name, "lag": found.lag, "active": active_ns, **more}
