"""What the connections of one broker share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import MQTT
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests.commands import ControllerCommand
from kafkaesque.broker.requests.queue_commands import DeleteQueue
from kafkaesque.chassis.deliveries import Outbox
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.gateway.mqtt.messages import Encoded, KeptMessages
from kafkaesque.gateway.mqtt.sys_topics import SysTopics
from kafkaesque.model.errors import RequestRefused

#: What the controller is asked for may take so long.
TIMEOUT_MS: Final = 30_000
#: So long a broker may take to find out whether it has heard of all that is decided.
CURRENT_MS_MAX: Final = 5_000
#: So often it is looked whether this broker has heard of what the controller has done.
LOOK_AGAIN_MS: Final = 5


class Claimant(Protocol):
    """A connection that has a client id."""

    @property
    def login_name(self) -> str:
        """Who has logged in; empty: nobody in particular."""

    def take_over(self) -> None:
        """Another connection has the client id now."""


class Desk:
    """See the module."""

    __slots__ = ("_report", "clients", "doors", "encoded", "kept", "outbox", "sys_topics")

    def __init__(self, doors: Doors, report: Callable[[str], None]) -> None:
        self.doors: Final = doors
        #: Who is connected with this broker, by client id.
        self.clients: Final[dict[str, Claimant]] = {}
        self.encoded: Final = Encoded()
        self.kept: Final = KeptMessages()
        self.outbox: Final = Outbox(doors.clock)
        self.sys_topics: Final = SysTopics(doors, lambda: len(self.clients))
        self._report: Final = ReportLimit(report, doors.clock.call_later)

    def say(self, line: str) -> None:
        """Tell operators, within bounds."""
        self._report.say(line)

    def note_drop(self) -> None:
        """Count a message that a client was not given."""
        self.doors.activity.note_client_drop(MQTT)

    def look(self, name: str) -> QueueState | None:
        """Return a queue of the default virtual host, as far as this broker has heard."""
        found = self.doors.cluster.state.queues.get(QueueName(DEFAULT_VHOST, name))
        return found if found is not None and len(found.partitions) == 1 else None

    def when_current(self, then: Callable[[], None]) -> None:
        """Call once this broker has heard of all that is decided by now, or after a while."""
        self.doors.cluster.when_current(CURRENT_MS_MAX, lambda _: then())

    def when(self, is_so: Callable[[], bool], then: Callable[[], None]) -> None:
        """Call once this broker has heard of something that is done, or after a while."""
        clock = self.doors.clock
        deadline_ms = clock.now_ms() + TIMEOUT_MS

        def look() -> None:
            if is_so() or clock.now_ms() >= deadline_ms:
                then()
            else:
                clock.call_later(LOOK_AGAIN_MS, look)

        look()

    def submit(
        self, command: ControllerCommand, on_done: Callable[[RequestRefused | None], None]
    ) -> None:
        """Have the controller carry out a command."""
        self.doors.cluster.submit(
            command,
            TIMEOUT_MS,
            lambda outcome: on_done(outcome if isinstance(outcome, RequestRefused) else None),
        )

    def delete_queue(self, queue: QueueState, then: Callable[[], None] = lambda: None) -> None:
        """Delete a queue, unless one of its name was made again."""
        name = queue.queue
        found = self.doors.cluster.state.queues.get(name)
        if found is None or found.topic_id != queue.topic_id:
            then()
            return
        command = DeleteQueue(vhost=name.vhost, name=name.name)
        self.submit(command, lambda _: self.when(lambda: self.look(name.name) is not found, then))
