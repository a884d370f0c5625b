"""The text port: accepts people with telnet and bounds what they may use."""

from collections.abc import Callable

from kafkaesque.broker.doors import Doors
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import Address, Framing, Listener, ListenOptions
from kafkaesque.gateway.text.connection import TextConnection
from kafkaesque.gateway.text.consuming import Consumer
from kafkaesque.gateway.text.publishing import Publisher
from kafkaesque.gateway.text.reply import Reply
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.text.answers import (
    TopicLine,
    write_bad_command,
    write_help,
    write_ok,
    write_topics,
)
from kafkaesque.protocols.text.commands import (
    Command,
    Consume,
    Help,
    Publish,
    Quit,
    Subscribe,
    Topics,
)
from kafkaesque.protocols.text.errors import BadCommand

CONNECTIONS_MAX = 1_000
CONNECTION_IDLE_MS_MAX = 600_000
SWEEP_MS = 30_000
RELIEF_MS = 5


class TextGateway:
    """One broker's text port."""

    def __init__(self, doors: Doors, report: Callable[[str], None]) -> None:
        self.doors = doors
        self.clock = doors.clock
        self.report = report
        self.connections: dict[int, TextConnection] = {}
        self._publisher = Publisher(doors)
        self._consumer = Consumer(doors)
        self._listener: Listener | None = None
        self._sweep: Timer | None = None
        self._unrelieved: list[Callable[[], None]] = []

    def start(self, address: Address) -> Address:
        """Listen; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = ListenOptions(framing=Framing.STREAM, connections_max=CONNECTIONS_MAX)
        listener = self.doors.network.listen(address, options, lambda: TextConnection(self))
        self._listener = listener
        self._sweep = self.clock.call_later(SWEEP_MS, self._on_sweep)
        return listener.address

    def stop(self) -> None:
        """Accept no more and close what is open."""
        if self._listener is not None:
            self._listener.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections.values()):
            connection.close()

    def is_overloaded(self) -> bool:
        """Whether so much waits to be synced that nothing more should be taken from clients."""
        return self.doors.publishing.is_overloaded

    def call_when_relieved(self, callback: Callable[[], None]) -> None:
        """Call once the broker can take more; each connection asks once at most."""
        if not self._unrelieved:
            self.clock.call_later(RELIEF_MS, self._on_relief)
        self._unrelieved.append(callback)

    def _on_relief(self) -> None:
        if self.is_overloaded():
            self.clock.call_later(RELIEF_MS, self._on_relief)
            return
        waiting, self._unrelieved = self._unrelieved, []
        for callback in waiting:
            callback()

    def _on_sweep(self) -> None:
        """Close connections whose client has neither said nor read anything for long."""
        limit_ms = self.clock.now_ms() - CONNECTION_IDLE_MS_MAX
        for connection in list(self.connections.values()):
            if connection.active_ms < limit_ms:
                connection.on_idle()
        self._sweep = self.clock.call_later(SWEEP_MS, self._on_sweep)

    # -- commands

    def carry_out(self, command: Command, reply: Reply) -> None:
        """Do what a line asks for; `reply` is ended once, now or later."""
        try:
            match command:
                case Publish():
                    self._publisher.publish(command, reply)
                case Subscribe():
                    self._subscribe(command, reply)
                case Consume():
                    self._consumer.consume(command, reply)
                case Topics():
                    reply.end(write_topics(self._topics()))
                case Help():
                    reply.end(write_help())
                case Quit():
                    raise InvariantBroken("QUIT is the connection's own to do")
        except BadCommand as error:
            reply.end(write_bad_command(error))

    def _subscribe(self, command: Subscribe, reply: Reply) -> None:
        subscription = command.subscription
        self._consumer.check(subscription)
        reply.end(write_ok(subscription.subscription_id))

    def _topics(self) -> list[TopicLine]:
        """Return the users' topics; the brokers' own are nobody's to read or write here."""
        topics = self.doors.cluster.state.topics
        return [
            TopicLine(name, len(topic.partitions), len(topic.partitions[0].replicas))
            for name, topic in sorted(topics.items())
            if not topic.is_internal
        ]
