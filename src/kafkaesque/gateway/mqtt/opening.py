"""CONNECT: who it is, which session, and CONNACK."""

from __future__ import annotations

from typing import Final

import msgspec

from kafkaesque.broker.options.mqtt_sessions import SessionRecord
from kafkaesque.gateway.mqtt.authorization import may_publish
from kafkaesque.gateway.mqtt.enhanced_log_in import EnhancedLogIn, said
from kafkaesque.gateway.mqtt.feed import FeedOwner
from kafkaesque.gateway.mqtt.log_in import log_in
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.sessions import (
    EXPIRY_S_MAX,
    Session,
    open_session,
)
from kafkaesque.gateway.mqtt.sys_topics import is_of_sys
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.packets import Auth, Connack, Connect
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import MQTT

#: A client that wants to be silent for longer is told this.
KEEP_ALIVE_S_MAX: Final = 1_800
_ASSIGNED: Final = "auto-"
_ID_BYTES: Final = 12


class Opening:
    """One connection's way from CONNECT to CONNACK, and its log-ins."""

    __slots__ = ("_enhanced", "_last_message", "_link", "_owner", "expiry_s")

    def __init__(self, link: MqttLink, owner: FeedOwner) -> None:
        self._link: Final = link
        self._owner: Final = owner
        #: The log-in that AUTH belongs to.
        self._enhanced: EnhancedLogIn | None = None
        #: What CONNACK says for the mechanism.
        self._last_message = b""
        #: For how long the session is kept when the connection is gone.
        self.expiry_s = 0

    def start(self, connect: Connect) -> None:
        """A client has sent CONNECT."""

        def on_known(error: MqttError | None) -> None:
            link = self._link
            if error is not None:
                link.fail(error)
            elif link.connection is not None:
                self._check_will(connect)

        method = connect.properties.authentication_method
        if method is None:
            log_in(self._link, connect, on_known)
            return

        def on_end(found: bytes | MqttError) -> None:
            self._enhanced = None
            if isinstance(found, bytes):
                self._last_message = found
            on_known(found if isinstance(found, MqttError) else None)

        self._enhanced = EnhancedLogIn(self._link, method, on_end)
        self._enhanced.begin(connect.properties.authentication_data)

    def take_auth(self, auth: Auth) -> None:
        """A client goes on with its log-in, or begins another one as who it is."""
        data = auth.properties.authentication_data
        if auth.reason is not ReasonCode.REAUTHENTICATE:
            if self._enhanced is not None:
                self._enhanced.step(data)
            return
        method = auth.properties.authentication_method or ""

        def on_end(found: bytes | MqttError) -> None:
            self._enhanced = None
            if isinstance(found, MqttError):
                self._link.fail(found)
            elif self._link.connection is not None:
                self._link.send(Auth(reason=ReasonCode.SUCCESS, properties=said(method, found)))

        self._enhanced = EnhancedLogIn(self._link, method, on_end)
        self._enhanced.begin(data)

    def _check_will(self, connect: Connect) -> None:
        link, will = self._link, connect.will
        identity = link.identity
        if link.login is not None and identity is not None:
            link.user = identity.user
        if will is not None:
            try:
                MQTT.read_name(will.topic)
            except BadName as error:
                link.fail(MqttError(ReasonCode.TOPIC_NAME_INVALID, str(error)))
                return
            if is_of_sys(will.topic) or not may_publish(link, will.topic):
                what = f"the will may not be published to {will.topic}"
                link.fail(MqttError(ReasonCode.NOT_AUTHORIZED, what))
                return
        self._open(connect)

    def _open(self, connect: Connect) -> None:
        link = self._link
        link.client_id = connect.client_id or self._assigned()
        before = link.desk.clients.get(link.client_id)
        if before is not None and before.login_name != link.user:
            what = "another user is connected with this client id"
            link.fail(MqttError(ReasonCode.NOT_AUTHORIZED, what))
            return
        link.desk.clients[link.client_id] = link
        if before is not None:
            before.take_over()
        self.expiry_s = _expiry_s_of(connect, link)
        wanted = SessionRecord(client_id=link.client_id, user=link.user, expiry_s=self.expiry_s)
        if not connect.client_id:
            # Nobody can have had it before.
            if not self.expiry_s:
                self._accept(connect, None)
                return
        try:
            open_session(
                link.desk,
                self._owner,
                wanted,
                clean_start=connect.clean_start,
                on_done=lambda found: self._on_session(connect, found),
            )
        except MqttError as error:
            if self.expiry_s or not connect.clean_start:
                link.fail(error)
            else:
                # No session can have such an id.
                self._accept(connect, None)

    def _assigned(self) -> str:
        """Return a client id that nobody has (3.1.3-6)."""
        return _ASSIGNED + self._link.desk.doors.dice.unique_bytes(_ID_BYTES).hex()

    def _on_session(self, connect: Connect, found: Session | MqttError | None) -> None:
        link = self._link
        if isinstance(found, MqttError):
            link.fail(found)
        elif link.connection is None or link.is_over:
            if found is not None:
                found.end(is_kept=found.record.expiry_s > 0)
        else:
            self._accept(connect, found)

    def _accept(self, connect: Connect, session: Session | None) -> None:
        link = self._link
        link.session = session
        link.expect_nothing()
        link.opened(connect)
        is_present = session is not None and session.is_resumed
        properties = self._properties(connect) if link.is_v5 else NO_PROPERTIES
        link.send(Connack(session_present=is_present, properties=properties))
        link.begun()

    def _properties(self, connect: Connect) -> Properties:
        """Return what differs from what the client has asked for."""
        asked_s = connect.properties.session_expiry_interval_s or 0
        method = connect.properties.authentication_method
        is_silent = not 0 < connect.keep_alive_s <= KEEP_ALIVE_S_MAX
        return Properties(
            session_expiry_interval_s=self.expiry_s if self.expiry_s != asked_s else None,
            assigned_client_identifier=None if connect.client_id else self._link.client_id,
            server_keep_alive_s=KEEP_ALIVE_S_MAX if is_silent else None,
            authentication_method=method,
            authentication_data=self._last_message or None,
        )

    def change_expiry(self, session: Session, expiry_s: int) -> None:
        """The client says in DISCONNECT for how long to keep its session."""
        self.expiry_s = min(expiry_s, EXPIRY_S_MAX)
        if self.expiry_s and self.expiry_s != session.record.expiry_s:
            session.change(msgspec.structs.replace(session.record, expiry_s=self.expiry_s))


def _expiry_s_of(connect: Connect, link: MqttLink) -> int:
    if not link.is_v5:
        # It does not say for how long.
        return 0 if connect.clean_start else EXPIRY_S_MAX
    return min(connect.properties.session_expiry_interval_s or 0, EXPIRY_S_MAX)
