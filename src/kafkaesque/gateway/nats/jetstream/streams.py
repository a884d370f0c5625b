"""Which streams there are: topics with the option `nats.stream`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.options.nats import STREAM
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS, StreamConfig, read_config
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.filter_sets import FilterSet
from kafkaesque.gateway.nats.jetstream.stream_log import StreamLog
from kafkaesque.gateway.nats.jetstream.view import Bounds
from kafkaesque.model.ids import TopicId
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import NATS, NameKey

#: A stream over a topic that was there before: the topic stays when the stream is deleted.
ADOPTED: Final = "kafkaesque.adopted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream."""

    config: StreamConfig
    topic: TopicState
    log: StreamLog

    @property
    def name(self) -> str:
        """What clients and the topic call it."""
        return self.config.name

    @property
    def is_adopted(self) -> bool:
        """Whether its topic was there before."""
        return (self.config.metadata or {}).get(ADOPTED) == "true"


class Streams:
    """The streams of the cluster, as far as this broker has heard."""

    __slots__ = (
        "_by_name",
        "_doors",
        "_index",
        "_kept",
        "_numbered",
        "_version",
        "_with_origins",
    )

    def __init__(self, doors: Doors) -> None:
        self._doors: Final = doors
        self._version = -1
        self._by_name: dict[str, Stream] = {}
        #: The subjects of all, and the streams by their numbers there.
        self._index = NameIndex()
        self._numbered: list[Stream] = []
        self._with_origins: list[Stream] = []
        #: By topic: what it was created as, and what is known of its log.
        self._kept: dict[TopicId, tuple[str, Stream]] = {}

    def _refresh(self) -> None:
        state = self._doors.cluster.state
        if state.version == self._version:
            return
        self._version = state.version
        found = [topic for topic in state.topics.values() if STREAM in topic.configs]
        now = [(topic.topic_id, topic.configs[STREAM]) for topic in found]
        if now == [(topic_id, text) for topic_id, (text, _) in self._kept.items()]:
            return
        kept = {}
        for topic in found:
            text = topic.configs[STREAM]
            before = self._kept.get(topic.topic_id)
            stream = before[1] if before is not None and before[0] == text else self._make(topic)
            if stream is not None:
                kept[topic.topic_id] = (text, stream)
        self._kept = kept
        self._by_name = {stream.name: stream for _, stream in kept.values()}
        self._numbered = list(self._by_name.values())
        self._with_origins = [each for each in self._numbered if each.config.has_origins]
        self._index = NameIndex()
        for number, stream in enumerate(self._numbered):
            for subject in stream.config.filters:
                self._index.add(NATS.read_filter(subject), number)

    def _make(self, topic: TopicState) -> Stream | None:
        try:
            config = read_config(topic.configs[STREAM].encode(), StreamConfig)
            config = msgspec.structs.replace(config, name=topic.name)
            for subject in config.filters:
                NATS.read_filter(subject)
        except (ApiError, BadName):
            # By a later release, or by whoever may change the topic: what it is cannot be told.
            return None
        log = StreamLog(self._doors, topic.name, bounds_of(config))
        return Stream(config=config, topic=topic, log=log)

    def all(self) -> list[Stream]:
        """Return all, by their names."""
        self._refresh()
        return [self._by_name[name] for name in sorted(self._by_name)]

    def with_origins(self) -> list[Stream]:
        """Return those that mirror another one, or gather from several."""
        self._refresh()
        return self._with_origins

    def look(self, name: str) -> Stream | None:
        """Return a stream, if there is one of the name."""
        self._refresh()
        return self._by_name.get(name)

    def find(self, name: str) -> Stream:
        """Return a stream.

        Raises:
            ApiError: there is none of the name.
        """
        found = self.look(name)
        if found is None:
            raise ApiError(ApiCode.STREAM_NOT_FOUND)
        return found

    def of_subject(self, key: NameKey) -> Stream | None:
        """Return the stream that stores a subject, if there is one."""
        self._refresh()
        if not self._numbered:
            return None
        numbers = self._index.match(key)
        return self._numbered[numbers[0]] if numbers else None

    def check_subjects(self, config: StreamConfig) -> None:
        """Check that no other stream stores what this one is to store.

        Raises:
            ApiError: one does.
        """
        wanted = FilterSet(config.filters)
        for stream in self.all():
            if stream.name == config.name:
                continue
            if any(wanted.count_meeting(each) for each in stream.config.filters):
                raise ApiError(ApiCode.SUBJECTS_OVERLAP)


def bounds_of(config: StreamConfig) -> Bounds:
    """Return what a stream keeps."""
    is_old = config.discard == "old"
    return Bounds(
        per_subject_max=max(config.max_msgs_per_subject, 0),
        messages_max=max(config.max_msgs, 0) if is_old else 0,
        bytes_max=max(config.max_bytes, 0) if is_old else 0,
        age_max_ms=config.max_age // NS_PER_MS,
        ids_max_ms=config.duplicate_window // NS_PER_MS,
    )


def key_of(subject: str) -> NameKey | None:
    """Return a subject's key; None: nobody can subscribe to it."""
    try:
        return NATS.key_of(subject)
    except BadName:
        return None
