"""What a client is told when it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypedDict

from kafkaesque.access.secret import Secret
from kafkaesque.client.addresses import Address, parse_addresses
from kafkaesque.client.errors import InvalidArgument
from kafkaesque.client.log_in import MECHANISM_DEFAULT, MECHANISMS, TOKEN_MECHANISM, LogIn
from kafkaesque.client.tls import Tls

TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 3.0
CONNECTIONS_MAX: Final = 64


class ClientOptions(TypedDict, total=False):
    """How a client connects; all of it can be left out."""

    #: Log in as this user, with a password or a token.
    user: str
    password: str
    #: SCRAM-SHA-512 (the default), SCRAM-SHA-256 or PLAIN, for a password.
    mechanism: str
    #: Log in by a token (OAUTHBEARER): the token, or what returns one that is valid now.
    token: str | Callable[[], str]
    #: Speak TLS. Without certificates of authorities, those of the system are trusted.
    tls: Tls
    #: The virtual host of queues.
    vhost: str
    #: Seconds that an operation may take, if its call does not say.
    timeout: float
    #: Shown in logs and metrics of brokers.
    client_id: str
    #: Connections that are open at a time; who needs another one waits.
    connections_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The same, checked."""

    bootstrap_servers: str
    addresses: tuple[Address, ...]
    log_in: LogIn | None
    tls: Tls | None
    vhost: str
    timeout_s: float
    client_id: str
    connections_max: int


def make_config(bootstrap_servers: str, options: ClientOptions) -> ClientConfig:
    """Check what a client is told.

    Raises:
        InvalidArgument: it makes no sense.
    """
    unknown = set(options) - set(ClientOptions.__annotations__)
    if unknown:
        raise InvalidArgument(f"there is no option {min(unknown)!r}")
    timeout_s = options.get("timeout", TIMEOUT_S)
    connections_max = options.get("connections_max", CONNECTIONS_MAX)
    if timeout_s <= 0:
        raise InvalidArgument("a timeout is more than 0 seconds")
    if connections_max < 1:
        raise InvalidArgument("a client needs at least one connection")
    return ClientConfig(
        bootstrap_servers=bootstrap_servers,
        addresses=tuple(parse_addresses(bootstrap_servers)),
        log_in=_log_in(options),
        tls=options.get("tls"),
        vhost=options.get("vhost", "/"),
        timeout_s=timeout_s,
        client_id=options.get("client_id", "kafkaesque-python"),
        connections_max=connections_max,
    )


def _log_in(options: ClientOptions) -> LogIn | None:
    user, password, token = options.get("user"), options.get("password"), options.get("token")
    if token is not None:
        if password is not None:
            raise InvalidArgument("log in by a password or by a token, not both")
        return LogIn(
            user=user or "",
            password=Secret.of(token if isinstance(token, str) else ""),
            mechanism=TOKEN_MECHANISM,
            refresh=None if isinstance(token, str) else token,
        )
    if user is None and password is None:
        return None
    if user is None or password is None:
        raise InvalidArgument(f"{'password' if user else 'user'} is missing")
    mechanism = options.get("mechanism", MECHANISM_DEFAULT)
    if mechanism not in MECHANISMS:
        raise InvalidArgument(f"the mechanism is one of {', '.join(MECHANISMS)}")
    return LogIn(user=user, password=Secret.of(password), mechanism=mechanism)
