"""Enhanced authentication (5.0, section 4.12): a log-in in steps, in CONNECT and later once more.

The method is the name of a mechanism that the listener offers, such as SCRAM-SHA-512; the data of
CONNECT and AUTH are its messages. The codec sees to it that AUTH comes when it may, and with the
method of CONNECT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.access.authentication import Challenge, Failure, Success
from kafkaesque.access.sasl_mechanisms import MechanismRefused
from kafkaesque.chassis.login import Login
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.packets import Auth
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode

#: Gets what the mechanism says with a success, or why there is none; not called if the client goes.
OnEnd = Callable[[bytes | MqttError], None]

_R: Final = ReasonCode


class EnhancedLogIn:
    """One log-in: `begin`, then `step` for each AUTH."""

    __slots__ = ("_link", "_login", "_method", "_on_end")

    def __init__(self, link: MqttLink, method: str, on_end: OnEnd) -> None:
        self._link: Final = link
        self._method: Final = method
        self._on_end: Final = on_end
        self._login: Login | None = None

    def begin(self, data: bytes | None) -> None:
        """Take what the client has begun with; None: it waits for a first challenge."""
        link = self._link
        if not link.is_guarded:
            what = "nobody logs in at this port: connect without an authentication method"
            self._on_end(MqttError(_R.BAD_AUTHENTICATION_METHOD, what))
            return
        try:
            self._login = Login(link, self._method)
        except MechanismRefused as refusal:
            self._on_end(MqttError(_R.BAD_AUTHENTICATION_METHOD, str(refusal)))
            return
        if data is None:
            self._challenge(None)
        else:
            self._login.step(data, self._on_step)

    def step(self, data: bytes | None) -> None:
        """Take what the client has answered."""
        if self._login is not None:
            self._login.step(data or b"", self._on_step)

    def _on_step(self, outcome: Challenge | Success | Failure) -> None:
        match outcome:
            case Challenge():
                self._challenge(outcome.message)
            case Success():
                self._on_end(outcome.message)
            case Failure():
                self._on_end(MqttError(_R.NOT_AUTHORIZED, "the log-in is refused"))

    def _challenge(self, data: bytes | None) -> None:
        self._link.send(
            Auth(reason=_R.CONTINUE_AUTHENTICATION, properties=said(self._method, data))
        )


def said(method: str, data: bytes | None) -> Properties:
    """Return what AUTH and CONNACK say of a log-in; no message is no property."""
    return Properties(authentication_method=method, authentication_data=data or None)
