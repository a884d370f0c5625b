"""Changes that are asked for at an admin port."""

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from kafkaesque.cli import tls
from kafkaesque.cli.admin_pages import authorization
from kafkaesque.cli.exit_codes import FAILED, UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.session_file import StoredSession
from kafkaesque.cli.troubles import why

TIMEOUT_S: Final = 30.0
ANSWER_BYTES_MAX: Final = 1024 * 1024
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
    host, _, port = admin.rpartition(":")
    if not host or not port.isdigit():
        raise CommandFailed(f"{admin!r} is not HOST:PORT", exit_code=FAILED)
    context = tls.context()
    sent = {"x-kafkaesque-request": "1", "Content-Type": "application/json", **headers}
    if as_self:
        sent |= authorization(admin, is_encrypted=context is not None)
    connection = (
        HTTPConnection(host.strip("[]"), int(port), timeout=TIMEOUT_S)
        if context is None
        else HTTPSConnection(host.strip("[]"), int(port), timeout=TIMEOUT_S, context=context)
    )
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, f"/api/v1{path}", body=data, headers=sent)
        answer = connection.getresponse()
        told = json.loads(answer.read(ANSWER_BYTES_MAX))
    except ssl.SSLError as error:
        raise CommandFailed(
            f"{admin} does not speak TLS, and KAFKAESQUE_CA is set: {error.reason}",
            exit_code=UNREACHABLE,
        ) from None
    except OSError as error:
        raise CommandFailed(
            f"no admin port answers at {admin}: {why(error)}",
            hint="--admin HOST:PORT",
            exit_code=UNREACHABLE,
        ) from None
    except (HTTPException, ValueError):
        raise CommandFailed(
            f"{admin} does not answer as an admin port does",
            hint="--admin HOST:PORT",
            exit_code=UNREACHABLE,
        ) from None
    finally:
        connection.close()
    if answer.status >= 400:
        hint = "kafkaesque login" if answer.status == 401 and as_self else ""
        raise CommandFailed(str(told.get("message", answer.status)), hint=hint)
    return told
