"""Requests to the API of an admin port, whoever asks."""

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple

from kafkaesque.cli import tls
from kafkaesque.cli.exit_codes import FAILED, UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.troubles import why

TIMEOUT_S: Final = 30.0
ANSWER_BYTES_MAX: Final = 1024 * 1024
UNAUTHORIZED: Final = 401
_ERRORS: Final = 400


class ApiAnswer(NamedTuple):
    """What an admin port says to a request."""

    status: int
    document: Any

    def check(self, hint: str = "") -> Any:
        """Return the document of an answer that is none of an error.

        Raises:
            CommandFailed: the request was refused.
        """
        if self.status >= _ERRORS:
            raise CommandFailed(str(self.document.get("message", self.status)), hint=hint)
        return self.document


def exchange(
    admin: str, method: str, path: str, body: object, headers: Mapping[str, str]
) -> ApiAnswer:
    """Return the answer to a request.

    Raises:
        CommandFailed: nobody answers, or not as an admin port does.
    """
    host, _, port = admin.rpartition(":")
    if not host or not port.isdigit():
        raise CommandFailed(f"{admin!r} is not HOST:PORT", exit_code=FAILED)
    context = tls.context()
    sent = {"x-kafkaesque-request": "1", "Content-Type": "application/json", **headers}
    connection = (
        HTTPConnection(host.strip("[]"), int(port), timeout=TIMEOUT_S)
        if context is None
        else HTTPSConnection(host.strip("[]"), int(port), timeout=TIMEOUT_S, context=context)
    )
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, f"/api/v1{path}", body=data, headers=sent)
        answer = connection.getresponse()
        return ApiAnswer(answer.status, json.loads(answer.read(ANSWER_BYTES_MAX)))
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


def ask_session(admin: str, user: str, password: str, code: str) -> ApiAnswer:
    """Ask for a session; the answer has its token, unless something is wrong.

    Raises:
        CommandFailed: nobody answers, or not as an admin port does.
    """
    body = {"user": user, "password": password, "code": code}
    return exchange(admin, "POST", "/session", body, {})
