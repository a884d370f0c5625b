"""Requests to RabbitMQ's API, which the admin ports of a cluster answer."""

from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from kafkaesque.cli.admin_pages import Reply, ask_first
from kafkaesque.cli.alive_brokers import alive_addresses
from kafkaesque.cli.exit_codes import FAILED, WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed

ROOT: Final = "/rabbitmq/api"
#: A broker hangs up on a request that takes half a minute.
TIMEOUT_S: Final = 35.0
_BAD_REQUEST: Final = 400
_FORBIDDEN: Final = (401, 403)
_ABSENT: Final = 404

T = TypeVar("T")


class _Refusal(msgspec.Struct):
    reason: str = "the broker refuses"


def path_of(*parts: str) -> str:
    """Return a path of the API, whose parts may have any characters."""
    return "".join(f"/{quote(each, safe='')}" for each in parts)


def read(bootstrap: str, path: str, kind: type[T]) -> T:
    """Return what is at a path.

    Raises:
        CommandFailed: no admin port answers, or it refuses.
    """
    return msgspec.json.decode(_ask(bootstrap, "GET", path, None).content, type=kind)


def change(
    bootstrap: str, method: str, path: str, body: object = None, if_absent: str = ""
) -> bytes:
    """Change something; return what is said of it. `if_absent` is to be tried if it is not there.

    Raises:
        CommandFailed: no admin port answers, or it refuses.
    """
    data = None if body is None else msgspec.json.encode(body)
    return _ask(bootstrap, method, path, data, if_absent).content


def _ask(bootstrap: str, method: str, path: str, body: bytes | None, if_absent: str = "") -> Reply:
    brokers = alive_addresses(bootstrap)
    reply = ask_first(brokers, method, ROOT + path, body, TIMEOUT_S)
    if reply.is_well:
        return reply
    try:
        reason = msgspec.json.decode(reply.content, type=_Refusal).reason
    except msgspec.MsgspecError:
        reason = f"the broker answers {reply.status}"
    hint = if_absent if reply.status == _ABSENT else ""
    if reply.status in _FORBIDDEN:
        hint = "as an administrator: kafkaesque rule list"
    exit_code = WRONG_USAGE if reply.status == _BAD_REQUEST else FAILED
    raise CommandFailed(reason, hint=hint, exit_code=exit_code)
