"""A broker's configuration: one TOML file, environment variables over it, flags over those.

Everything is checked once, at the start, and all that is wrong is said at once: an unknown key, a
wrong type or a value out of range with its name, what is allowed, and the nearest valid name.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from kafkaesque.access.principals import USER_PREFIX, Principal, read_principal
from kafkaesque.access.secret import Secret
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.listeners import Listener, LogInBy, check_access
from kafkaesque.broker.options.encryption import INTERNAL_ENCRYPTION, NONE
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.env.network import Address
from kafkaesque.membership.seal import Keyring
from kafkaesque.model.errors import ConfigError, InvalidRequest
from kafkaesque.model.ids import NodeId
from kafkaesque.model.options import OptionTable, OptionValue
from kafkaesque.server.exposure import ALLOW_OPEN, ALLOW_PLAINTEXT, find_exposed, find_exposed_peers
from kafkaesque.server.first_users import FirstAccess, read_first_access
from kafkaesque.server.keeper_file import read_keeper_keys
from kafkaesque.server.listeners import (
    PORT_MAX,
    check_can_be_told,
    clashes,
    default_listeners,
    read_listener,
)
from kafkaesque.server.oauth_settings import OauthSettings, read_oauth
from kafkaesque.server.options import SERVER_OPTIONS
from kafkaesque.server.tls_settings import (
    PEERS,
    TLS_OPTIONS,
    TlsSettings,
    check_certificates_are_shown,
    listener_tls,
    peer_tls,
)

#: Two secrets are shorter.
SECRET_FILE_BYTES_MAX = 64 * 1024

#: Where `[[listener]]` tables are.
_LISTENERS = "listener"
_SECTIONS = ("broker", "controllers", "options", "tls", _LISTENERS)
_ENVIRONMENT = "KAFKAESQUE_"
#: A name and a password in it would stand in logs.
_ENDPOINT = re.compile(r"https?://([^\s/@:\[\]]+|\[[0-9a-fA-F:]+\])(:\d{1,5})?(/[^\s?#]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One broker process."""

    data: Path
    log_level: str
    log_format: str
    broker: BrokerConfig
    #: What is to be known of TLS, for `ListenOptions.tls`.
    tls: tuple[TlsSettings, ...] = ()
    #: Whose tokens clients may log in by; None: nobody's but the cluster's own.
    oauth: OauthSettings | None = None
    #: Where spans go; empty: there are none.
    tracing_endpoint: str = ""


def load_config(
    path: Path | None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> ServerConfig:
    """Return the configuration.

    Raises:
        ConfigError: the file cannot be read, or something in it is not allowed: a line for each.
    """
    document = {} if path is None else _read_toml(path)
    faults = [
        f"unknown section [{section}]: there are {', '.join(_SECTIONS)}"
        for section in document
        if section not in _SECTIONS
    ]
    broker: dict[str, object] = {}
    options: dict[str, object] = {}
    tls: dict[str, object] = {}
    for name, values in (("broker", broker), ("options", options), ("tls", tls)):
        with _gathered(faults):
            values.update(_section(document, name))
    _take_environment(os.environ if environment is None else environment, broker, options, tls)
    broker.update(flags or {})
    controllers, tables = document.get("controllers", {}), document.get(_LISTENERS, [])
    return _make(broker, options, tls, controllers, tables, faults)


@contextmanager
def _gathered(faults: list[str]) -> Iterator[None]:
    """What is wrong in here is said with the rest, and does not end the reading."""
    try:
        yield
    except ConfigError as error:
        faults.append(str(error))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def _section(document: Mapping[str, object], name: str) -> dict[str, object]:
    section = document.get(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{name} must be a section, [{name}], of keys and values")
    return _flatten(section)


def _flatten(section: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return dotted keys, quoted or not, as one level."""
    flat: dict[str, object] = {}
    for key, value in section.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _take_environment(
    environment: Mapping[str, str],
    broker: dict[str, object],
    options: dict[str, object],
    tls: dict[str, object],
) -> None:
    """Variables are named after keys: `kafka.port` is KAFKAESQUE_KAFKA_PORT.

    Those of [tls] have that word before them: `key` is KAFKAESQUE_TLS_KEY.
    """
    tables = (
        (SERVER_OPTIONS, broker, ""),
        (BROKER_OPTIONS, options, ""),
        (TLS_OPTIONS, tls, "TLS_"),
    )
    for table, values, section in tables:
        for name in table.names():
            variable = _ENVIRONMENT + section + name.upper().replace(".", "_")
            if variable in environment:
                values[name] = environment[variable]


def _make(
    broker: Mapping[str, object],
    options: Mapping[str, object],
    tls: Mapping[str, object],
    controllers: object,
    tables: object,
    faults: list[str],
) -> ServerConfig:
    """Return the configuration; raises ConfigError for faults found here, or before."""
    values = {**SERVER_OPTIONS.defaults(), **_parse(SERVER_OPTIONS, broker, faults)}
    parsed_options = _parse(BROKER_OPTIONS, options, faults)
    parsed_tls = {**TLS_OPTIONS.defaults(), **_parse(TLS_OPTIONS, tls, faults)}
    node = NodeId(int(values["id"]))
    host = str(values["host"])
    advertised = str(values["advertised.host"]) or host
    peer_address = Address(advertised, int(values["peer.port"]))
    first_controllers: dict[NodeId, Address | None] = {}
    all_tls: list[TlsSettings] = []
    listeners = _listeners(tables, values, broker, parsed_tls, all_tls, faults)
    with _gathered(faults):
        peers = peer_tls(parsed_tls, str(values["cluster.id"]), node)
        all_tls += [] if peers is None else [peers]
    with _gathered(faults):
        _check_id_is_given(values, has_id="id" in broker, has_controllers=bool(controllers))
    faults += clashes(listeners, peer_address)
    with _gathered(faults):
        check_can_be_told(advertised)
    with _gathered(faults):
        first_controllers = _controllers(controllers, node, peer_address)
    others = _read_others(values, faults)
    keeper_keys = _keeper_keys(str(values["key.keeper.file"]), faults)
    faults += _unsealable(parsed_options, has_keeper=bool(values["key.keeper.file"]))
    oauth = _oauth(values, broker, faults)
    faults += _untraceable(str(values["tracing.endpoint"]))
    with _gathered(faults):
        check_access(listeners, has_secret=bool(values["cluster.secret.file"]))
    peer_listener = peer_address._replace(host=str(values["peer.host"]) or advertised)
    faults += _exposed(values, parsed_tls, listeners, all_tls, peer_listener)
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    config = BrokerConfig(
        node=node,
        cluster_id=str(values["cluster.id"]),
        rack=str(values["rack"]) or None,
        peer_address=peer_address,
        peer_listener=peer_listener,
        peer_tls="" if parsed_tls["peers"] == "off" else PEERS,
        dials_peers_with_tls=parsed_tls["peers"] != "accept",
        takes_peers_in_the_clear=parsed_tls["peers"] in ("accept", "dial"),
        listeners=listeners,
        controllers=first_controllers,
        secrets=others.secrets,
        keeper_keys=keeper_keys,
        seeds=others.seeds,
        super_users=others.super_users,
        first_users=(*others.first.verifiers, *others.first.factors),
        first_rules=others.first.rules,
        principal_mapping_rules=str(values["ssl.principal.mapping.rules"]),
        options=parsed_options,
        data_dir=str(values["data"]),
    )
    return ServerConfig(
        data=Path(str(values["data"])),
        log_level=str(values["log.level"]),
        log_format=str(values["log.format"]),
        broker=config,
        tls=tuple(all_tls),
        oauth=oauth,
        tracing_endpoint=str(values["tracing.endpoint"]),
    )


def _unsealable(options: Mapping[str, OptionValue], *, has_keeper: bool) -> Iterator[str]:
    if options.get(INTERNAL_ENCRYPTION, NONE) != NONE and not has_keeper:
        yield f"{INTERNAL_ENCRYPTION} needs key.keeper.file: nothing is sealed without a key"


def _untraceable(endpoint: str) -> Iterator[str]:
    if endpoint and _ENDPOINT.fullmatch(endpoint) is None:
        yield f"tracing.endpoint is http://HOST:PORT/v1/traces or https://..., not {endpoint!r}"


def _oauth(
    values: Mapping[str, OptionValue], given: Mapping[str, object], faults: list[str]
) -> OauthSettings | None:
    try:
        return read_oauth(values, given)
    except ConfigError as error:
        faults.append(str(error))
        return None


def _keeper_keys(path: str, faults: list[str]) -> tuple[Secret, ...]:
    with _gathered(faults):
        return read_keeper_keys(Path(path)) if path else ()


class _Others(NamedTuple):
    """Who else belongs to the cluster: brokers and users."""

    secrets: tuple[bytes, ...] = ()
    seeds: tuple[Address, ...] = ()
    super_users: tuple[Principal, ...] = ()
    first: FirstAccess = FirstAccess()


def _read_others(values: Mapping[str, OptionValue], faults: list[str]) -> _Others:
    found = _Others()
    secret_file = str(values["cluster.secret.file"])
    with _gathered(faults):
        secrets = read_secrets(Path(secret_file)) if secret_file else ()
        found = found._replace(secrets=secrets)
    with _gathered(faults):
        found = found._replace(seeds=_seeds(str(values["seeds"])))
    with _gathered(faults):
        found = found._replace(super_users=_super_users(str(values["super.users"])))
    first = FirstAccess()
    with _gathered(faults):
        path = str(values["first.users.file"])
        first = _first_access(path, has_secret=bool(secret_file))
    return found._replace(first=first)


def _exposed(
    values: Mapping[str, OptionValue],
    tls: Mapping[str, OptionValue],
    listeners: Sequence[Listener],
    all_tls: Sequence[TlsSettings],
    peer_listener: Address,
) -> Iterator[str]:
    allows_open, allows_plaintext = bool(values[ALLOW_OPEN]), bool(values[ALLOW_PLAINTEXT])
    yield from find_exposed(
        listeners, all_tls, allows_open=allows_open, allows_plaintext=allows_plaintext
    )
    yield from find_exposed_peers(
        peer_listener,
        has_secret=bool(values["cluster.secret.file"]),
        is_encrypted=tls["peers"] == "on",
        allows_open=allows_open,
        allows_plaintext=allows_plaintext,
    )


def _listeners(
    tables: object,
    values: Mapping[str, OptionValue],
    given: Mapping[str, object],
    tls: Mapping[str, OptionValue],
    all_tls: list[TlsSettings],
    faults: list[str],
) -> list[Listener]:
    """Return all listeners, and add what they speak TLS by.

    `given` are the keys of [broker] that are set, and `tls` are all of [tls].
    """
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        faults.append("listener must be a table, [[listener]], with double brackets")
        return default_listeners(values, ())
    named: list[tuple[Listener, Mapping[str, object]]] = []
    for each in tables:
        table: Mapping[str, object] = _flatten(each)
        with _gathered(faults):
            named.append((read_listener(table, values), table))
    taken = [each.protocol for each, _ in named if f"{each.protocol}.port" not in given]
    defaults: list[Listener] = []
    with _gathered(faults):
        defaults = default_listeners(values, taken)
    found: list[Listener] = []
    nothing: Mapping[str, object] = {}
    for listener, keys in [*((each, nothing) for each in defaults), *named]:
        with _gathered(faults):
            settings = listener_tls(listener, keys, tls)
            all_tls += [] if settings is None else [settings]
            found.append(replace(listener, tls="" if settings is None else settings.name))
            if listener.log_in_by is not LogInBy.SASL:
                check_certificates_are_shown(listener.name, settings)
    return found


def _parse(
    table: OptionTable, given: Mapping[str, object], faults: list[str]
) -> dict[str, OptionValue]:
    parsed: dict[str, OptionValue] = {}
    for name, value in given.items():
        with _gathered(faults):
            parsed[name] = table.get(name).parse(value)
    return parsed


def _check_id_is_given(
    values: Mapping[str, OptionValue], *, has_id: bool, has_controllers: bool
) -> None:
    """A default would make this broker one that is another machine's."""
    names = [name for name in ("seeds", "cluster.secret.file") if values[name]]
    if has_controllers:
        names.append("[controllers]")
    if names and not has_id:
        raise ConfigError(
            f"id is missing in [broker]: a broker of a cluster, as {names[0]} makes it one, needs "
            "a number that no other broker has, such as id = 4"
        )


def _controllers(section: object, node: NodeId, own: Address) -> dict[NodeId, Address | None]:
    """Return a new cluster's first controllers; without the section this broker is alone."""
    if not isinstance(section, dict):
        raise ConfigError('[controllers] must hold lines such as 1 = "127.0.0.1:9190"')
    if not section:
        return {node: own}
    found: dict[NodeId, Address | None] = {}
    for key, value in section.items():
        address = _address(str(value))
        if not key.isdigit() or (address is None and value != ""):
            raise ConfigError(
                f"[controllers] {key} = {value!r} must be a broker id and its peer address, "
                'such as 1 = "127.0.0.1:9190", or "" where gossip finds it'
            )
        found[NodeId(int(key))] = own if NodeId(int(key)) == node else address
    return found


def _seeds(text: str) -> tuple[Address, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    found = [_address(word) for word in words]
    if None in found:
        raise ConfigError(
            f"seeds: {words[found.index(None)]!r} must be a peer address, such as 10.0.0.7:9190"
        )
    return tuple(address for address in found if address is not None)


def _first_access(path: str, *, has_secret: bool) -> FirstAccess:
    if path and not has_secret:
        raise ConfigError(
            "first.users.file needs cluster.secret.file: without a secret, anybody could join as a "
            "broker, and read everything"
        )
    return read_first_access(Path(path)) if path else FirstAccess()


def _super_users(text: str) -> tuple[Principal, ...]:
    """Return the users that Kafka's `super.users` names, which is separated by semicolons."""
    words = [word.strip() for word in text.split(";") if word.strip()]
    for word in words:
        try:
            read_principal(word)
            is_user = word.startswith(USER_PREFIX) and word != f"{USER_PREFIX}*"
        except InvalidRequest:
            is_user = False
        if not is_user:
            raise ConfigError(
                f"super.users: {word!r} must be a user, such as User:admin; several are separated "
                "by semicolons"
            )
    return tuple(Principal(word) for word in dict.fromkeys(words))


def _address(text: str) -> Address | None:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 1 <= int(port) <= PORT_MAX:
        return None
    return Address(host, int(port))


def read_secrets(path: Path) -> tuple[bytes, ...]:
    """Return the cluster's secret, and a second one while it is changed.

    Raises:
        ConfigError: it cannot be read, holds no secrets, or others may read it.
    """
    where = f"cluster.secret.file {path}"
    try:
        with path.open("rb") as file:
            is_for_others = os.fstat(file.fileno()).st_mode & stat.S_IRWXO
            lines = file.read(SECRET_FILE_BYTES_MAX + 1).split(b"\n")
    except OSError as error:
        raise ConfigError(f"cannot read {where}: {error.strerror}") from None
    secrets = tuple(line.strip() for line in lines if line.strip())
    if not secrets:
        raise ConfigError(
            f"{where} is empty: write the cluster's secret into it, the same on every machine: "
            f"(umask 077; head -c 32 /dev/urandom | base64 > {path})"
        )
    if is_for_others:
        raise ConfigError(f"{where}: others may read it; chmod o= {path}")
    if sum(map(len, lines)) > SECRET_FILE_BYTES_MAX:
        raise ConfigError(f"{where} is longer than {SECRET_FILE_BYTES_MAX} bytes")
    try:
        Keyring("", secrets)
    except ConfigError as error:
        raise ConfigError(f"{where}: {str(error).removeprefix('membership: ')}") from None
    return secrets
