"""How a client says who it is: user name and password in CONNECT, or its certificate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.access.authentication import Challenge, Failure, Success
from kafkaesque.access.sasl_mechanisms import MechanismRefused
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.login import Login
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.packets import Connect
from kafkaesque.protocols.mqtt.reasons import ReasonCode

PLAIN: Final = "PLAIN"
_REFUSED: Final = MqttError(
    ReasonCode.BAD_USER_NAME_OR_PASSWORD, "the user name or the password is wrong"
)


def log_in(link: MqttLink, connect: Connect, then: Callable[[MqttError | None], None]) -> None:
    """Find out who a client is; `then` gets None when it is let in, and is not called if it goes.

    Where nobody has to log in, whatever a client says is taken.
    """
    if not link.is_guarded or (link.login is not None and not link.needs_login):
        then(None)
    elif connect.user_name is None and connect.password is None:
        _take_stranger(link, then)
    else:
        _check(link, connect, then)


def _take_stranger(link: MqttLink, then: Callable[[MqttError | None], None]) -> None:
    if link.shared.options.access is AccessMode.OPTIONAL:
        link.note_no_login()
        then(None)
    else:
        what = "this port needs a user name and a password"
        then(MqttError(ReasonCode.NOT_AUTHORIZED, what))


def _check(link: MqttLink, connect: Connect, then: Callable[[MqttError | None], None]) -> None:
    try:
        login = Login(link, PLAIN)
    except MechanismRefused:
        what = "passwords in the clear are not taken here: connect by TLS"
        then(MqttError(ReasonCode.NOT_AUTHORIZED, what))
        return

    def on_step(outcome: Challenge | Success | Failure) -> None:
        then(None if isinstance(outcome, Success) else _REFUSED)

    user = (connect.user_name or "").encode()
    login.step(b"\0%b\0%b" % (user, connect.password or b""), on_step)
