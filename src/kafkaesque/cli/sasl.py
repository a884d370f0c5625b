"""Logging in on a connection of our own."""

from collections.abc import Callable
from typing import Any

from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.client.errors import BrokerNotTrusted, LogInRefused
from kafkaesque.client.log_in import CredentialsRefused, LogIn, log_in_steps
from kafkaesque.protocols.kafka.wire import Message

#: Sends a request: its API, version and message.
Ask = Callable[[int, int, Message], Any]


class LogInNotAccepted(CommandFailed):
    """A broker knows no such user, or not with this password or token."""


def authenticate(log_in: LogIn, ask: Ask) -> None:
    """Log in.

    Raises:
        LogInNotAccepted: the broker refuses it.
        CommandFailed: the broker does not offer the mechanism, or does not know the password
            itself.
    """
    steps = log_in_steps(log_in)
    try:
        step = next(steps)
        while True:
            step = steps.send(ask(*step))
    except StopIteration:
        return
    except CredentialsRefused as error:
        hint = (
            "another password; or kafkaesque user list, as an administrator: whether there is "
            "such a user, is enabled, and may log in now and from here"
        )
        raise LogInNotAccepted(
            str(error), hint="kafkaesque login" if log_in.is_token else hint, exit_code=FAILED
        ) from None
    except LogInRefused as error:
        raise CommandFailed(str(error), exit_code=FAILED) from None
    except BrokerNotTrusted as error:
        raise CommandFailed(str(error)) from None
