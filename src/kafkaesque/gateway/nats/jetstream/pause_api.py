"""CONSUMER.PAUSE: for a while a consumer gives out nothing.

Until when is part of the consumer's configuration. The change of a consumer that the cluster keeps
is answered when all living brokers go by it: after that answer no broker gives anything out. What
is out may still be acknowledged. Pulls wait, within their own time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import queue_resource
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.gateway.nats.jetstream.configs import ConsumerConfig, read_config, write_config
from kafkaesque.gateway.nats.jetstream.consumers import Consumer, changed_options, queue_name
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.office import Office, Request, refused
from kafkaesque.gateway.nats.jetstream.pauses import NEVER, read_pause, shown_pause
from kafkaesque.gateway.nats.jetstream.readers import Readers
from kafkaesque.model.errors import RequestRefused

_KIND: Final = "consumer_pause"


class PauseRequest(msgspec.Struct, kw_only=True):
    """Until when nothing is to be given out; empty, or in the past: go on."""

    pause_until: str = ""


class PauseApi:
    """See the module."""

    __slots__ = ("_office", "_readers")

    def __init__(self, office: Office, readers: Readers) -> None:
        self._office: Final = office
        self._readers: Final = readers

    def pause(self, request: Request) -> None:
        """CONSUMER.PAUSE, which also ends a pause."""
        stream, name = request.words
        until = _wanted(request)
        reader = self._readers.look(stream, name)
        if reader is not None:
            request.check(Operation.READ, ResourceType.TOPIC, stream)
            reader.pause(until)
            self._answer(request, reader.config)
            return
        resource = queue_resource(queue_name(stream, name))
        request.check(Operation.ALTER, ResourceType.QUEUE, resource)
        self._office.streams.find(stream)
        found = self._office.consumers.find(stream, name)
        self._change(request, found, until)

    def _change(self, request: Request, found: Consumer, until: str | None) -> None:
        config = msgspec.structs.replace(found.config, pause_until=until)
        if write_config(config) == write_config(found.config):
            self._answer(request, config)
            return
        queue = found.queue.queue
        command = ChangeQueue(vhost=queue.vhost, name=queue.name, changes=changed_options(config))

        def on_done(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                request.fail(_KIND, refused(refusal, ApiCode.NOT_AVAILABLE))
            else:
                self._office.when(is_seen, on_seen)

        def is_seen() -> bool:
            now = self._office.consumers.look(found.stream, found.name)
            return now is None or now.config.pause_until == until

        def on_seen(is_seen: bool) -> None:
            if is_seen:
                self._answer(request, config)
            else:
                request.fail(_KIND, ApiError(ApiCode.NOT_AVAILABLE))

        self._office.submit(command, request.requester.rights, on_done)

    def _answer(self, request: Request, config: ConsumerConfig) -> None:
        said: dict[str, object] = {"paused": False, "pause_until": config.pause_until or NEVER}
        said.update(shown_pause(config, self._office.doors.clock.wall_ms()))
        request.answer(_KIND, **said)

    @property
    def handlers(self) -> Mapping[str, tuple[str, Callable[[Request], None]]]:
        """By the subject behind the API's prefix: what the answer is called, and what answers."""
        return {"CONSUMER.PAUSE": (_KIND, self.pause)}


def _wanted(request: Request) -> str | None:
    return read_pause(read_config(request.payload, PauseRequest).pause_until)
