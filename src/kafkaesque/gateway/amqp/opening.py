"""The handshake: start, log-in, tune, open; and what comes on channel 0 afterwards."""

from __future__ import annotations

from typing import Final

from kafkaesque import __version__
from kafkaesque.access.authentication import Challenge, Failure, Success
from kafkaesque.access.sasl_mechanisms import MechanismRefused
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.login import Login
from kafkaesque.gateway.amqp.ports import AmqpLink
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.frames import FRAME_BYTES_MAX_DEFAULT
from kafkaesque.protocols.amqp.handshake import (
    AMQPLAIN,
    BLOCKED,
    CANCEL_NOTIFY,
    EXTERNAL,
    PLAIN,
    TELLS_FAILED_LOGIN,
    has_capability,
    read_login,
    server_properties,
)
from kafkaesque.protocols.amqp.methods import Method

HANDSHAKE_MS_MAX: Final = 10_000
#: As RabbitMQ proposes them.
CHANNEL_MAX: Final = 2_047
HEARTBEAT_S: Final = 60
ANONYMOUS: Final = "ANONYMOUS"
#: What clients say that were told of nobody else.
_GUEST: Final = ("guest", b"guest")


class Opening:
    """One connection's channel 0."""

    __slots__ = ("_connection", "_start_ok")

    def __init__(self, connection: AmqpLink) -> None:
        self._connection = connection
        self._start_ok = m.ConnectionStartOk()

    def start(self) -> None:
        """Say what is spoken here, and how clients can log in."""
        cluster_id = self._connection.desk.doors.cluster.cluster_id
        start = m.ConnectionStart(
            server_properties=server_properties(__version__, str(cluster_id)),
            mechanisms=" ".join(self._mechanisms()).encode(),
        )
        self._connection.send(0, start)

    def _mechanisms(self) -> tuple[str, ...]:
        connection = self._connection
        logins = connection.shared.chassis.logins
        if not connection.is_guarded or logins is None:
            return (PLAIN, AMQPLAIN, ANONYMOUS)
        if not connection.needs_login and connection.login is not None:
            # Its certificate has said who it is.
            return (EXTERNAL,)
        names = logins.access.mechanisms(
            connection.shared.options.mechanisms, is_encrypted=connection.is_private
        )
        found = [each for each in names if each in (PLAIN, EXTERNAL)]
        if PLAIN in found:
            found.append(AMQPLAIN)
        if not connection.needs_login:
            found.append(ANONYMOUS)
        return tuple(found)

    def take(self, method: Method) -> None:
        """Take a method of channel 0."""
        match method:
            case m.ConnectionStartOk():
                self._log_in(method)
            case m.ConnectionSecureOk():
                raise InvariantBroken("secure-ok, and nobody has sent secure")
            case m.ConnectionTuneOk():
                self._connection.begin_heartbeats()
            case m.ConnectionOpen():
                self._open(method)
            case m.ConnectionUpdateSecret():
                self._update(method)
            case _:
                raise InvariantBroken(f"{type(method).__name__} on channel 0")

    # -- the log-in

    def _log_in(self, start_ok: m.ConnectionStartOk) -> None:
        connection = self._connection
        self._start_ok = start_ok
        connection.client_id = _name_of(start_ok)
        connection.knows_blocked = has_capability(start_ok, BLOCKED)
        connection.knows_cancel = has_capability(start_ok, CANCEL_NOTIFY)
        offered = self._mechanisms()
        if start_ok.mechanism not in offered:
            what = f"unknown authentication mechanism '{start_ok.mechanism}'"
            connection.fail(_error(ReplyCode.COMMAND_INVALID, what, start_ok))
            return
        try:
            user, password = self._named(start_ok)
        except AmqpError as error:
            connection.fail(error)
            return
        connection.user = user
        is_guest = (user, password) == _GUEST
        is_known = connection.login is not None and start_ok.mechanism == EXTERNAL
        is_optional = connection.shared.options.access is AccessMode.OPTIONAL
        if not connection.is_guarded or is_known or start_ok.mechanism == ANONYMOUS:
            self._tune()
        elif is_optional and is_guest:
            connection.note_no_login()
            self._tune()
        else:
            self._check(start_ok.mechanism, user, password)

    def _named(self, start_ok: m.ConnectionStartOk) -> tuple[str, bytes]:
        if start_ok.mechanism in (PLAIN, AMQPLAIN):
            login = read_login(start_ok)
            return login.user, login.password
        return start_ok.response.decode(errors="replace"), b""

    def _check(self, mechanism: str, user: str, password: bytes) -> None:
        connection = self._connection
        name = PLAIN if mechanism == AMQPLAIN else mechanism
        message = (
            b"" if name == EXTERNAL else b"\0%b\0%b" % (user.encode(errors="replace"), password)
        )
        try:
            login = Login(connection, name)
        except MechanismRefused:
            self._refuse()
            return
        login.step(message, self._on_step)

    def _on_step(self, outcome: Challenge | Success | Failure) -> None:
        if isinstance(outcome, Success):
            identity = self._connection.identity
            self._connection.user = "" if identity is None else identity.user
            self._tune()
        else:
            self._refuse()

    def _refuse(self) -> None:
        connection, start_ok = self._connection, self._start_ok
        if has_capability(start_ok, TELLS_FAILED_LOGIN):
            what = (
                f"Login was refused using authentication mechanism {start_ok.mechanism}. For "
                "details see the broker logfile."
            )
            connection.fail(_error(ReplyCode.ACCESS_REFUSED, what, start_ok))
        else:
            connection.abort()

    def _tune(self) -> None:
        tune = m.ConnectionTune(
            channel_max=CHANNEL_MAX, frame_max=FRAME_BYTES_MAX_DEFAULT, heartbeat_s=HEARTBEAT_S
        )
        self._connection.send(0, tune)
        self._connection.receive()

    # -- the virtual host

    def _open(self, method: m.ConnectionOpen) -> None:
        connection = self._connection
        if not connection.desk.doors.exchanges.has_vhost(method.vhost):
            what = f"vhost {method.vhost} not found"
            connection.fail(_error(ReplyCode.NOT_ALLOWED, what, method))
            return
        rights = connection.rights
        if rights is not None and not rights.may_open_vhost(method.vhost):
            what = f"access to vhost '{method.vhost}' refused for user '{connection.user}'"
            connection.fail(_error(ReplyCode.NOT_ALLOWED, what, method))
            return
        connection.vhost = method.vhost
        connection.expect_nothing()
        connection.send(0, m.ConnectionOpenOk())

    def _update(self, method: m.ConnectionUpdateSecret) -> None:
        """Take a new secret of the same user; what is begun goes on meanwhile."""
        connection = self._connection
        if connection.login is None:
            connection.send(0, m.ConnectionUpdateSecretOk())
            return

        def on_step(outcome: Challenge | Success | Failure) -> None:
            if isinstance(outcome, Success):
                connection.send(0, m.ConnectionUpdateSecretOk())
            else:
                what = "New secret was refused by one of the backends"
                connection.fail(_error(ReplyCode.NOT_ALLOWED, what, method))

        try:
            login = Login(connection, PLAIN)
        except MechanismRefused:
            what = "New secret was refused: PLAIN is not offered here"
            connection.fail(_error(ReplyCode.NOT_ALLOWED, what, method))
            return
        login.step(b"\0%b\0%b" % (connection.user.encode(), method.new_secret), on_step)


def _error(code: ReplyCode, what: str, method: Method) -> AmqpError:
    return AmqpError(code, what, type(method).class_id, type(method).method_id)


def _name_of(start_ok: m.ConnectionStartOk) -> str:
    """Return what a client calls its connection, or else what it is made with."""
    told = start_ok.client_properties
    names = (told.get("connection_name"), told.get("product"))
    return next((each for each in names if isinstance(each, str) and each), "")
