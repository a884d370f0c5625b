"""What a line asks for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches

from kafkaesque.protocols.text import examples
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.messages import (
    SHOWN_LENGTH_MAX,
    TextMessage,
    read_message,
    shortened,
)
from kafkaesque.protocols.text.positions import Start, read_start
from kafkaesque.protocols.text.queue_commands import (
    Ack,
    Get,
    Nack,
    Put,
    Queues,
    read_ack,
    read_get,
    read_nack,
    read_put,
)
from kafkaesque.protocols.text.subscription import (
    Subscription,
    check_group,
    read_partitions,
    read_subscription,
)

_SUBSCRIBE = f"{examples.SUBSCRIBE_SOME} (without partitions: all of them)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """PUBS: append a message to a topic."""

    topic: str
    message: TextMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """SUBS: give an id for a group's interest in a topic."""

    subscription: Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume:
    """CONS: show messages of a subscription."""

    subscription: Subscription
    start: Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """AUTH: say who one is."""

    user: str
    #: Or the token of a session.
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Topics:
    """TOPICS: list them."""


@dataclass(frozen=True, slots=True)
class Help:
    """HELP: show the commands."""


@dataclass(frozen=True, slots=True)
class Quit:
    """QUIT: close the connection."""


Command = (
    Publish | Subscribe | Consume | Put | Get | Ack | Nack | Queues | Auth | Topics | Help | Quit
)


def read_command(line: bytes) -> Command | None:
    """Return what a line asks for; None for an empty one.

    Raises:
        BadCommand: it asks for nothing that can be done.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise BadCommand(
            f"byte {error.start + 1} of the line is not UTF-8", examples.HELP
        ) from None
    verb, rest = _cut(text)
    if not verb:
        return None
    reader = _READERS.get(verb.upper())
    if reader is None:
        raise _unknown(verb)
    return reader(rest)


def _cut(text: str) -> tuple[str, str]:
    """Return the first word and what follows it."""
    words = text.split(maxsplit=1)
    if len(words) == 2:
        return words[0], words[1]
    return (words[0], "") if words else ("", "")


def _unknown(verb: str) -> BadCommand:
    near = get_close_matches(verb.upper()[:SHOWN_LENGTH_MAX], _READERS, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return BadCommand(f"there is no command {shortened(verb)!r}{hint}", examples.HELP)


def _read_publish(rest: str) -> Publish:
    topic, message = _cut(rest)
    if not topic:
        raise BadCommand("PUBS needs a topic and a message", examples.PUBLISH)
    if not message:
        raise BadCommand(f"PUBS {shortened(topic)} needs a message", examples.PUBLISH)
    return Publish(topic=topic, message=read_message(message, topic))


def _read_subscribe(rest: str) -> Subscribe:
    words = rest.split()
    if len(words) not in (2, 3):
        raise BadCommand(
            f"SUBS takes a topic, a group and optionally partitions, not {_count(words)}",
            _SUBSCRIBE,
        )
    topic, group = words[:2]
    check_group(group)
    partitions = read_partitions(words[2]) if len(words) == 3 else None
    return Subscribe(subscription=Subscription(topic=topic, group=group, partitions=partitions))


def _read_consume(rest: str) -> Consume:
    words = rest.split()
    if len(words) != 3:
        raise BadCommand(
            f"CONS takes a topic, a subscription id and an offset, not {_count(words)}",
            examples.CONSUME_NEXT,
        )
    topic, subscription_id, start = words
    return Consume(subscription=read_subscription(topic, subscription_id), start=read_start(start))


def _read_auth(rest: str) -> Auth:
    user, password = _cut(rest)
    if not user or not password:
        raise BadCommand("AUTH takes a user and a password", examples.AUTH)
    return Auth(user=user, password=password)


def _count(words: list[str]) -> str:
    return "1 word" if len(words) == 1 else f"{len(words)} words"


def _read_alone(verb: str, command: Command) -> Callable[[str], Command]:
    def read(rest: str) -> Command:
        if rest.strip():
            raise BadCommand(f"{verb} stands alone", verb)
        return command

    return read


_READERS: dict[str, Callable[[str], Command]] = {
    "PUBS": _read_publish,
    "SUBS": _read_subscribe,
    "CONS": _read_consume,
    "PUT": read_put,
    "GET": read_get,
    "ACK": read_ack,
    "NACK": read_nack,
    "QUEUES": _read_alone("QUEUES", Queues()),
    "AUTH": _read_auth,
    "TOPICS": _read_alone("TOPICS", Topics()),
    # What somebody wants help with matters not: all of it is short.
    "HELP": lambda _: Help(),
    "QUIT": _read_alone("QUIT", Quit()),
}
