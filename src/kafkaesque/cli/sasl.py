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


def authenticate(log_in: LogIn, ask: Ask) -> None:
    """Log in.

    Raises:
        CommandFailed: the broker refuses it, does not offer the mechanism, or does not know the
            password itself.
    """
    steps = log_in_steps(log_in)
    try:
        step = next(steps)
        while True:
            step = steps.send(ask(*step))
    except StopIteration:
        return
    except CredentialsRefused as error:
        hint = "the password's file, and whether there is such a user"
        raise CommandFailed(
            str(error), hint="kafkaesque login" if log_in.is_token else hint, exit_code=FAILED
        ) from None
    except LogInRefused as error:
        raise CommandFailed(str(error), exit_code=FAILED) from None
    except BrokerNotTrusted as error:
        raise CommandFailed(str(error)) from None
