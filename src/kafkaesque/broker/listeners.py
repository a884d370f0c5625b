"""Where a broker listens for clients, and what it tells them to connect to."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kafkaesque.access.networks import read_address, read_network
from kafkaesque.access.sasl_mechanisms import MECHANISMS
from kafkaesque.env.network import Address
from kafkaesque.model.errors import ConfigError

KAFKA: Final = "kafka"
TEXT: Final = "text"
ADMIN: Final = "admin"
SQS: Final = "sqs"
REGISTRY: Final = "registry"
AMQP: Final = "amqp"
MQTT: Final = "mqtt"
NATS: Final = "nats"
STOMP: Final = "stomp"
#: MQTT, STOMP and NATS within it, by path.
WEBSOCKET: Final = "websocket"

_LOOPBACK: Final = (read_network("127.0.0.0/8"), read_network("::1"))
#: Protocols whose clients can log in.
WITH_LOG_IN: Final = (KAFKA, TEXT, ADMIN, SQS, AMQP, MQTT, NATS, STOMP, WEBSOCKET, REGISTRY)
#: Those of them whose every log-in sends a password or a token.
IN_THE_CLEAR: Final = (TEXT, ADMIN, AMQP, MQTT, NATS, STOMP, WEBSOCKET, REGISTRY)
#: Those whose listeners in [broker] have its key `access`.
WITH_COMMON_ACCESS: Final = (KAFKA, SQS, AMQP, MQTT, NATS, STOMP, WEBSOCKET, REGISTRY)
#: Those that change messages, so that an open one undoes a log-in elsewhere.
_ALWAYS_GUARDED: Final = (TEXT, SQS, AMQP, MQTT, NATS, STOMP, WEBSOCKET)


class AccessMode(Enum):
    """Whether clients of a listener have to say who they are."""

    #: Nobody has to, and everybody may do everything.
    OPEN = "open"
    #: Clients that log in are judged by the rules. All others may do everything, and are counted.
    OPTIONAL = "optional"
    #: Nothing before the log-in; afterwards the rules decide.
    REQUIRED = "required"


class LogInBy(Enum):
    """What tells who a client is, where that is asked."""

    #: SASL alone: a certificate opens the connection, and names nobody (Kafka's SASL_SSL).
    SASL = "sasl"
    #: The certificate alone (Kafka's SSL).
    CERTIFICATE = "certificate"
    #: The certificate, until the client logs in by SASL; SASL where it has shown none.
    EITHER = "either"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address at which a broker speaks one protocol."""

    protocol: str
    #: Unique within a broker. A client that connects to one broker's listener is sent to the
    #: listeners of the same name at the others.
    name: str
    #: What clients are told to connect to.
    advertised: Address
    #: Where it listens, if that is another address.
    bind: Address | None = None
    #: What in the broker's file moves it, for people to read.
    setting: str = ""
    #: What it speaks TLS by, as in `ListenOptions.tls`; empty: it speaks in the clear.
    tls: str = ""
    access: AccessMode = AccessMode.OPEN
    log_in_by: LogInBy = LogInBy.SASL
    #: SASL mechanisms that are enabled by name; empty: all that fit the listener.
    named_mechanisms: tuple[str, ...] = ()
    #: Pages of which other origins may connect, where web pages can: `https://example.org`.
    origins: tuple[str, ...] = ()

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self.bind or self.advertised

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine reach it, so that nobody can listen in."""
        return is_local_host(self.address.host)

    @property
    def can_log_in(self) -> bool:
        """Whether its protocol has a log-in."""
        return self.protocol in WITH_LOG_IN

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that are enabled, whether a client's connection allows them or not.

        Without a certificate there is nothing EXTERNAL could go by.
        """
        if self.log_in_by is LogInBy.CERTIFICATE:
            return ()
        if self.named_mechanisms:
            return self.named_mechanisms
        return tuple(each for each in MECHANISMS if each != "EXTERNAL")


def is_local_host(host: str) -> bool:
    """Tell whether nobody but this machine reaches what listens at an address."""
    address = read_address(host)
    if address is None:
        return host == "localhost"
    return any(network.holds(address) for network in _LOOPBACK)


def default_listener(
    protocol: str,
    advertised: Address,
    bind: Address | None = None,
    setting: str = "",
    access: AccessMode = AccessMode.OPEN,
    origins: tuple[str, ...] = (),
) -> Listener:
    """Return a protocol's listener where nobody has named one: it has the protocol's name."""
    return Listener(
        protocol=protocol,
        name=protocol,
        advertised=advertised,
        bind=bind,
        setting=setting,
        access=access,
        origins=origins,
    )


def first_of(listeners: Iterable[Listener], protocol: str) -> Listener | None:
    """Return the first listener of a protocol, if there is one."""
    return next((each for each in listeners if each.protocol == protocol), None)


def names_of(listeners: Iterable[Listener], protocol: str) -> set[str]:
    """Return the hosts that listeners of a protocol are known by, in small letters."""
    mine = [each for each in listeners if each.protocol == protocol]
    return {host.lower() for each in mine for host in (each.advertised.host, each.address.host)}


def _check_log_in_by(listener: Listener) -> None:
    if listener.log_in_by is LogInBy.SASL:
        return
    where = f'log.in.by = "{listener.log_in_by.value}" of the listener {listener.name}'
    if listener.access is AccessMode.OPEN:
        raise ConfigError(
            f"{where} names clients, but does not ask them who they are: set "
            'access = "required", or "optional"'
        )
    if not listener.tls:
        raise ConfigError(f"{where} needs TLS, by which clients show certificates")
    if listener.log_in_by is LogInBy.CERTIFICATE and listener.named_mechanisms:
        raise ConfigError(
            f"{where} leaves no SASL mechanism: remove sasl.mechanisms, or set either"
        )


def check_access(listeners: Collection[Listener], *, has_secret: bool) -> None:
    """Check that no listener is secured by half.

    Raises:
        ConfigError: what is missing, or what lets everybody in beside it.
    """
    for each in listeners:
        _check_log_in_by(each)
        if each.access is AccessMode.OPEN:
            continue
        where = f'access = "{each.access.value}" of the listener {each.name}'
        if each.protocol not in WITH_LOG_IN:
            raise ConfigError(f"{where}: clients of the protocol {each.protocol} cannot log in yet")
        if not has_secret:
            raise ConfigError(
                f"{where} needs cluster.secret.file: without a secret, anybody could join as a "
                "broker, and read everything"
            )
        if each.protocol in IN_THE_CLEAR and not (each.is_local or each.tls):
            raise ConfigError(
                f"{where}: clients of the protocol {each.protocol} log in by a password in the "
                f"clear, and {each.address.host} can be reached from other machines: use TLS"
            )
        if "PLAIN" in each.named_mechanisms and not (each.is_local or each.tls):
            raise ConfigError(
                f"sasl.mechanisms of the listener {each.name} has PLAIN, which sends passwords in "
                f"the clear, and {each.address.host} can be reached from other machines without "
                "encryption: use SCRAM-SHA-512 or SCRAM-SHA-256, or TLS"
            )
    required = next((each for each in listeners if each.access is AccessMode.REQUIRED), None)
    if required is None:
        return
    for each in listeners:
        if each.access is not AccessMode.OPEN:
            continue
        # Whoever has this machine has the broker's files as well.
        if each.protocol in _ALWAYS_GUARDED or (each.protocol == ADMIN and not each.is_local):
            helps = (
                f"{each.protocol}.port = 0, or access of its [[listener]]"
                if each.protocol != ADMIN
                else "access of its [[listener]], a host that is local, or port 0"
            )
            raise ConfigError(
                f"the listener {required.name} requires a log-in, and the listener {each.name} "
                f"beside it lets everybody read and change everything: set {helps}"
            )
