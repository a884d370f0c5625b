"""Transformations: rules in files, and requests to the admin ports that keep them."""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from kafkaesque.cli.admin_pages import ask_first
from kafkaesque.cli.alive_brokers import alive_addresses
from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.exit_codes import FAILED, WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed

ROOT: Final = "/api/v1/transformations"
#: Of one answer.
PAGE_MAX: Final = 500
#: A change is answered when all brokers go by it, or the wait for them is over.
TIMEOUT_S: Final = 35.0
_BAD_REQUEST: Final = 400
_FORBIDDEN: Final = (401, 403)

T = TypeVar("T")


class Stored(msgspec.Struct, frozen=True):
    """A transformation of a cluster."""

    vhost: str
    name: str
    #: In JSON.
    rule: str
    bindings: int


class Listed(msgspec.Struct, frozen=True):
    """A page of a list."""

    items: list[Stored]
    next: str | None


class _Shown(msgspec.Struct, frozen=True):
    transformation: Stored


class NamedText(msgspec.Struct, frozen=True):
    """A header or a property."""

    name: str
    value: str


class Body(msgspec.Struct, frozen=True):
    """A body as it is shown."""

    #: `hex`: each byte is two digits.
    kind: str
    text: str
    #: Whether more follows.
    is_cut: bool = False


class TriedMessage(msgspec.Struct, frozen=True):
    """A message as rules see it."""

    headers: list[NamedText]
    properties: list[NamedText]
    body: Body


class Trial(msgspec.Struct, frozen=True):
    """What a rule makes of a message of a queue."""

    applies: bool
    after: TriedMessage | None
    failure: str | None
    failures: str
    offset: int


class _Refusal(msgspec.Struct):
    message: str = "the broker refuses"


def read_text(given: str) -> str:
    """Return the rule that is meant: JSON, the name of a file with it, or - for standard input.

    Raises:
        CommandFailed: the file cannot be read.
    """
    if given.lstrip().startswith("{"):
        return given
    try:
        return sys.stdin.read() if given == "-" else Path(given).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise wrong_usage(f"the rule in {given} cannot be read: {error}") from None


def list_all(bootstrap: str, vhost: str) -> list[Stored]:
    """Return the transformations of a virtual host.

    Raises:
        CommandFailed: no admin port answers, or it refuses.
    """
    found: list[Stored] = []
    after: dict[str, str] = {}
    while True:
        query = urlencode({"vhost": vhost, "limit": PAGE_MAX, **after})
        page = _ask(bootstrap, "GET", f"{ROOT}?{query}", Listed)
        found += page.items
        if page.next is None:
            return found
        after = {"after": page.next}


def show(bootstrap: str, vhost: str, name: str) -> Stored:
    """Return one transformation.

    Raises:
        CommandFailed: no admin port answers, or it refuses.
    """
    return _ask(bootstrap, "GET", _path(vhost, name), _Shown).transformation


def put(bootstrap: str, vhost: str, name: str, rule: str) -> None:
    """Make a transformation, or make one so.

    Raises:
        CommandFailed: no admin port answers, or it refuses.
    """
    _ask(bootstrap, "PUT", _path(vhost, name), object, {"rule": rule})


def delete(bootstrap: str, vhost: str, name: str) -> None:
    """Remove a transformation; one that is absent is as good.

    Raises:
        CommandFailed: no admin port answers, or it refuses.
    """
    _ask(bootstrap, "DELETE", _path(vhost, name), object)


def unknown(name: str, there: Sequence[str]) -> CommandFailed:
    """Return the failure for one that is not there, with the name that may be meant."""
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"did you mean {near[0]}?" if near else "kafkaesque transformation list"
    return CommandFailed(f"transformation {name} does not exist", hint=hint)


def try_out(
    bootstrap: str, vhost: str, name: str, rule: str, queue: str, partition: int, offset: int
) -> Trial:
    """Return what a transformation makes of the first message of a queue from an offset on.

    With a `rule`, in JSON, it is that one which is tried.

    Raises:
        CommandFailed: no admin port answers, or it refuses.
    """
    body = {"rule": rule, "queue": queue, "partition": partition, "offset": offset}
    # One that is not there has a name, too: it does not matter which.
    return _ask(bootstrap, "POST", _path(vhost, name or "-", "/try"), Trial, body)


def _path(vhost: str, name: str, of: str = "") -> str:
    return f"{ROOT}/{quote(name, safe='')}{of}?{urlencode({'vhost': vhost})}"


def _ask(bootstrap: str, method: str, path: str, kind: type[T], body: object = None) -> T:
    data = None if body is None else msgspec.json.encode(body)
    reply = ask_first(alive_addresses(bootstrap), method, path, data, TIMEOUT_S)
    if reply.is_well:
        return msgspec.json.decode(reply.content, type=kind)
    try:
        reason = msgspec.json.decode(reply.content, type=_Refusal).message
    except msgspec.MsgspecError:
        reason = f"the broker answers {reply.status}"
    hint = "as an administrator: kafkaesque rule list" if reply.status in _FORBIDDEN else ""
    exit_code = WRONG_USAGE if reply.status == _BAD_REQUEST else FAILED
    raise CommandFailed(reason, hint=hint, exit_code=exit_code)
