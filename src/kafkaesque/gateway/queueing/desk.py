"""What connections to queues share on one broker: queues are found, made and deleted here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.effective_options import effective_options
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.client_command import ClientCommand
from kafkaesque.broker.requests.exchange_commands import ExchangeCommand
from kafkaesque.broker.requests.queue_commands import CreateQueue, DeleteQueue
from kafkaesque.chassis.amqp.arguments import declaration_of
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.known import when_known
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.gateway.queueing.deletions import Deletions
from kafkaesque.gateway.queueing.sweeping import Sweeping
from kafkaesque.model.errors import QueueExists, RequestRefused, UnknownQueue

#: What the controller is asked for may take so long.
TIMEOUT_MS: Final = 30_000
#: So long a broker may take to find out whether it has heard of all queues.
CURRENT_MS_MAX: Final = 5_000


class Desk:
    """See the module; `desk_of` returns the broker's one."""

    __slots__ = ("_report", "deletions", "doors", "sweeping")

    def __init__(self, doors: Doors, report: Callable[[str], None]) -> None:
        self.doors: Final = doors
        self.sweeping: Final = Sweeping(doors, self.delete_queue)
        #: Tells consumers that their queue was deleted.
        self.deletions: Final = Deletions(doors.clock, doors.cluster)
        self._report: Final = ReportLimit(report, doors.clock.call_later)
        doors.queues.when_consumers_are_lost(self.on_detached)

    def say(self, line: str) -> None:
        """Tell operators, within bounds."""
        self._report.say(line)

    def look(self, name: QueueName) -> QueueState | None:
        """Return a queue, as far as this broker has heard: not one over a topic's partitions."""
        found = self.doors.cluster.state.queues.get(name)
        is_served = found is not None and (found.source is None or len(found.partitions) == 1)
        return found if is_served else None

    def find(self, name: QueueName, then: Callable[[QueueState | None], None]) -> None:
        """Call with a queue, now; or later, if this broker has to find out what there is."""
        found = self.look(name)
        if found is not None:
            then(found)
            return
        self.doors.cluster.when_current(CURRENT_MS_MAX, lambda _: then(self.look(name)))

    def options_of(self, queue: QueueState) -> Mapping[str, str]:
        """Return a queue's options, those of policies among them."""
        return effective_options(self.doors.cluster.state, queue)

    def consumer_timeout_ms(self, queue: QueueState) -> int:
        """Return how long a message is a consumer's; 0: until it says what becomes of it."""
        return int(self.options_of(queue).get("consumer.timeout.ms", 0))

    def when(self, is_so: Callable[[], bool], then: Callable[[], None]) -> None:
        """Call once this broker has heard of something that is done, or after a while."""
        when_known(self.doors.clock, is_so, lambda _: then(), timeout_ms=TIMEOUT_MS)

    def submit(
        self,
        command: ClientCommand,
        on_done: Callable[[RequestRefused | None], None],
    ) -> None:
        """Have the controller carry out a command."""
        self.doors.cluster.submit(
            command,  # type: ignore[arg-type]
            TIMEOUT_MS,
            lambda outcome: on_done(outcome if isinstance(outcome, RequestRefused) else None),
        )

    def make_queue(
        self, command: CreateQueue, then: Callable[[QueueState | RequestRefused], None]
    ) -> None:
        """Make a queue, and go on when this broker has heard of it: the client will use it at once.

        Somebody else may have made it at the same time, in another way.
        """
        name = QueueName(command.vhost, command.name)

        def on_made(refusal: RequestRefused | None) -> None:
            if refusal is not None and not isinstance(refusal, QueueExists):
                then(refusal)
            else:
                self.when(lambda: self.look(name) is not None, on_seen)

        def on_seen() -> None:
            found = self.look(name)
            missing = UnknownQueue(f"no queue '{name.name}' in vhost '{name.vhost}'")
            then(missing if found is None else found)

        self.submit(command, on_made)

    def change_routing(
        self, command: ExchangeCommand, then: Callable[[RequestRefused | None], None]
    ) -> None:
        """Change exchanges or bindings, and go on when this broker has heard of it."""
        doors = self.doors

        def on_done(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                then(outcome)
            else:
                doors.cluster.when_current(CURRENT_MS_MAX, lambda _: then(None))

        doors.exchanges.submit(command, TIMEOUT_MS, on_done)

    def delete_queue(self, queue: QueueState, then: Callable[[], None] | None = None) -> None:
        """Delete a queue that goes by itself, unless one of its name was made again."""
        name = queue.queue
        found = self.doors.cluster.state.queues.get(name)
        if found is None or found.topic_id != queue.topic_id:
            if then is not None:
                then()
            return
        command = DeleteQueue(vhost=name.vhost, name=name.name)
        self.submit(command, lambda _: None if then is None else then())

    def on_detached(self, queue: QueueState) -> None:
        """A consumer has gone: a queue that goes with its last one may go."""
        said = declaration_of(queue)
        if said is None or not said.auto_delete:
            return

        def on_counted(outcome: q.QueueCounts | RequestRefused) -> None:
            if isinstance(outcome, q.QueueCounts) and not outcome.consumers:
                self.delete_queue(queue)

        request = q.AskQueue(log_id=queue.topic_id)
        self.doors.queues.ask_whole(request, q.QueueCounts, TIMEOUT_MS, on_counted)


def desk_of(doors: Doors, chassis: Chassis) -> Desk:
    """Return the desk of a broker, which all gateways to its queues share."""
    found = chassis.common.get(Desk)
    if not isinstance(found, Desk):
        found = chassis.common[Desk] = Desk(doors, chassis.report)
    return found
