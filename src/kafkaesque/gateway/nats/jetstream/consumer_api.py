"""Requests about consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import queue_resource
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue, DeleteQueue
from kafkaesque.gateway.nats.authorization import may_publish
from kafkaesque.gateway.nats.jetstream.configs import (
    ACK_PENDING_MAX,
    ACK_WAIT_NS,
    INACTIVE_NS,
    ConsumerConfig,
    CreateConsumer,
    is_name,
    read_config,
    write_config,
)
from kafkaesque.gateway.nats.jetstream.consumer_changes import check_change
from kafkaesque.gateway.nats.jetstream.consumer_checks import check_consumer
from kafkaesque.gateway.nats.jetstream.consumers import (
    Consumer,
    changed_options,
    queue_name,
    queue_options,
)
from kafkaesque.gateway.nats.jetstream.delivering import Delivering
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.filter_sets import FilterSet
from kafkaesque.gateway.nats.jetstream.office import (
    Entitled,
    NobodyListens,
    Office,
    Request,
    refused,
)
from kafkaesque.gateway.nats.jetstream.pauses import (
    own_metadata,
    read_pause,
    shown_consumer,
    shown_pause,
)
from kafkaesque.gateway.nats.jetstream.pulling import Pull, PullRequest, refusal_of
from kafkaesque.gateway.nats.jetstream.pushing import Pushing
from kafkaesque.gateway.nats.jetstream.reader_api import ReaderApi
from kafkaesque.gateway.nats.jetstream.starting import start_of
from kafkaesque.gateway.nats.jetstream.statuses import status
from kafkaesque.gateway.nats.jetstream.stream_api import INFOS_MAX, NAMES_MAX, PageRequest
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.gateway.nats.jetstream.times import rfc3339
from kafkaesque.model.errors import QueueExists, RequestRefused
from kafkaesque.model.ids import TopicId

_QUEUE: Final = ResourceType.QUEUE
_NAME_BYTES: Final = 8


class ConsumerApi:
    """See the module."""

    __slots__ = ("_delivering", "_office", "_pushing", "_reader_api", "_waiting")

    def __init__(
        self, office: Office, delivering: Delivering, pushing: Pushing, reader_api: ReaderApi
    ) -> None:
        self._office: Final = office
        self._delivering: Final = delivering
        self._pushing: Final = pushing
        self._reader_api: Final = reader_api
        #: Pulls that have not ended, by the consumer's queue.
        self._waiting: Final[dict[TopicId, set[Pull]]] = {}

    # -- create and delete

    def create_durable(self, request: Request) -> None:
        """CONSUMER.DURABLE.CREATE."""
        if not read_config(request.payload, CreateConsumer).config.durable_name:
            raise ApiError(ApiCode.DURABLE_MISSING)
        self.create(request)

    def create(self, request: Request) -> None:
        """CONSUMER.CREATE."""
        stream_name, name, wanted = self._wanted(request)
        request.check(Operation.READ, ResourceType.TOPIC, stream_name)
        stream = self._office.streams.find(stream_name)
        config = _completed(wanted.config, name, self._office)
        check_consumer(config, stream.config)
        # Which subjects come from origins, nobody knows.
        stored = FilterSet(stream.config.filters)
        for each in () if stream.config.has_origins else config.filters:
            if not stored.count_meeting(each):
                what = "consumer filter subject is not a valid subset of the interest subjects"
                raise ApiError(ApiCode.CONSUMER_CONFIG, what)
        resource = queue_resource(queue_name(stream.name, config.name or ""))
        target = config.deliver_subject
        if target and not may_publish(request.requester.rights, target):
            raise ApiError(ApiCode.NOT_ALLOWED, f"write of subject {target} is not allowed")
        found = self._office.consumers.look(stream.name, config.name or "")
        readers = self._reader_api.readers
        reader = readers.look(stream.name, config.name or "") if found is None else None
        before = found or reader
        if before is None:
            count = sum(1 for _ in self._office.consumers.all(stream.name))
            count += sum(1 for _ in readers.all(stream.name))
            if 0 < stream.config.max_consumers <= count:
                raise ApiError(ApiCode.CONSUMERS_MAX)
            if wanted.action == "update":
                raise ApiError(ApiCode.CONSUMER_DOES_NOT_EXIST)
        is_reader = config.ack_policy == "none" and not config.durable_name
        if not is_reader or found is not None:
            request.check(Operation.CREATE, _QUEUE, resource)
        if before is not None:
            # What has begun is paused by a request of its own.
            until = before.config.pause_until
            config = msgspec.structs.replace(config, pause_until=until)
            if write_config(before.config) != write_config(config):
                if wanted.action == "create":
                    raise ApiError(ApiCode.CONSUMER_EXISTS)
                subject = before.config.deliver_subject or ""
                check_change(before.config, config, is_bound=readers.is_wanted(subject))
        if found is not None:
            self._maybe_change(request, stream, found, config)
        elif reader is not None:
            self._reader_api.change(request, reader, config)
        elif is_reader:
            self._reader_api.create(request, stream, config)
        else:
            self._create(request, stream, config)

    def _wanted(self, request: Request) -> tuple[str, str, CreateConsumer]:
        stream, *more = request.words
        wanted = read_config(request.payload, CreateConsumer)
        if wanted.stream_name and wanted.stream_name != stream:
            raise ApiError(ApiCode.STREAM_MISMATCH)
        config = wanted.config
        name = (more[0] if more else "") or config.name or config.durable_name or ""
        if config.durable_name and config.durable_name != name:
            raise ApiError(ApiCode.DURABLE_MISMATCH)
        if config.name and config.name != name:
            what = "consumer name in subject does not match name in request"
            raise ApiError(ApiCode.CONSUMER_CONFIG, what)
        if len(more) > 1 and ".".join(more[1:]) != config.filter_subject:
            raise ApiError(ApiCode.FILTER_MISMATCH)
        if name and not is_name(name):
            what = "consumer names have letters, digits, - and _, at most 100 of them"
            raise ApiError(ApiCode.CONSUMER_CONFIG, what)
        return stream, name, wanted

    def _create(self, request: Request, stream: Stream, config: ConsumerConfig) -> None:
        name = queue_name(stream.name, config.name or "")
        command = CreateQueue(
            vhost=name.vhost, name=name.name, options=queue_options(stream.name, config)
        )

        def on_done(refusal: RequestRefused | None) -> None:
            if refusal is not None and not isinstance(refusal, QueueExists):
                request.fail("consumer_create", refused(refusal, ApiCode.CONSUMER_CREATE))
            else:
                self._office.when(lambda: self._look(stream, config) is not None, on_seen)

        def on_seen(is_seen: bool) -> None:
            consumer = self._look(stream, config)
            if consumer is None or not is_seen:
                request.fail("consumer_create", ApiError(ApiCode.NOT_AVAILABLE))
                return
            self._start(request, stream, consumer)

        self._office.submit(command, request.requester.rights, on_done)

    def _look(self, stream: Stream, config: ConsumerConfig) -> Consumer | None:
        return self._office.consumers.look(stream.name, config.name or "")

    def _start(self, request: Request, stream: Stream, consumer: Consumer) -> None:
        """Let the new consumer begin where it was asked to."""

        def on_read(is_read: bool) -> None:
            if not is_read:
                request.fail("consumer_create", ApiError(ApiCode.NOT_AVAILABLE))
                return
            try:
                start = start_of(consumer.config, stream.log.view)
            except ApiError as error:
                request.fail("consumer_create", error)
                return
            if start is None:
                self._begin(request, stream, consumer)
                return
            seek = q.SeekCursor(log_id=consumer.log_id, offset=start - 1)
            self._office.ask(seek, Done, on_sought)

        def on_sought(outcome: Done | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                request.fail("consumer_create", refused(outcome, ApiCode.CONSUMER_CREATE))
            else:
                self._begin(request, stream, consumer)

        stream.log.catch_up(on_read)

    def _begin(self, request: Request, stream: Stream, consumer: Consumer) -> None:
        self._say_info(request, stream, consumer, "consumer_create")
        self._pushing.look_now()

    def _maybe_change(
        self, request: Request, stream: Stream, found: Consumer, config: ConsumerConfig
    ) -> None:
        if write_config(found.config) == write_config(config):
            self._say_info(request, stream, found, "consumer_create")
            return
        name = found.queue.queue
        command = ChangeQueue(vhost=name.vhost, name=name.name, changes=changed_options(config))

        def is_seen() -> bool:
            now = self._look(stream, config)
            return now is not None and write_config(now.config) == write_config(config)

        def on_seen(_: bool) -> None:
            now = self._look(stream, config)
            self._say_info(request, stream, now or found, "consumer_create")
            self._pushing.look_now()

        def on_done(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                request.fail("consumer_create", refused(refusal, ApiCode.CONSUMER_CREATE))
            else:
                self._office.when(is_seen, on_seen)

        self._office.submit(command, request.requester.rights, on_done)

    def delete(self, request: Request) -> None:
        """CONSUMER.DELETE."""
        stream, name = request.words
        reader = self._reader_api.readers.look(stream, name)
        if reader is not None:
            request.check(Operation.READ, ResourceType.TOPIC, stream)
            reader.end()
            request.answer("consumer_delete", success=True)
            return
        resource = queue_resource(queue_name(stream, name))
        request.check(Operation.DELETE, _QUEUE, resource)
        self._office.streams.find(stream)
        queue = self._office.consumers.find(stream, name).queue.queue

        def on_gone(_: bool) -> None:
            request.answer("consumer_delete", success=True)

        def on_done(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                request.fail("consumer_delete", refused(refusal, ApiCode.NOT_AVAILABLE))
            else:
                self._office.when(
                    lambda: self._office.consumers.look(stream, name) is None, on_gone
                )

        command = DeleteQueue(vhost=queue.vhost, name=queue.name)
        self._office.submit(command, request.requester.rights, on_done)

    # -- what there is

    def info(self, request: Request) -> None:
        """CONSUMER.INFO."""
        stream_name, name = request.words
        reader = self._reader_api.readers.look(stream_name, name)
        if reader is not None:
            request.check(Operation.READ, ResourceType.TOPIC, stream_name)
            self._reader_api.say_info(request, reader)
            return
        request.check(Operation.DESCRIBE, _QUEUE, queue_resource(queue_name(stream_name, name)))
        stream = self._office.streams.find(stream_name)
        consumer = self._office.consumers.find(stream_name, name)
        self._say_info(request, stream, consumer, "consumer_info")

    def _say_info(self, request: Request, stream: Stream, consumer: Consumer, kind: str) -> None:
        def on_known(info: dict[str, object] | None) -> None:
            if info is None:
                request.fail(kind, ApiError(ApiCode.NOT_AVAILABLE))
            else:
                request.answer(kind, **info)

        self._find_out(stream, consumer, on_known)

    def _find_out(
        self,
        stream: Stream,
        consumer: Consumer,
        on_known: Callable[[dict[str, object] | None], None],
    ) -> None:
        def on_counted(outcome: q.QueueCounts | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_known(None)
                return
            counts = outcome
            stream.log.catch_up(lambda _: on_known(self._info_of(stream, consumer, counts)))

        request = q.AskQueue(log_id=consumer.log_id)
        self._office.ask(request, q.QueueCounts, on_counted)

    def _info_of(
        self, stream: Stream, consumer: Consumer, counts: q.QueueCounts
    ) -> dict[str, object]:
        view = stream.log.view
        acked = sum(counts.removed.values())
        waiting = counts.ready + counts.delayed
        # What the queue has not read yet comes as well.
        waiting += max(0, view.last_sequence - counts.end)
        pending = waiting
        if consumer.filters or view.last_sequence - view.message_count:
            # Messages that others want, or that are removed, are in the queue and never delivered.
            pending = min(waiting, view.pending(consumer.config.filters, counts.floor + 1))
        delivered = counts.end - counts.ready - counts.delayed
        leader = self._office.doors.cluster.leaders.leader(consumer.queue.partitions[0].group)
        return {
            "stream_name": stream.name,
            "name": consumer.name,
            "created": rfc3339(consumer.queue.created_ms),
            "config": shown_consumer(consumer.config),
            "delivered": {
                "consumer_seq": self._delivering.number_of(consumer),
                "stream_seq": max(delivered, 0),
            },
            "ack_floor": {"consumer_seq": acked, "stream_seq": counts.floor},
            "num_ack_pending": counts.in_flight,
            "num_redelivered": counts.delayed,
            "num_waiting": 0,
            "num_pending": pending,
            "cluster": {
                "name": str(self._office.doors.cluster.cluster_id),
                "leader": "" if leader is None else f"kafkaesque-{leader}",
            },
            "push_bound": self._pushing.is_bound(consumer),
            **shown_pause(consumer.config, self._office.doors.clock.wall_ms()),
            "ts": rfc3339(self._office.doors.clock.wall_ms()),
        }

    def names(self, request: Request) -> None:
        """CONSUMER.NAMES."""
        found, wanted = self._seen(request)
        names = [each.name for each in found]
        names += [each.name for each in self._reader_api.readers.all(request.words[0])]
        page = names[wanted.offset : wanted.offset + NAMES_MAX]
        request.answer(
            "consumer_names",
            total=len(names),
            offset=wanted.offset,
            limit=NAMES_MAX,
            consumers=page,
        )

    def list_all(self, request: Request) -> None:
        """CONSUMER.LIST."""
        found, wanted = self._seen(request)
        stream = self._office.streams.find(request.words[0])
        page = found[wanted.offset : wanted.offset + INFOS_MAX]
        readers = list(self._reader_api.readers.all(stream.name))
        infos: list[dict[str, object]] = [self._reader_api.info_of(each) for each in readers]

        def on_known(info: dict[str, object] | None) -> None:
            if info is not None:
                infos.append(info)
            next_one()

        left = list(page)

        def next_one() -> None:
            if left:
                self._find_out(stream, left.pop(0), on_known)
                return
            request.answer(
                "consumer_list",
                total=len(found) + len(readers),
                offset=wanted.offset,
                limit=INFOS_MAX,
                consumers=infos,
            )

        next_one()

    def _seen(self, request: Request) -> tuple[list[Consumer], PageRequest]:
        (stream,) = request.words
        request.check(Operation.DESCRIBE, ResourceType.TOPIC, stream)
        self._office.streams.find(stream)
        rights = request.requester.rights
        found = [
            each
            for each in self._office.consumers.all(stream)
            if rights is None
            or rights.could(Operation.DESCRIBE, _QUEUE, queue_resource(each.queue.queue))
        ]
        return found, read_config(request.payload, PageRequest)

    # -- messages

    def next_messages(self, request: Request) -> None:
        """CONSUMER.MSG.NEXT: no answer but messages, and why no more come."""
        stream_name, name = request.words
        reader = self._reader_api.readers.look(stream_name, name)
        if reader is not None:
            request.check(Operation.READ, ResourceType.TOPIC, stream_name)
            wanted = self._wanted_pull(request, reader.config, request.payload)
            if wanted is not None:
                self._reader_api.pull(request, reader, wanted)
            return
        request.check(Operation.READ, _QUEUE, queue_resource(queue_name(stream_name, name)))
        stream = self._office.streams.look(stream_name)
        consumer = self._office.consumers.look(stream_name, name)
        if stream is None or consumer is None:
            raise NobodyListens
        self.pull(request, stream, consumer, request.payload)

    def pull(self, request: Request, stream: Stream, consumer: Consumer, raw: bytes) -> None:
        """Send a client messages of a consumer, or a status that says why not."""
        wanted = self._wanted_pull(request, consumer.config, raw)
        if wanted is None:
            return
        waiting = self._waiting.setdefault(consumer.log_id, set())
        most = consumer.config.waiting_max
        # Rules are asked for each that waits, so only if there are as many at all.
        if len(waiting) >= most and sum(each.is_open for each in waiting) >= most:
            self._say(request, 409, "Exceeded MaxWaiting")
            return

        def on_over(pull: Pull) -> None:
            waiting.discard(pull)
            if not waiting:
                self._waiting.pop(consumer.log_id, None)

        resource = queue_resource(queue_name(stream.name, consumer.name))
        pull = Pull(
            self._office,
            self._delivering,
            Entitled(request.requester, Operation.READ, _QUEUE, resource),
            stream,
            consumer,
            request.reply,
            wanted,
            on_over,
        )
        waiting.add(pull)
        pull.begin()

    def _wanted_pull(
        self, request: Request, config: ConsumerConfig, raw: bytes
    ) -> PullRequest | None:
        """Return what a client asks for; None: it was told that it does not get that."""
        try:
            wanted = _pull_of(raw)
        except ApiError as error:
            self._say(request, 400, f"Bad Request - {error}")
            return None
        refusal = refusal_of(config, wanted)
        if refusal is not None:
            self._say(request, *refusal)
            return None
        return wanted

    def _say(self, request: Request, code: int, what: str) -> None:
        self._office.send(request.reply, headers=status(code, what), payload=b"")

    @property
    def handlers(self) -> Mapping[str, tuple[str, Callable[[Request], None]]]:
        """By the subject behind the API's prefix: what the answer is called, and what answers."""
        return {
            "CONSUMER.CREATE": ("consumer_create", self.create),
            "CONSUMER.DURABLE.CREATE": ("consumer_create", self.create_durable),
            "CONSUMER.DELETE": ("consumer_delete", self.delete),
            "CONSUMER.INFO": ("consumer_info", self.info),
            "CONSUMER.NAMES": ("consumer_names", self.names),
            "CONSUMER.LIST": ("consumer_list", self.list_all),
            "CONSUMER.MSG.NEXT": ("consumer_getnext", self.next_messages),
        }


def _pull_of(raw: bytes) -> PullRequest:
    """Return what a client asks for.

    Raises:
        ApiError: it cannot be read.
    """
    raw = raw.strip()
    # The old form is the number alone.
    return PullRequest(batch=int(raw[:6])) if raw.isdigit() else read_config(raw, PullRequest)


def _ack_wait(config: ConsumerConfig) -> int:
    return config.backoff[0] if config.backoff else config.ack_wait or ACK_WAIT_NS


def _completed(config: ConsumerConfig, name: str, office: Office) -> ConsumerConfig:
    """Return a configuration with a name, and with what was left out."""
    is_kept = bool(config.durable_name)
    inactive = config.inactive_threshold or (0 if is_kept else INACTIVE_NS)
    is_acked = config.ack_policy != "none"
    return msgspec.structs.replace(
        config,
        name=name or office.doors.dice.unique_bytes(_NAME_BYTES).hex(),
        ack_wait=_ack_wait(config) if is_acked else config.ack_wait,
        max_deliver=config.max_deliver or -1,
        max_ack_pending=(config.max_ack_pending or ACK_PENDING_MAX) if is_acked else None,
        inactive_threshold=inactive or None,
        pause_until=read_pause(config.pause_until or ""),
        metadata=own_metadata(config),
    )
