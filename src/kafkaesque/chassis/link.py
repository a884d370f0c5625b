"""A client's connection, as far as it is the same for every protocol.

Theory of operation. A connection is not read from while any of this holds: too much of it is
unanswered (`is_full`), its client does not read what it was sent, the broker is overloaded, it has
kept the loop for long and others come first, or whatever asked for it (`hold`), its client is
throttled (`mute`), or it is about to be closed (`leave`). TCP slows the client down then, and
memory stays bounded. `maybe_pause` is called when something may have begun to hold, `maybe_resume`
when something may have ended; between the two marks lies half of each bound, so that reading does
not go on and off with every answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from kafkaesque.access.audit import ClientOrigin
from kafkaesque.access.authentication import Failure, FailureReason, Success
from kafkaesque.access.principals import user_name
from kafkaesque.broker.listeners import AccessMode, Listener, LogInBy
from kafkaesque.chassis.channel_facts import ConnectionFacts
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.client_facts import ClientFacts
from kafkaesque.chassis.http_guard import BEGINNING_BYTES, is_http_request
from kafkaesque.chassis.identity import Identity
from kafkaesque.chassis.logins import LOGIN_BYTES_MAX, LOGIN_MS_MAX, TOO_OLD
from kafkaesque.chassis.meter import Meter
from kafkaesque.chassis.port_strangers import PortStrangers
from kafkaesque.chassis.rights import Rights
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import LOW_WATER_BYTES, Connection, Framing
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.model.errors import InvariantBroken

#: What a client has logged in by, if not by a SASL mechanism.
CERTIFICATE: Final = "certificate"
#: A client that is sent away has so long to read what was written.
DISMISSED_MS_MAX: Final = 5_000


def _never() -> int:
    return -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOptions:
    """One listener: what it speaks and its bounds."""

    protocol: str
    #: What the operator calls it: among the listeners of a broker, its own.
    listener: str
    framing: Framing
    #: What it speaks TLS by, as in `ListenOptions.tls`.
    tls: str = ""
    frame_bytes_max: int = 100 * 1024 * 1024
    #: One more connection is closed at once.
    connections_max: int = 20_000
    #: Bytes that a client may leave unread, beside what the kernel takes of them. It is read from
    #: again below half of that, which is told of only from `LOW_WATER_BYTES` on.
    unsent_bytes_max: int = 1024 * 1024
    #: Asked at each sweep: a client that has been silent for longer has to go; -1 is never.
    idle_ms_max: Callable[[], int] = _never
    #: When the broker stops, what is being answered has so long to be finished.
    drain_ms_max: int = 1_000
    #: Whether operators come here, for whom there is room when clients have used up all of it. Its
    #: connections count for the limits of all ports, and are refused only for its own.
    is_protected: bool = False
    #: For protocols of lines: whether a stream that begins as an HTTP request is closed, because a
    #: web page may have sent it.
    refuses_http: bool = False
    #: Whether clients have to say who they are, and the SASL mechanisms by which they may.
    access: AccessMode = AccessMode.OPEN
    mechanisms: tuple[str, ...] = ()
    log_in_by: LogInBy = LogInBy.SASL
    #: Whether it is reached from this machine only, so that nobody can listen in.
    is_local: bool = False

    @classmethod
    def of(cls, listener: Listener, framing: Framing = Framing.STREAM) -> "PortOptions":
        """Return what a listener says, with the bounds of most protocols."""
        return cls(
            protocol=listener.protocol,
            listener=listener.name,
            framing=framing,
            tls=listener.tls,
            access=listener.access,
            mechanisms=listener.mechanisms,
            log_in_by=listener.log_in_by,
            is_local=listener.is_local,
        )

    def __post_init__(self) -> None:
        if self.unsent_bytes_max < 2 * LOW_WATER_BYTES:
            raise InvariantBroken(
                f"unsent_bytes_max of {self.listener} is below {2 * LOW_WATER_BYTES}"
            )


class Shared:
    """What all connections of a port have in common."""

    __slots__ = (
        "chassis",
        "clock",
        "connections",
        "load",
        "meter",
        "options",
        "refusals",
        "relief",
        "strangers",
    )

    def __init__(self, chassis: Chassis, options: PortOptions) -> None:
        self.chassis: Final = chassis
        self.clock: Final = chassis.clock
        self.load: Final = chassis.load
        self.relief: Final = chassis.relief
        self.options: Final = options
        #: Those that were admitted and are not gone, by `id`.
        self.connections: Final[dict[int, ClientConnection]] = {}
        self.meter: Final = Meter(self.connections)
        #: What strangers send that cannot be understood; they can send it as often as they like.
        self.refusals: Final = ReportLimit(chassis.report, chassis.clock.call_later)
        #: Of a protocol in which each request says who asks.
        self.strangers: Final = PortStrangers(options.connections_max // 2)


class ClientConnection(ABC):
    """One client; a protocol's connection inherits from it and brings `on_bytes`.

    What a protocol may also bring: `is_full` and `has_room` where it takes input that it does not
    answer at once, `is_busy` for what a drain waits for, `on_opened`, `go_on`, `on_idle` and
    `on_gone`. It adds to `shared.meter.requests`, and calls `maybe_pause` when it has taken input.
    """

    __slots__ = (
        "_beginning",
        "_bytes_before_login",
        "_expected",
        "_expected_ms",
        "_is_counted",
        "_is_held",
        "_is_leaving",
        "_is_paused",
        "_late_ms",
        "_muted_until_ms",
        "_on_late",
        "_session_end",
        "_turn_begun_ms",
        "_unmute",
        "active_ms",
        "client_id",
        "connection",
        "identity",
        "is_guarded",
        "is_listener_only",
        "login",
        "login_by",
        "needs_login",
        "number",
        "opened_ms",
        "published_to",
        "rights",
        "session_lifetime_ms",
        "shared",
        "unsent_bytes_seen",
    )

    def __init__(self, shared: Shared) -> None:
        self.shared: Final = shared
        self.connection: Connection | None = None
        #: Once it is admitted.
        self.identity: Identity | None = None
        #: Whether there is anything to ask before a request: on an open listener there is not.
        self.is_guarded: Final = shared.options.access is not AccessMode.OPEN
        #: Whether nothing but a log-in is allowed.
        self.needs_login = shared.options.access is AccessMode.REQUIRED
        #: What it has logged in by, if it has.
        self.login: Success | None = None
        #: By which mechanism, or by a certificate.
        self.login_by = ""
        #: What it may do; None: everything.
        self.rights: Rights | None = None
        #: For how long the log-in counts, from when it was; 0: for as long as it is valid.
        self.session_lifetime_ms = 0
        self._session_end: Timer | None = None
        #: Whether it was counted as one that came without a log-in.
        self._is_counted = False
        #: In the order of acceptance, at all ports: what comes over a lower one may have been
        #: overtaken.
        self.number: Final = shared.chassis.next_connection_number()
        self._is_paused = False
        #: Whether nothing more may be begun, whatever the bounds say: until `release`.
        self._is_held = False
        #: Whether nothing more may be begun ever.
        self._is_leaving = False
        #: While its client is throttled: until when, and what ends it.
        self._muted_until_ms = 0
        self._unmute: Timer | None = None
        #: When its client is late with something, and what happens then; see `expect`. The timer
        #: ends then, or before, and is started again: what is expected changes with each request.
        self._late_ms = 0
        self._on_late: Callable[[], None] | None = None
        self._expected: Timer | None = None
        self._expected_ms = 0
        #: When the first of the requests was begun that have come with one another.
        self._turn_begun_ms = 0
        #: When it was admitted, and when the client was last seen to do something.
        self.opened_ms = 0
        #: The topic or queue that it last published to, noted where quotas are.
        self.published_to = ""
        self.active_ms = 0
        #: What the client calls itself; empty where it does not. Anybody may call itself anything.
        self.client_id = ""
        #: How much the client had not taken when that was last looked at.
        self.unsent_bytes_seen = 0
        #: Whether its client may be silent for ever, as long as it reads: it waits for what comes.
        self.is_listener_only = False
        self._bytes_before_login = 0
        #: What its stream began with, until it is known not to be HTTP.
        self._beginning: bytes | None = b"" if shared.options.refuses_http else None

    @property
    def is_open(self) -> bool:
        """Whether an answer would reach anybody."""
        return self.connection is not None

    @property
    def listener(self) -> str:
        """The name of the listener that the client came by."""
        return self.shared.options.listener

    @property
    def is_encrypted(self) -> bool:
        """Whether nobody between the client and this broker can read what is sent."""
        return bool(self.shared.options.tls)

    @property
    def is_private(self) -> bool:
        """Whether nobody can listen in: it is encrypted, or does not leave the machine."""
        return self.is_encrypted or self.shared.options.is_local

    @property
    def peer_host(self) -> str:
        """The client's address, without the port; empty before it is admitted."""
        return "" if self.identity is None else self.identity.host

    @property
    def origin(self) -> ClientOrigin:
        """Where the client has come from, as the audit log says it."""
        return ClientOrigin(host=self.peer_host, listener=self.listener)

    @property
    def is_muted(self) -> bool:
        """Whether its client is throttled at the moment."""
        return self._unmute is not None

    @property
    def may_begin(self) -> bool:
        """Whether what waits may be begun; if not, `go_on` comes when that may have changed."""
        connection = self.connection
        if connection is None or self._is_held or self._is_leaving or self._unmute is not None:
            return False
        if connection.unsent_bytes() > self.shared.options.unsent_bytes_max:
            return False
        if self.shared.load.is_overloaded:
            self.shared.relief.wait(self)
            return False
        return True

    # -- what a protocol brings

    @abstractmethod
    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""

    def on_opened(self) -> None:  # noqa: B027
        """It was admitted; a protocol whose servers speak first does so now."""

    def is_full(self) -> bool:
        """Whether so much is unanswered that no more should be read."""
        return False

    def has_room(self) -> bool:
        """Whether so little is unanswered that more may be read."""
        return True

    def is_busy(self) -> bool:
        """Whether something is being answered that a drain should wait for."""
        return False

    def go_on(self) -> None:
        """Something that stood against it may have ended."""
        self.maybe_resume()

    def describe(self, subscriptions_max: int) -> ClientFacts | None:
        """Return what its client has subscribed to; None: the protocol has no subscriptions.

        Of the subscriptions themselves so many are told at most.
        """
        return None

    def describe_channels(self, channels_max: int, consumers_max: int) -> ConnectionFacts | None:
        """Return the channels of a connection and their consumers; None: the protocol has none.

        At most so many of both are described; all are counted.
        """
        return None

    def on_idle(self) -> None:
        """Its client has been silent for too long."""
        self.abort()

    def on_gone(self) -> None:  # noqa: B027
        """The connection is gone; called once if it was admitted."""

    # -- from the network

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        shared = self.shared
        admission = shared.chassis.admission
        host = connection.peer.rsplit(":", 1)[0]
        if admission.refuses_late(connection, host):
            shared.meter.refused += 1
            return
        identity = Identity(
            host=host,
            listener=shared.options.listener,
            certificate=connection.peer_certificate(),
        )
        shown = self._check_certificate(identity)
        if isinstance(shown, Success):
            identity = replace(identity, user=user_name(shown.principal) or "")
        if not admission.admit(identity, is_protected=shared.options.is_protected):
            shared.meter.refused += 1
            connection.abort()
            return
        self.connection = connection
        self.identity = identity
        shared.meter.accepted += 1
        shared.connections[id(self)] = self
        self.opened_ms = self.active_ms = self._turn_begun_ms = shared.clock.now_ms()
        if isinstance(shown, Success) and self._is_stale():
            self.refuse(TOO_OLD)
            return
        if isinstance(shown, Success):
            self._be_let_in(shown, CERTIFICATE, max_ms=0)
            self._note_certificate(shown)
        elif isinstance(shown, Failure):
            shared.meter.login_failures += 1
            self._note_certificate(shown)
            self.refuse(f"its certificate lets nobody in: {shown.reason.value}")
            return
        elif self.needs_login:
            self._be_stranger(connection)
        self.on_opened()

    def _check_certificate(self, identity: Identity) -> Success | Failure | None:
        """Return what comes of a client's certificate; None where it is not what counts."""
        options, logins = self.shared.options, self.shared.chassis.logins
        if logins is None or not self.is_guarded or options.log_in_by is LogInBy.SASL:
            return None
        if identity.certificate is not None:
            shown = logins.access.authenticate_certificate(identity.certificate, identity.host)
            is_nobody = isinstance(shown, Failure) and shown.reason is FailureReason.UNKNOWN
            may_log_in = self.needs_login and options.log_in_by is LogInBy.EITHER
            return None if is_nobody and may_log_in else shown
        is_lost = self.needs_login and options.log_in_by is LogInBy.CERTIFICATE
        return Failure(reason=FailureReason.UNKNOWN) if is_lost else None

    def _note_certificate(self, shown: Success | Failure) -> None:
        logins = self.shared.chassis.logins
        if logins is not None:
            logins.access.note_log_in(shown, self.origin, CERTIFICATE)

    def _is_stale(self) -> bool:
        logins = self.shared.chassis.logins
        return logins is not None and logins.access.is_stale

    def _be_stranger(self, connection: Connection) -> None:
        """It has to log in: until then it may send little, and has little time."""
        logins = self.shared.chassis.logins
        if logins is None:
            raise InvariantBroken(f"{self.listener} requires a log-in, and nobody checks it")
        connection.limit_frames(LOGIN_BYTES_MAX)
        self.expect(LOGIN_MS_MAX)
        logins.add_stranger(self)

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""
        self.go_on()

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        connection, identity = self.connection, self.identity
        if connection is None or identity is None:
            return
        self.connection = None
        for timer in (self._unmute, self._session_end):
            if timer is not None:
                timer.cancel()
        self._unmute = None
        self.expect_nothing()
        shared = self.shared
        shared.meter.note_gone(connection)
        shared.chassis.admission.release(identity)
        if shared.chassis.logins is not None:
            shared.chassis.logins.remove(self)
        del shared.connections[id(self)]
        self.on_gone()

    def exceeds_login(self, size_bytes: int) -> bool:
        """Close if so much, with what came before, is too much before a log-in; say whether so.

        Asked at the head of `on_bytes`, where a protocol speaks in a stream: of frames each is
        bounded until then.
        """
        if not self.needs_login:
            return False
        self._bytes_before_login += size_bytes
        if self._bytes_before_login <= LOGIN_BYTES_MAX:
            return False
        self.refuse(f"{LOGIN_BYTES_MAX} bytes have come before the log-in")
        return True

    def speaks_http(self, data: bytearray | memoryview | bytes) -> bool:
        """Close if the stream begins as an HTTP request; say whether that is so.

        Asked at the head of `on_bytes`, where a protocol's port `refuses_http`.
        """
        if self._beginning is None:
            return False
        beginning = self._beginning + bytes(data[: BEGINNING_BYTES - len(self._beginning)])
        is_http = is_http_request(beginning)
        self._beginning = beginning if is_http is None else None
        if is_http and self.connection is not None:
            self.leave()
            self._say_closing("it sent an HTTP request")
            self.connection.close()
        return is_http is True

    # -- ending

    def refuse(self, reason: str) -> None:
        """Close at once, and report why: after what was not understood nothing else can be."""
        if self.connection is not None:
            self._say_closing(reason)
            self.connection.abort()

    def abort(self) -> None:
        """Hang up."""
        if self.connection is not None:
            self.connection.abort()

    def close(self) -> None:
        """Send what was written, then hang up."""
        if self.connection is not None:
            self.connection.close()

    def dismiss(self, reason: str) -> None:
        """Send what was written and hang up, as somebody wants it; the client may come again."""
        if self.connection is not None:
            self._say_closing(reason)
            self.leave()
            self.expect(DISMISSED_MS_MAX)
            self.close()

    def leave(self) -> None:
        """Begin nothing more: the connection is about to be closed."""
        self._is_leaving = True
        self._pause()

    def expect(self, ms: int, on_late: Callable[[], None] | None = None) -> None:
        """Hang up, or call, after so long, unless something else is expected before."""
        clock = self.shared.clock
        self._late_ms, self._on_late = clock.now_ms() + ms, on_late
        if self._expected is not None:
            if self._expected_ms <= self._late_ms:
                return
            self._expected.cancel()
        self._expected_ms = self._late_ms
        self._expected = clock.call_later(ms, self._on_expected)

    def _on_expected(self) -> None:
        """The timer has ended: the client is late, unless something else is expected by now."""
        left_ms = self._late_ms - self.shared.clock.now_ms()
        if left_ms > 0:
            self._expected_ms = self._late_ms
            self._expected = self.shared.clock.call_later(left_ms, self._on_expected)
            return
        self._expected = None
        (self._on_late or self.abort)()

    def expect_nothing(self) -> None:
        """What was expected has come."""
        # It is mostly a method of this connection, which would keep itself in memory.
        self._on_late = None
        if self._expected is not None:
            self._expected.cancel()
            self._expected = None

    def _say_closing(self, reason: str) -> None:
        if self.connection is not None:
            peer = self.connection.peer
            self.shared.refusals.say(f"closing the connection from {peer}: {reason}")

    # -- who it is

    def identify(self, user: str) -> bool:
        """Take the client for a user from now on, unless that has all connections it may have."""
        before = self.identity
        if before is None:
            return False
        after = replace(before, user=user)
        if not self.shared.chassis.admission.rename(before, after):
            return False
        self.identity = after
        return True

    def let_in(self, success: Success, mechanism: str) -> bool:
        """Take a log-in; False if its user has all connections that it may have."""
        shared, name = self.shared, user_name(success.principal) or ""
        connection, logins = self.connection, shared.chassis.logins
        if connection is None or logins is None or not self.identify(name):
            return False
        if self.needs_login:
            connection.limit_frames(shared.options.frame_bytes_max)
            self.expect_nothing()
        self._be_let_in(success, mechanism, max_ms=shared.chassis.max_reauth_ms())
        return True

    def _be_let_in(self, success: Success, mechanism: str, *, max_ms: int) -> None:
        """Take what the client has proved, for `max_ms` at most; 0: there is no such limit."""
        shared, logins = self.shared, self.shared.chassis.logins
        if logins is None:
            raise InvariantBroken(f"{self.listener} lets clients in, and nobody checks them")
        self.needs_login = False
        self.login, self.login_by = success, mechanism
        self.rights = Rights(logins.access, success.principal, self.origin)
        logins.add(self)
        shared.meter.logged_in += 1
        self._begin_session(success, max_ms)

    def _begin_session(self, success: Success, max_ms: int) -> None:
        shared = self.shared
        limits_ms = [max_ms]
        if success.expires_ms:
            limits_ms.append(max(1, success.expires_ms - shared.clock.wall_ms()))
        self.session_lifetime_ms = min((each for each in limits_ms if each), default=0)
        if self._session_end is not None:
            self._session_end.cancel()
            self._session_end = None
        if self.session_lifetime_ms:
            self._session_end = shared.clock.call_later(
                self.session_lifetime_ms, lambda: self.refuse("it has not logged in again in time")
            )

    def note_no_login(self) -> None:
        """Count, once, that the client asks for something without a log-in."""
        if not self._is_counted:
            self._is_counted = True
            self.shared.meter.without_login += 1

    def leave_unless_valid(self) -> None:
        """Close at once if what it was let in by was changed, disabled or removed."""
        logins = self.shared.chassis.logins
        if self.login is None or logins is None:
            return
        if logins.access.must_leave(self.login, self.peer_host):
            lapse = "what it has logged in by is no longer valid"
            self.refuse(TOO_OLD if logins.access.is_stale else lapse)

    @property
    def is_revoked(self) -> bool:
        """Whether what it was let in by was changed, disabled or removed; not that its time is up.

        To be asked before something is done for a client that is gone.
        """
        logins = self.shared.chassis.logins
        if self.login is None or logins is None:
            return False
        return logins.access.is_revoked(self.login, self.peer_host)

    # -- reading on and off

    def note_activity(self) -> None:
        """The client has done something."""
        self.active_ms = self.shared.clock.now_ms()

    def hold(self) -> None:
        """Begin no more requests until `release`."""
        self._is_held = True
        self._pause()

    def release(self) -> None:
        """Go on, if nothing else stands against it."""
        self._is_held = False
        self._turn_begun_ms = self.shared.clock.now_ms()
        self.go_on()

    def give_way(self) -> None:
        """Begin no more requests until others had their turn."""
        self.hold()
        self.shared.chassis.turns.wait(self)

    def mute(self, delay_ms: int) -> None:
        """Begin no more requests for so long from now, or for longer if that was said before."""
        clock = self.shared.clock
        until_ms = clock.now_ms() + delay_ms
        if self.connection is None or until_ms <= self._muted_until_ms:
            return
        self._muted_until_ms = until_ms
        if self._unmute is None:
            self._unmute = clock.call_later(delay_ms, self._on_unmute)
        self._pause()

    def _on_unmute(self) -> None:
        clock = self.shared.clock
        self.active_ms = clock.now_ms()
        left_ms = self._muted_until_ms - self.active_ms
        if left_ms > 0:
            # It was told to wait for longer meanwhile.
            self._unmute = clock.call_later(left_ms, self._on_unmute)
            return
        self._unmute = None
        self.go_on()

    def charge(self, quota: str, amount: float, to: str = "") -> None:
        """Take an amount of a quota of the client's user, who waits if it was too much.

        `to` is the queue or topic that is published to, as far as that is known.
        """
        quotas = self.shared.chassis.quotas
        if quotas.is_active and self.identity is not None:
            if to:
                self.published_to = to
            wait_ms = quotas.charge(self.identity.user, quota, amount)
            if wait_ms:
                self.mute(wait_ms)

    def maybe_pause(self) -> None:
        """Read no more if something stands against it."""
        connection = self.connection
        if connection is None or self._is_paused:
            return
        shared = self.shared
        is_overloaded = shared.load.is_overloaded
        if (
            is_overloaded
            or self.is_full()
            or connection.unsent_bytes() > shared.options.unsent_bytes_max
        ):
            self._pause()
            if is_overloaded:
                shared.relief.wait(self)

    def maybe_resume(self) -> None:
        """Read again if nothing stands against it."""
        connection = self.connection
        if (
            connection is None
            or not self._is_paused
            or self._is_held
            or self._is_leaving
            or self._unmute is not None
        ):
            return
        shared = self.shared
        if shared.load.is_overloaded:
            shared.relief.wait(self)
        elif self.has_room() and connection.unsent_bytes() <= shared.options.unsent_bytes_max // 2:
            self._is_paused = False
            connection.resume_reading()

    def _pause(self) -> None:
        if self.connection is not None and not self._is_paused:
            self._is_paused = True
            self.connection.pause_reading()
