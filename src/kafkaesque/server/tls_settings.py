"""What a broker's file says of TLS: its section `[tls]`, and the keys `tls` of its listeners.

`[tls]` holds what all listeners share, and what brokers show one another; a listener may say
something else. A listener speaks TLS if it has `tls = true`, or any of its own keys `tls.…`, or if
`listeners = true` says so for all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from kafkaesque.broker.listeners import Listener
from kafkaesque.env.certificate import broker_uri
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.options import Option, OptionTable, OptionType, OptionValue

#: The name of what brokers speak with one another; a listener's begins with another word.
PEERS: Final = "peers"


class ClientAuth(Enum):
    """Whether clients show a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS of one listener, or of the links between brokers."""

    #: As in `ListenOptions.tls`.
    name: str
    #: What in the broker's file says so, for people to read.
    setting: str
    certificate: Path
    key: Path
    ca: Path | None = None
    crl: Path | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    #: The addresses that others are told to connect to.
    hosts: tuple[str, ...] = ()
    #: Between brokers: the URI that must name this one. Both sides show certificates then.
    uri: str = ""

    def files(self) -> list[Path]:
        """Return all files that count."""
        return [each for each in (self.certificate, self.key, self.ca, self.crl) if each]


_CHOICES: Final = tuple(each.value for each in ClientAuth)


def _file(name: str, doc: str) -> Option:
    return Option(name=name, type=OptionType.STRING, default="", doc=doc)


#: The keys of the section [tls].
TLS_OPTIONS: Final = OptionTable(
    "[tls]",
    [
        _file(
            "certificate",
            "PEM file with the broker's certificate, and behind it those of its issuers.",
        ),
        _file("key", "PEM file with its private key, not encrypted, readable for nobody else."),
        _file("ca", "PEM file with the authorities whose certificates clients may show."),
        _file("crl", "PEM file with lists of revoked certificates, signed by these authorities."),
        Option(
            name="client.auth",
            type=OptionType.STRING,
            default=ClientAuth.NONE.value,
            choices=_CHOICES,
            doc="Whether clients show a certificate. optional: those that do are known by it.",
        ),
        Option(
            name="listeners",
            type=OptionType.BOOLEAN,
            default=False,
            doc="Whether every listener speaks TLS that does not say `tls = false`.",
        ),
        Option(
            name="peers",
            type=OptionType.STRING,
            default="off",
            choices=("off", "accept", "dial", "on"),
            doc="Whether brokers speak TLS with one another, and prove by certificate which one "
            "they are. accept: others may, and this one dials in the clear. dial: this one dials "
            "with TLS, and others may come in the clear.",
        ),
        _file("peer.certificate", "The same between brokers; empty: certificate."),
        _file("peer.key", "The same between brokers; empty: key."),
        _file("peer.ca", "The same between brokers; empty: ca."),
        _file("peer.crl", "The same between brokers; empty: crl."),
    ],
)

#: The keys of a table [[listener]] that have to do with TLS.
LISTENER_TLS_OPTIONS: Final = (
    Option(
        name="tls",
        type=OptionType.BOOLEAN,
        default=False,
        doc="Whether the listener speaks TLS, with what [tls] has. A key tls.… does the same, and "
        "stands in its place.",
    ),
    _file("tls.certificate", "As certificate in [tls], for this listener."),
    _file("tls.key", "As key in [tls], for this listener."),
    _file("tls.ca", "As ca in [tls], for this listener."),
    _file("tls.crl", "As crl in [tls], for this listener."),
    Option(
        name="tls.client.auth",
        type=OptionType.STRING,
        default=ClientAuth.NONE.value,
        choices=_CHOICES,
        doc="As client.auth in [tls], for this listener.",
    ),
)


def listener_tls(
    listener: Listener, table: Mapping[str, object], tls: Mapping[str, OptionValue]
) -> TlsSettings | None:
    """Return what a listener speaks TLS by; None if it speaks in the clear.

    Args:
        listener: it.
        table: the keys of its table that are set; none for a default listener.
        tls: of all keys of [tls], set or not.

    Raises:
        ConfigError: what it needs is missing.
    """
    own = {name: value for name, value in table.items() if name.startswith("tls.")}
    is_on = table.get("tls", bool(own) or bool(tls["listeners"]))
    if is_on in (False, "false"):
        return None
    values = {**tls, **{name.removeprefix("tls."): value for name, value in own.items()}}
    where = f"TLS of the listener {listener.name}"
    _check_given(values, where, "")
    return TlsSettings(
        name=f"listener {listener.name}",
        setting=where,
        certificate=Path(str(values["certificate"])),
        key=Path(str(values["key"])),
        ca=_path(values["ca"]),
        crl=_path(values["crl"]),
        client_auth=ClientAuth(str(values["client.auth"])),
        hosts=(listener.advertised.host,),
    )


def check_certificates_are_shown(listener: str, settings: TlsSettings | None) -> None:
    """Check that a listener whose clients are known by certificate asks for one.

    Raises:
        ConfigError: it does not.
    """
    if settings is not None and settings.client_auth is ClientAuth.NONE:
        raise ConfigError(
            f"log.in.by of the listener {listener} goes by certificates, and clients are not asked "
            'for one: set tls.client.auth = "required", or "optional"'
        )


def peer_tls(
    tls: Mapping[str, OptionValue], cluster_id: str, node: int
) -> TlsSettings | None:  # fmt: skip
    """Return what brokers speak TLS by with one another; None if they speak in the clear.

    Raises:
        ConfigError: what they need is missing.
    """
    if tls["peers"] == "off":
        return None
    names = ("certificate", "key", "ca", "crl")
    values = {name: tls[f"peer.{name}"] or tls[name] for name in names}
    where = "TLS between brokers"
    _check_given(values, where, "peer.")
    if not values["ca"]:
        raise ConfigError(
            f"{where} needs peer.ca, or ca, in [tls]: the authority whose certificates brokers show"
        )
    return TlsSettings(
        name=PEERS,
        setting=where,
        certificate=Path(str(values["certificate"])),
        key=Path(str(values["key"])),
        ca=_path(values["ca"]),
        crl=_path(values["crl"]),
        client_auth=ClientAuth.REQUIRED,
        uri=broker_uri(cluster_id, node),
    )


def _check_given(values: Mapping[str, object], where: str, prefix: str) -> None:
    missing = list(_missing(values))
    if missing:
        words = " and ".join(f"{prefix}{name}" for name in missing)
        other = " (or without peer.)" if prefix else " (or tls.… of the listener)"
        raise ConfigError(f"{where} needs {words} in [tls]{other}")


def _missing(values: Mapping[str, object]) -> Iterator[str]:
    for name in ("certificate", "key"):
        if not values[name]:
            yield name
    if not values["ca"]:
        if values["crl"] or values.get("client.auth", "none") != "none":
            yield "ca"


def _path(value: object) -> Path | None:
    return Path(str(value)) if value else None
