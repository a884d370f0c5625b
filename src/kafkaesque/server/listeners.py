"""The listeners of a broker's file: its tables `[[listener]]`, and the ports of `[broker]`.

A protocol has one listener by default. The keys `host`, `advertised.host` and `kafka.port`
(`text.port`, `admin.port`) of `[broker]` describe it. A table `[[listener]]` adds another one, and
replaces its protocol's default unless the port of that is set, too.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kafkaesque.access.sasl_mechanisms import MECHANISMS
from kafkaesque.broker.listeners import (
    ADMIN,
    AMQP,
    KAFKA,
    MQTT,
    NATS,
    REGISTRY,
    SQS,
    STOMP,
    TEXT,
    WEBSOCKET,
    WITH_COMMON_ACCESS,
    AccessMode,
    Listener,
    LogInBy,
    default_listener,
)
from kafkaesque.env.network import Address
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.options import Option, OptionTable, OptionType, OptionValue
from kafkaesque.server.tls_settings import LISTENER_TLS_OPTIONS

#: Every protocol that a broker speaks, with its port where none is set.
PORTS: Final[Mapping[str, int]] = {
    KAFKA: 9092,
    TEXT: 7070,
    ADMIN: 8080,
    SQS: 9324,
    AMQP: 5672,
    MQTT: 1883,
    NATS: 4222,
    STOMP: 61613,
    WEBSOCKET: 8090,
    REGISTRY: 8081,
}
PORT_MAX: Final = 65_535
LISTENERS_MAX: Final = 64

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[^\s/?#:@,]+)(:[0-9]{1,5})?")


def access_option(doc: str) -> Option:
    """Return the option that says whether clients have to log in."""
    return Option(
        name="access",
        type=OptionType.STRING,
        default=AccessMode.OPEN.value,
        choices=tuple(each.value for each in AccessMode),
        doc="Whether clients have to say who they are. open: no, and everybody may do everything; "
        "optional: those that log in are judged by the rules, and the others may do everything and "
        f"are counted; required: yes. {doc} See [Security](security.md).",
    )


def origins_option(name: str, doc: str) -> Option:
    """Return the option that says whose web pages may connect."""
    return Option(
        name=name,
        type=OptionType.STRING,
        default="",
        doc="Comma-separated origins of web pages that may connect over WebSocket, such as "
        f"https://app.example.org. Pages of the broker itself may, and programs. {doc}".rstrip(),
    )


#: The keys of a table [[listener]].
LISTENER_OPTIONS: Final = OptionTable(
    "[[listener]]",
    [
        Option(
            name="protocol",
            type=OptionType.STRING,
            default=KAFKA,
            choices=tuple(PORTS),
            doc="What is spoken there.",
        ),
        Option(
            name="name",
            type=OptionType.STRING,
            default="",
            doc="Unique within the broker; empty: the protocol's name. A client that connects to "
            "one broker is sent to the listeners of the same name at the others.",
        ),
        Option(
            name="host",
            type=OptionType.STRING,
            default="",
            doc="Address to listen on; empty: host of [broker].",
        ),
        Option(
            name="port",
            type=OptionType.INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port to listen on; 0: the protocol's default port.",
        ),
        Option(
            name="advertised.host",
            type=OptionType.STRING,
            default="",
            doc="Address that clients are told to connect to; empty: host, if it is set here, else "
            "advertised.host of [broker]. Not 0.0.0.0.",
        ),
        Option(
            name="advertised.port",
            type=OptionType.INT,
            default=0,
            minimum=0,
            maximum=PORT_MAX,
            doc="Port that clients are told to connect to; 0: port.",
        ),
        access_option(
            "Where a log-in sends a password in the clear, not without TLS, but on the loopback "
            "address."
        ),
        Option(
            name="log.in.by",
            type=OptionType.STRING,
            default=LogInBy.SASL.value,
            choices=tuple(each.value for each in LogInBy),
            doc="What tells who a client is. sasl: its log-in, as with Kafka's SASL_SSL; "
            "certificate: the certificate that it shows, as with Kafka's SSL; either: the "
            "certificate, as long as the client does not log in. The last two need "
            "tls.client.auth.",
        ),
        Option(
            name="sasl.mechanisms",
            type=OptionType.STRING,
            default="",
            doc=f"Comma-separated SASL mechanisms by which clients may log in, of "
            f"{', '.join(MECHANISMS)}; empty: all that fit. Those that send a password or a token "
            "in the clear are offered over TLS, and on the loopback address.",
        ),
        origins_option("origins", "For the protocol websocket only."),
        *LISTENER_TLS_OPTIONS,
    ],
)


def default_listeners(values: Mapping[str, OptionValue], taken: Sequence[str]) -> list[Listener]:
    """Return what `[broker]` describes, by its values.

    Args:
        values: of all keys of the section, set or not.
        taken: protocols that have tables of their own, and no port in the section.
    """
    host = str(values["host"])
    advertised = str(values["advertised.host"]) or host
    ports = {protocol: int(values[f"{protocol}.port"]) for protocol in PORTS}
    return [
        default_listener(
            protocol,
            Address(advertised, port),
            Address(host, port),
            f"{protocol}.port",
            AccessMode(str(values["access"]))
            if protocol in WITH_COMMON_ACCESS
            else AccessMode.OPEN,
            origins=read_origins(str(values["websocket.origins"])) if protocol == WEBSOCKET else (),
        )
        for protocol, port in ports.items()
        if port and protocol not in taken
    ]


def read_listener(table: Mapping[str, object], broker: Mapping[str, OptionValue]) -> Listener:
    """Return what one table describes.

    Raises:
        ConfigError: a line for each fault.
    """
    faults = [str(error) for error in _faults(table)]
    if faults:
        raise ConfigError("\n".join(faults))
    given = {name: LISTENER_OPTIONS.get(name).parse(value) for name, value in table.items()}
    values = {**LISTENER_OPTIONS.defaults(), **given}
    protocol = str(values["protocol"])
    name = str(values["name"]) or protocol
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"[[listener]] name = {name!r} must begin with a letter and have at most 32 small "
            "letters, digits, - and _"
        )
    if values["advertised.host"] or values["host"]:
        check_can_be_told(str(values["advertised.host"]) or str(values["host"]))
    port = int(values["port"]) or PORTS[protocol]
    host = str(values["host"]) or str(broker["host"])
    advertised = (
        str(values["advertised.host"])
        or str(values["host"])
        or str(broker["advertised.host"])
        or host
    )
    return Listener(
        protocol=protocol,
        name=name,
        advertised=Address(advertised, int(values["advertised.port"]) or port),
        bind=Address(host, port),
        setting=f"port of the [[listener]] {name}",
        access=AccessMode(str(values["access"])),
        log_in_by=LogInBy(str(values["log.in.by"])),
        named_mechanisms=_read_mechanisms(str(values["sasl.mechanisms"])),
        origins=_origins_of(protocol, str(values["origins"])),
    )


def _origins_of(protocol: str, text: str) -> tuple[str, ...]:
    if text and protocol != WEBSOCKET:
        raise ConfigError(
            f"[[listener]] origins is for the protocol websocket, and this one is {protocol}: "
            "remove it"
        )
    return read_origins(text)


def read_origins(text: str) -> tuple[str, ...]:
    """Return origins as browsers write them.

    Raises:
        ConfigError: one has a path, or no scheme.
    """
    origins = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip()))
    for each in origins:
        if not _ORIGIN.fullmatch(each):
            raise ConfigError(
                f"origins: {each!r} is no origin: a scheme, a host, and a port if it is not the "
                "usual one, such as https://app.example.org:8443"
            )
    return origins


def _read_mechanisms(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for name in names:
        if name not in MECHANISMS:
            # Not loaded by brokers whose files have no mistake.
            import difflib

            near = difflib.get_close_matches(name.upper(), MECHANISMS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f": {', '.join(MECHANISMS)} are"
            raise ConfigError(f"sasl.mechanisms: {name!r} is no SASL mechanism{hint}")
    return names


def _faults(table: Mapping[str, object]) -> Iterator[ConfigError]:
    for name, value in table.items():
        try:
            LISTENER_OPTIONS.get(name).parse(value)
        except ConfigError as error:
            yield error


def clashes(listeners: Sequence[Listener], peer: Address) -> Iterator[str]:
    """Return why listeners cannot stand beside one another, or beside the port for brokers."""
    if len(listeners) > LISTENERS_MAX:
        yield f"{len(listeners)} listeners are more than {LISTENERS_MAX}"
    names: set[str] = set()
    ports: dict[int, str] = {}
    settings = [(each.address.port, each.setting) for each in listeners]
    for port, setting in (*settings, (peer.port, "peer.port")):
        if port in ports:
            yield f"{setting} and {ports[port]} are both {port}: each needs a port of its own"
        ports[port] = setting
    for each in listeners:
        if each.name in names:
            yield f"two listeners are called {each.name!r}: each needs a name of its own"
        names.add(each.name)


def check_can_be_told(host: str) -> None:
    """A client that is told 0.0.0.0 connects to itself.

    Raises:
        ConfigError: it is that.
    """
    try:
        is_any = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return  # A name.
    if is_any:
        raise ConfigError(
            f"{host} is where to listen, not where to connect to: set advertised.host to the name "
            "or address by which clients and other brokers reach this machine"
        )
