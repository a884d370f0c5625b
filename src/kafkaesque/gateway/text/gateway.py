"""The text port: accepts people with telnet and bounds what they may use."""

from typing import get_args

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import TEXT, Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions, Shared
from kafkaesque.chassis.rights import Rights, check_rows
from kafkaesque.env.network import Address, Framing
from kafkaesque.gateway.text.authorization import ROWS, check_rights
from kafkaesque.gateway.text.connection import TextConnection
from kafkaesque.gateway.text.consuming import Consumer
from kafkaesque.gateway.text.held import Held
from kafkaesque.gateway.text.publishing import Publisher
from kafkaesque.gateway.text.queueing import QueueDesk
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
    Auth,
    Command,
    Consume,
    Help,
    Publish,
    Quit,
    Subscribe,
    Topics,
)
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.queue_commands import Ack, Get, Nack, Put, Queues

CONNECTIONS_MAX = 1_000
CONNECTION_IDLE_MS_MAX = 600_000
#: With so many bytes of answers unread, no more lines are carried out.
UNSENT_BYTES_MAX = 1024 * 1024


class TextGateway(Gateway):
    """One broker's text ports."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        check_rows(ROWS, get_args(Command))
        self.doors = doors
        self.clock = doors.clock
        self._publisher = Publisher(doors)
        self._consumer = Consumer(doors)
        self._queues = QueueDesk(doors)

    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = PortOptions(
            protocol=TEXT,
            listener=listener.name,
            tls=listener.tls,
            framing=Framing.STREAM,
            connections_max=CONNECTIONS_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
            idle_ms_max=lambda: CONNECTION_IDLE_MS_MAX,
            refuses_http=True,
            access=listener.access,
            mechanisms=listener.mechanisms,
            is_local=listener.is_local,
        )
        return self.listen(listener.address, options, self._connect)

    def _connect(self, shared: Shared) -> TextConnection:
        return TextConnection(self.carry_out, Held(self.doors), shared)

    # -- commands

    def carry_out(self, command: Command, reply: Reply) -> None:
        """Do what a line asks for; `reply` is ended once, now or later."""
        try:
            check_rights(reply.rights, command)
            match command:
                case Publish():
                    self._publisher.publish(command, reply)
                case Subscribe():
                    self._subscribe(command, reply)
                case Consume():
                    self._consumer.consume(command, reply)
                case Put():
                    self._queues.put(command, reply)
                case Get():
                    self._queues.get(command, reply)
                case Ack():
                    self._queues.ack(command, reply)
                case Nack():
                    self._queues.nack(command, reply)
                case Queues():
                    self._queues.list_all(reply)
                case Topics():
                    reply.end(write_topics(self._topics(reply.rights)))
                case Help():
                    reply.end(write_help())
                case Quit() | Auth():
                    raise InvariantBroken("QUIT and AUTH are the connection's own to do")
        except BadCommand as error:
            reply.end(write_bad_command(error))

    def _subscribe(self, command: Subscribe, reply: Reply) -> None:
        subscription = command.subscription
        self._consumer.check(subscription)
        reply.end(write_ok(subscription.subscription_id))

    def _topics(self, rights: Rights | None) -> list[TopicLine]:
        """Return the users' topics that a client may see; the brokers' own are nobody's here."""
        topics = self.doors.cluster.state.topics
        return [
            TopicLine(name, len(topic.partitions), len(topic.partitions[0].replicas))
            for name, topic in sorted(topics.items())
            if not topic.is_internal
            and (rights is None or rights.could(Operation.DESCRIBE, ResourceType.TOPIC, name))
        ]
