"""Changes options of a queue: its attributes, its tags, its policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.gateway.sqs.call import Call, RequestT
from kafkaesque.model.errors import RequestRefused

TIMEOUT_MS: Final = 20_000


class Changing:
    """See the module."""

    __slots__ = ("_doors",)

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def change(self, call: Call[RequestT], name: str, changes: Mapping[str, str | None]) -> None:
        """Change options of a queue, and answer."""
        now_ms = self._doors.clock.wall_ms()
        command = ChangeQueue(
            vhost=DEFAULT_VHOST, name=name, changes={**changes, "modified.ms": str(now_ms)}
        )
        self._doors.cluster.submit(
            call.sign(command),
            TIMEOUT_MS,
            lambda end: call.fail(end) if isinstance(end, RequestRefused) else seen(),
        )

        def seen() -> None:
            # What is asked next at this broker is answered by the new options.
            self._doors.cluster.when_current(TIMEOUT_MS, lambda _: call.done())
