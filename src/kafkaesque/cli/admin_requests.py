"""Changes that are asked for at an admin port."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from kafkaesque.cli import tls
from kafkaesque.cli.admin_pages import authorization
from kafkaesque.cli.admin_transport import UNAUTHORIZED, exchange
from kafkaesque.cli.session_file import StoredSession

ADMIN_DEFAULT: Final = "127.0.0.1:8080"

AdminOption = Annotated[
    str,
    typer.Option(
        "--admin",
        metavar="HOST:PORT",
        envvar="KAFKAESQUE_ADMIN",
        help="The admin port of any broker.",
    ),
]


def end_session(session: StoredSession) -> None:
    """End a session at its cluster.

    Raises:
        CommandFailed: nobody answers, or it is refused.
    """
    token = session.token.reveal().decode()
    bearer = {"Authorization": f"Bearer {token}"}
    send(session.admin, "DELETE", "/session", as_self=False, headers=bearer)


def send(
    admin: str,
    method: str,
    path: str,
    body: object = None,
    *,
    as_self: bool = True,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Return the answer to a request; with `as_self` it says who asks.

    Raises:
        CommandFailed: nobody answers, or it is refused.
    """
    who = authorization(admin, is_encrypted=tls.is_on()) if as_self else {}
    answer = exchange(admin, method, path, body, {**headers, **who})
    is_unknown = answer.status == UNAUTHORIZED and as_self
    return answer.check("kafkaesque login" if is_unknown else "")
