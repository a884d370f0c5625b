"""What a line asks of a queue."""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.protocols.text import examples
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.messages import TextMessage, read_message, shortened

#: The longest wait of one GET: the lines behind it wait, too.
WAIT_S_MAX: Final = 30
PRIORITY_MAX: Final = 31
#: Ten years.
AHEAD_S_MAX: Final = 10 * 366 * 24 * 3600
#: Fields of a message in JSON that only queues have.
FIELDS: Final = ("Priority", "Group", "Delay", "Expires", "Id")

_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?")
_OFFSET: Final = re.compile(r"[0-9]{1,18}")
_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """PUT: append a message to a queue."""

    queue: str
    message: TextMessage
    priority: int = 0
    group: str = ""
    delay_ms: int = 0
    #: 0: as the queue has it.
    expires_ms: int = 0
    message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """GET: be given a message of a queue."""

    queue: str
    wait_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """ACK: a message is done with."""

    queue: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nack:
    """NACK: others are to try a message."""

    queue: str
    offset: int
    #: None: as the queue has it.
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Queues:
    """QUEUES: list them."""


def read_put(rest: str) -> Put:
    """Read what follows PUT.

    Raises:
        BadCommand: there is no queue or no message.
    """
    queue, message = _first_word(rest)
    if not queue:
        raise BadCommand("PUT needs a queue and a message", examples.PUT)
    if not message:
        raise BadCommand(f"PUT {shortened(queue)} needs a message", examples.PUT)
    try:
        read = read_message(message, queue, FIELDS)
    except BadCommand as error:
        # What is right to publish is right to put.
        raise BadCommand(error.what, error.example.replace("PUBS ", "PUT ", 1)) from None
    if not message.lstrip().startswith("{"):
        return Put(queue=queue, message=read)
    fields = _decoder.decode(message.encode())
    expires_ms = round(_number(fields, "Expires", AHEAD_S_MAX) * 1000)
    return Put(
        queue=queue,
        message=read,
        priority=int(_number(fields, "Priority", PRIORITY_MAX, is_whole=True)),
        group=_text(fields, "Group"),
        delay_ms=round(_number(fields, "Delay", AHEAD_S_MAX) * 1000),
        # To the queue, 0 is nothing said: who has no time left would live for ever.
        expires_ms=max(expires_ms, 1) if "Expires" in fields else 0,
        message_id=_text(fields, "Id"),
    )


def _first_word(text: str) -> tuple[str, str]:
    words = text.split(maxsplit=1)
    return (words[0] if words else ""), (words[1] if len(words) > 1 else "")


def _number(
    fields: dict[str, msgspec.Raw], name: str, most: int, *, is_whole: bool = False
) -> float:
    if name not in fields:
        return 0
    kind = "a whole number" if is_whole else "a number of seconds"
    wrong = BadCommand(f'"{name}" must be {kind} from 0 to {most}', examples.PUT_LATER)
    try:
        value = msgspec.json.decode(fields[name], type=int if is_whole else float)
    except msgspec.MsgspecError:
        raise wrong from None
    if not 0 <= value <= most:
        raise wrong
    return value


def _text(fields: dict[str, msgspec.Raw], name: str) -> str:
    if name not in fields:
        return ""
    try:
        return msgspec.json.decode(fields[name], type=str)
    except msgspec.MsgspecError:
        raise BadCommand(f'"{name}" must be a string', examples.PUT_LATER) from None


def read_get(rest: str) -> Get:
    """Read what follows GET.

    Raises:
        BadCommand: it is not a queue and maybe seconds.
    """
    words = rest.split()
    if len(words) not in (1, 2):
        raise BadCommand("GET takes a queue and optionally seconds to wait", examples.GET_WAITING)
    wait_ms = _seconds_ms(words[1], examples.GET_WAITING) if len(words) == 2 else 0
    if wait_ms > WAIT_S_MAX * 1000:
        raise BadCommand(f"GET waits for at most {WAIT_S_MAX} seconds", examples.GET_WAITING)
    return Get(queue=words[0], wait_ms=wait_ms)


def read_ack(rest: str) -> Ack:
    """Read what follows ACK.

    Raises:
        BadCommand: it is not a queue and a number of a message.
    """
    words = rest.split()
    if len(words) != 2:
        raise BadCommand("ACK takes a queue and the number of a message", examples.ACK)
    return Ack(queue=words[0], offset=_offset(words[1], examples.ACK))


def read_nack(rest: str) -> Nack:
    """Read what follows NACK.

    Raises:
        BadCommand: it is not a queue, a number of a message, and maybe seconds.
    """
    words = rest.split()
    if len(words) not in (2, 3):
        raise BadCommand(
            "NACK takes a queue, the number of a message and optionally seconds", examples.NACK
        )
    delay_ms = _seconds_ms(words[2], examples.NACK) if len(words) == 3 else None
    if delay_ms is not None and delay_ms > AHEAD_S_MAX * 1000:
        raise BadCommand(f"NACK delays for at most {AHEAD_S_MAX} seconds", examples.NACK)
    return Nack(queue=words[0], offset=_offset(words[1], examples.NACK), delay_ms=delay_ms)


def _seconds_ms(word: str, example: str) -> int:
    if not _SECONDS.fullmatch(word):
        raise BadCommand(f"{shortened(word)!r} is not a number of seconds", example)
    return round(float(word) * 1000)


def _offset(word: str, example: str) -> int:
    if not _OFFSET.fullmatch(word):
        raise BadCommand(f"{shortened(word)!r} is not the number of a message", example)
    return int(word)
