"""What each command of the text protocol needs: one table. One without a row stops the start."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.chassis.rights import Rights
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
from kafkaesque.protocols.text.examples import QUEUES, TOPICS
from kafkaesque.protocols.text.positions import Place
from kafkaesque.protocols.text.queue_commands import Ack, Get, Nack, Put, Queues


class Need(NamedTuple):
    """An operation on a resource, by name."""

    operation: Operation
    resource_type: ResourceType
    name: str


class Row(NamedTuple):
    """What a command needs."""

    needs: Callable[[Any], Iterator[Need]]
    is_for_strangers: bool = False


def _nothing(_: Command) -> Iterator[Need]:
    yield from ()


def _of_publish(command: Publish) -> Iterator[Need]:
    yield Need(Operation.WRITE, ResourceType.TOPIC, command.topic)


def _of_subscribe(command: Subscribe) -> Iterator[Need]:
    yield Need(Operation.READ, ResourceType.TOPIC, command.subscription.topic)
    yield Need(Operation.READ, ResourceType.GROUP, command.subscription.group)


def _of_consume(command: Consume) -> Iterator[Need]:
    yield Need(Operation.READ, ResourceType.TOPIC, command.subscription.topic)
    if command.start.place is Place.NEXT:
        # The group's offsets are read and committed.
        yield Need(Operation.READ, ResourceType.GROUP, command.subscription.group)


def _of_put(command: Put) -> Iterator[Need]:
    yield Need(Operation.WRITE, ResourceType.QUEUE, command.queue)


def _of_taking(command: Get | Ack | Nack) -> Iterator[Need]:
    yield Need(Operation.READ, ResourceType.QUEUE, command.queue)


ROWS: Final[Mapping[type[Command], Row]] = {
    Publish: Row(_of_publish),
    Subscribe: Row(_of_subscribe),
    Consume: Row(_of_consume),
    Put: Row(_of_put),
    Get: Row(_of_taking),
    Ack: Row(_of_taking),
    Nack: Row(_of_taking),
    # These show what the client may see.
    Topics: Row(_nothing),
    Queues: Row(_nothing),
    Auth: Row(_nothing, is_for_strangers=True),
    Help: Row(_nothing, is_for_strangers=True),
    Quit: Row(_nothing, is_for_strangers=True),
}


def is_for_strangers(command: Command) -> bool:
    """Tell whether a command is carried out before a log-in."""
    return ROWS[type(command)].is_for_strangers


def check_rights(rights: Rights | None, command: Command) -> None:
    """Check that a client may have a command carried out; without `rights` it may.

    Raises:
        BadCommand: no rule allows it. A topic or a queue that it may not see does not exist.
    """
    if rights is None:
        return
    for operation, kind, name in ROWS[type(command)].needs(command):
        if rights.may(operation, kind, name):
            continue
        absent = _ABSENT.get(kind)
        if absent is not None and not rights.could(Operation.DESCRIBE, kind, name):
            raise absent(name)
        example = QUEUES if kind is ResourceType.QUEUE else TOPICS
        raise BadCommand(rights.refusal(operation, kind, name), example)


def no_topic(name: str) -> BadCommand:
    """Return what is said of a topic that does not exist, or is hidden."""
    return BadCommand(f"there is no topic {name!r}", TOPICS)


def no_queue(name: str) -> BadCommand:
    """Return what is said of a queue that does not exist, or is hidden."""
    return BadCommand(f"there is no queue {name!r}", QUEUES)


_ABSENT: Final = {ResourceType.TOPIC: no_topic, ResourceType.QUEUE: no_queue}
