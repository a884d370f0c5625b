"""Requests about streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.options.encryption import is_encrypted
from kafkaesque.broker.options.nats import STREAM
from kafkaesque.broker.requests.commands import ChangeConfig, ConfigChange, CreateTopic, DeleteTopic
from kafkaesque.broker.requests.queue_commands import DeleteQueue
from kafkaesque.gateway.nats.authorization import may_capture
from kafkaesque.gateway.nats.jetstream.appending import Remove
from kafkaesque.gateway.nats.jetstream.configs import (
    NS_PER_MS,
    StreamConfig,
    check_stream,
    completed,
    is_name,
    overlap,
    read_config,
    shown_config,
    write_config,
)
from kafkaesque.gateway.nats.jetstream.copying import Copying
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.office import Office, Request, refused
from kafkaesque.gateway.nats.jetstream.origin_info import OriginInfo
from kafkaesque.gateway.nats.jetstream.origins import check_circles, check_origins, sources_of
from kafkaesque.gateway.nats.jetstream.retention import catch_up
from kafkaesque.gateway.nats.jetstream.streams import ADOPTED, Stream
from kafkaesque.gateway.nats.jetstream.times import rfc3339
from kafkaesque.gateway.nats.jetstream.view import Removal
from kafkaesque.model.errors import RequestRefused, TopicExists

#: Of one page of an answer.
NAMES_MAX: Final = 1_024
INFOS_MAX: Final = 256
DELETED_MAX: Final = 10_000
LED_MS_MAX: Final = 10_000
#: One message with its headers has to fit, and a batch of many.
_BATCH_BYTES_MAX: Final = 2 * 1024 * 1024
#: What other protocols have written to an origin may be longer.
_COPY_BYTES_MAX: Final = 16 * 1024 * 1024
_ALL: Final = 2**63
_TOPIC: Final = ResourceType.TOPIC


class PageRequest(msgspec.Struct, kw_only=True):
    """Which part of a list is wanted."""

    offset: int = 0
    subject: str = ""


class InfoRequest(msgspec.Struct, kw_only=True):
    """What else is wanted of a stream."""

    deleted_details: bool = False
    subjects_filter: str = ""


class PurgeRequest(msgspec.Struct, kw_only=True):
    """What is to be removed."""

    filter: str = ""
    seq: int = 0
    keep: int = 0


class StreamApi:
    """See the module."""

    __slots__ = ("_copying", "_office")

    def __init__(self, office: Office, copying: Copying) -> None:
        self._office: Final = office
        self._copying: Final = copying

    # -- create, update, delete

    def create(self, request: Request) -> None:
        """STREAM.CREATE."""
        config = self._config_of(request)
        request.check(Operation.CREATE, _TOPIC, config.name)
        self._check_origins(request, config, None)
        found = self._office.streams.look(config.name)
        if found is not None:
            if write_config(_without_adopted(found.config)) != write_config(config):
                raise ApiError(ApiCode.STREAM_EXISTS)
            self._say_info(request, found, "stream_create", did_create=False)
            return
        _check_capture(request, config.filters)
        self._office.streams.check_subjects(config)
        topic = self._office.doors.cluster.state.topics.get(config.name)
        if topic is None:
            self._create_topic(request, config)
        elif config.mirror is not None:
            what = f"there is a topic {config.name}, whose records have sequences of their own"
            raise ApiError(ApiCode.STREAM_CONFIG, what)
        elif len(topic.partitions) != 1 or topic.is_internal:
            what = f"there is a topic {config.name} of {len(topic.partitions)} partitions"
            raise ApiError(ApiCode.STREAM_CONFIG, f"{what}: a stream has one")
        else:
            metadata = {**(config.metadata or {}), ADOPTED: "true"}
            self._change(request, msgspec.structs.replace(config, metadata=metadata), "create")

    def _config_of(self, request: Request) -> StreamConfig:
        (name,) = request.words
        config = read_config(request.payload, StreamConfig)
        if config.name and config.name != name:
            raise ApiError(ApiCode.STREAM_MISMATCH)
        config = msgspec.structs.replace(config, name=name)
        check_stream(config)
        return completed(config)

    def _check_origins(
        self, request: Request, config: StreamConfig, before: StreamConfig | None
    ) -> None:
        """Check that the client may read what the stream is to have from others.

        What it has already may stay, though the rule is gone.
        """
        check_origins(config)
        known = set() if before is None else {each.name for each in sources_of(before)}
        for each in sources_of(config):
            if each.name not in known:
                request.check(Operation.READ, _TOPIC, each.name)
                topic = self._office.doors.cluster.state.topics.get(each.name)
                if topic is not None and is_encrypted(topic.configs):
                    what = (
                        f"messages of {each.name} are encrypted, and would be copied in the clear"
                    )
                    raise ApiError(ApiCode.STREAM_CONFIG, what)

        def look(name: str) -> StreamConfig | None:
            found = self._office.streams.look(name)
            return None if found is None else found.config

        check_circles(config, look)

    def _create_topic(self, request: Request, config: StreamConfig) -> None:
        command = CreateTopic(
            name=config.name,
            partition_count=1,
            replication_factor=config.num_replicas if config.num_replicas > 1 else -1,
            configs=topic_options(config),
        )

        def on_done(refusal: RequestRefused | None) -> None:
            if refusal is not None and not isinstance(refusal, TopicExists):
                request.fail("stream_create", refused(refusal, ApiCode.STREAM_CONFIG))
                return
            self._when_seen(request, config, "create")

        self._office.submit(command, request.requester.rights, on_done)

    def _when_seen(self, request: Request, config: StreamConfig, what: str) -> None:
        """Answer when this broker has heard of the stream, and somebody leads it."""
        office, kind = self._office, f"stream_{what}"

        def on_seen(is_seen: bool) -> None:
            stream = office.streams.look(config.name)
            if stream is None or not is_seen:
                request.fail(kind, ApiError(ApiCode.NOT_AVAILABLE))
                return
            found = stream
            office.doors.topics.when_led(
                config.name,
                LED_MS_MAX,
                lambda: self._say_info(request, found, kind, did_create=what == "create"),
            )

        def is_seen() -> bool:
            stream = office.streams.look(config.name)
            return stream is not None and write_config(stream.config) == write_config(config)

        office.when(is_seen, on_seen)

    def update(self, request: Request) -> None:
        """STREAM.UPDATE."""
        config = self._config_of(request)
        request.check(Operation.ALTER, _TOPIC, config.name)
        found = self._office.streams.find(config.name)
        if config.mirror != found.config.mirror:
            raise ApiError(ApiCode.MIRROR_CHANGED)
        self._check_origins(request, config, found.config)
        _check_capture(request, set(config.filters).difference(found.config.filters))
        self._office.streams.check_subjects(config)
        if config.retention != found.config.retention:
            what = "stream configuration update can not change retention policy"
            raise ApiError(ApiCode.STREAM_CONFIG, what)
        if found.is_adopted:
            metadata = {**(config.metadata or {}), ADOPTED: "true"}
            config = msgspec.structs.replace(config, metadata=metadata)
        self._change(request, config, "update")

    def _change(self, request: Request, config: StreamConfig, what: str) -> None:
        options = topic_options(config)
        if (config.metadata or {}).get(ADOPTED):
            # How long a topic keeps what was there before is not the stream's to say.
            options = {STREAM: options[STREAM]}
        command = ChangeConfig(
            topic=config.name,
            changes=[ConfigChange(name=name, value=value) for name, value in options.items()],
        )

        def on_done(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                request.fail(f"stream_{what}", refused(refusal, ApiCode.STREAM_CONFIG))
            else:
                self._when_seen(request, config, what)

        self._office.submit(command, request.requester.rights, on_done)

    def delete(self, request: Request) -> None:
        """STREAM.DELETE."""
        (name,) = request.words
        request.check(Operation.DELETE, _TOPIC, name)
        stream = self._office.streams.find(name)
        consumers = [each.queue.queue for each in self._office.consumers.all(name)]

        def on_gone(_: bool) -> None:
            request.answer("stream_delete", success=True)

        def on_done(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                request.fail("stream_delete", refused(refusal, ApiCode.NOT_AVAILABLE))
            else:
                self._office.when(lambda: self._office.streams.look(name) is None, on_gone)

        def next_one(_: RequestRefused | None = None) -> None:
            if consumers:
                queue = consumers.pop()
                command = DeleteQueue(vhost=queue.vhost, name=queue.name)
                self._office.submit(command, None, next_one)
            elif stream.is_adopted:
                change = ConfigChange(name=STREAM, value=None, operation="delete")
                self._office.submit(ChangeConfig(topic=name, changes=[change]), None, on_done)
            else:
                self._office.submit(DeleteTopic(name=name), request.requester.rights, on_done)

        next_one()

    # -- what there is

    def info(self, request: Request) -> None:
        """STREAM.INFO."""
        (name,) = request.words
        request.check(Operation.DESCRIBE, _TOPIC, name)
        wanted = read_config(request.payload, InfoRequest)
        self._say_info(request, self._office.streams.find(name), "stream_info", wanted=wanted)

    def _say_info(
        self,
        request: Request,
        stream: Stream,
        kind: str,
        *,
        wanted: InfoRequest | None = None,
        did_create: bool | None = None,
    ) -> None:
        def on_read(is_read: bool) -> None:
            if not is_read:
                request.fail(kind, ApiError(ApiCode.NOT_AVAILABLE))
                return
            OriginInfo(self._office, self._copying, stream, on_told).begin()

        def on_told(origins: dict[str, object]) -> None:
            more = {} if did_create is None else {"did_create": did_create}
            info = self._info_of(stream, wanted or InfoRequest())
            request.answer(kind, **info, **origins, **more)

        catch_up(self._office, stream, on_read)

    def _info_of(self, stream: Stream, wanted: InfoRequest) -> dict[str, object]:
        cluster, view = self._office.doors.cluster, stream.log.view
        consumer_count = sum(1 for _ in self._office.consumers.all(stream.name))
        first = view.first_sequence
        state: dict[str, object] = {
            "messages": view.message_count,
            "bytes": view.byte_count,
            # nats-server says so of a stream that never had a message.
            "first_seq": first if view.last_sequence else 0,
            "first_ts": rfc3339(view.first_ms),
            "last_seq": view.last_sequence,
            "last_ts": rfc3339(view.last_ms),
            "consumer_count": consumer_count,
            "num_subjects": view.subject_count,
            "num_deleted": max(0, view.last_sequence - first + 1 - view.message_count),
        }
        if wanted.deleted_details:
            state["deleted"] = view.removed(DELETED_MAX)
        if wanted.subjects_filter:
            names = view.subjects(wanted.subjects_filter)[:DELETED_MAX]
            state["subjects"] = {each: view.count_of(each) for each in names}
        leader = cluster.leaders.leader(stream.topic.partitions[0].group)
        return {
            "config": shown_config(stream.config),
            "created": rfc3339(stream.topic.created_ms),
            "state": state,
            "cluster": {
                "name": str(cluster.cluster_id),
                "leader": "" if leader is None else f"kafkaesque-{leader}",
            },
            "ts": rfc3339(self._office.doors.clock.wall_ms()),
        }

    def names(self, request: Request) -> None:
        """STREAM.NAMES."""
        wanted = read_config(request.payload, PageRequest)
        names = [each.name for each in self._seen(request, wanted)]
        page = names[wanted.offset : wanted.offset + NAMES_MAX]
        request.answer(
            "stream_names", total=len(names), offset=wanted.offset, limit=NAMES_MAX, streams=page
        )

    def list_all(self, request: Request) -> None:
        """STREAM.LIST."""
        wanted = read_config(request.payload, PageRequest)
        found = self._seen(request, wanted)
        page = found[wanted.offset : wanted.offset + INFOS_MAX]
        infos: list[dict[str, object]] = []

        def next_one(at: int) -> None:
            if at == len(page):
                request.answer(
                    "stream_list",
                    total=len(found),
                    offset=wanted.offset,
                    limit=INFOS_MAX,
                    streams=infos,
                )
                return

            def on_read(_: bool) -> None:
                OriginInfo(self._office, self._copying, page[at], on_told).begin()

            def on_told(origins: dict[str, object]) -> None:
                infos.append({**self._info_of(page[at], InfoRequest()), **origins})
                next_one(at + 1)

            catch_up(self._office, page[at], on_read)

        next_one(0)

    def _seen(self, request: Request, wanted: PageRequest) -> list[Stream]:
        rights = request.requester.rights
        return [
            each
            for each in self._office.streams.all()
            if (rights is None or rights.could(Operation.DESCRIBE, _TOPIC, each.name))
            and (
                not wanted.subject
                or any(overlap(wanted.subject, mine) for mine in each.config.filters)
            )
        ]

    # -- purge

    def purge(self, request: Request) -> None:
        """STREAM.PURGE."""
        (name,) = request.words
        request.check(Operation.DELETE, _TOPIC, name)
        stream = self._office.streams.find(name)
        if stream.config.deny_purge or stream.config.sealed:
            raise ApiError(ApiCode.PURGE_DENIED)
        wanted = read_config(request.payload, PurgeRequest)
        if wanted.seq and wanted.keep:
            raise ApiError(ApiCode.BAD_REQUEST, "either seq or keep")
        before = wanted.seq - 1 if wanted.seq else _ALL
        removal = Removal(0, 0, (), before, wanted.filter, wanted.keep)

        def on_removed(outcome: int | ApiError | None) -> None:
            if isinstance(outcome, int):
                request.tell_deleted(name, {"purged": str(outcome)})
                request.answer("stream_purge", success=True, purged=outcome)
            else:
                request.fail("stream_purge", outcome or ApiError(ApiCode.NOT_AVAILABLE))

        if wanted.seq == 1:
            on_removed(0)
        else:
            stream.log.append(Remove(removal, on_removed))

    @property
    def handlers(self) -> Mapping[str, tuple[str, Callable[[Request], None]]]:
        """By the subject behind the API's prefix: what the answer is called, and what answers."""
        return {
            "STREAM.CREATE": ("stream_create", self.create),
            "STREAM.UPDATE": ("stream_update", self.update),
            "STREAM.DELETE": ("stream_delete", self.delete),
            "STREAM.INFO": ("stream_info", self.info),
            "STREAM.NAMES": ("stream_names", self.names),
            "STREAM.LIST": ("stream_list", self.list_all),
            "STREAM.PURGE": ("stream_purge", self.purge),
        }


def _check_capture(request: Request, subjects: Iterable[str]) -> None:
    for each in subjects:
        if not may_capture(request.requester.rights, each):
            raise ApiError(ApiCode.NOT_ALLOWED, f"read of all of subject {each} is not allowed")


def check_name(name: str) -> None:
    """Check what stands where a stream's name should.

    Raises:
        ApiError: no stream has such a name.
    """
    if not is_name(name):
        raise ApiError(ApiCode.STREAM_NAME)


def _without_adopted(config: StreamConfig) -> StreamConfig:
    metadata = {name: text for name, text in (config.metadata or {}).items() if name != ADOPTED}
    return msgspec.structs.replace(config, metadata=metadata or None)


def topic_options(config: StreamConfig) -> dict[str, str]:
    """Return the options of the topic that a stream is.

    By age the topic itself forgets. Other bounds are the view's to keep: what is beyond them takes
    disk for longer than it is seen.
    """
    age_ms = config.max_age // NS_PER_MS
    is_compacted = config.max_msgs_per_subject == 1
    policies = (["compact"] if is_compacted else []) + (
        ["delete"] if age_ms or not is_compacted else []
    )
    return {
        STREAM: write_config(config),
        "cleanup.policy": ",".join(policies),
        "retention.ms": str(age_ms) if age_ms else "-1",
        "retention.bytes": str(2 * config.max_bytes) if config.max_bytes > 0 else "-1",
        "max.message.bytes": str(_COPY_BYTES_MAX if config.has_origins else _BATCH_BYTES_MAX),
    }
