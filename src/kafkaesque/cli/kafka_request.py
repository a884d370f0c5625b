"""A request of Kafka's protocol that librdkafka cannot send, sent to one broker and answered."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from kafkaesque.cli import tls
from kafkaesque.cli.addresses import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, parse_addresses
from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.log_in import find_log_in
from kafkaesque.cli.sasl import authenticate
from kafkaesque.cli.troubles import why
from kafkaesque.client.framing import AnswerReader
from kafkaesque.client.log_in import LogIn
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.api_versions_request import ApiVersionsRequest
from kafkaesque.protocols.kafka.wire import Message

READ_BYTES = 1 << 16
#: So long a broker may take to say which requests it knows, where another one can be asked.
GREETING_TIMEOUT_S = 3.0
ASKED_AT_ONCE_MAX = 16
_VERSIONS = 0

#: Addresses that accepted a connection and said nothing: they are asked after all others.
_silent: set[tuple[str, int]] = set()


class Exchange:
    """A connection to one broker, for one request after another."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float = REQUEST_TIMEOUT_S,
        log_in: LogIn | None = None,
    ) -> None:
        """Connect; no answer may take longer than the timeout.

        Without a `log_in` it is what the environment says.

        Raises:
            OSError: nobody listens.
        """
        self._socket = tls.connect(host, port, CONNECT_TIMEOUT_S)
        self._socket.settimeout(timeout_s)
        self._timeout_s = timeout_s
        #: Why it is no broker, once that is known.
        self._is_foreign = ""
        #: Who to log in as, before anything but a greeting.
        self._log_in = log_in or find_log_in(f"{host}:{port}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, api_key: int, api_version: int, request: Message) -> Any:
        """Return the answer to a request.

        Raises:
            OSError: no answer in time; EOFError: the connection was closed.
            MalformedRequest: what answers is no Kafka broker.
            CommandFailed: the log-in is refused.
        """
        if self._log_in is not None and api_key != ApiKey.API_VERSIONS:
            log_in, self._log_in = self._log_in, None
            authenticate(log_in, self._ask)
        return self._ask(api_key, api_version, request)

    def _ask(self, api_key: int, api_version: int, request: Message) -> Any:
        self._socket.sendall(write_request(api_key, api_version, 1, "kafkaesque-cli", request))
        # Whoever asks once more would get what follows.
        if self._is_foreign:
            raise MalformedRequest(self._is_foreign)
        reader = AnswerReader()
        try:
            while reader.wanted:
                data = self._socket.recv(min(reader.wanted, READ_BYTES))
                if not data:
                    raise EOFError
                reader.feed(data)
        except MalformedRequest as error:
            self._is_foreign = str(error)
            raise
        return reader.message(api_key, api_version)

    def greet(self) -> None:
        """Find out soon whether anybody answers at all, before anything is asked for.

        Raises:
            OSError, EOFError, MalformedRequest: nobody does, as in `ask`.
        """
        self._socket.settimeout(min(self._timeout_s, GREETING_TIMEOUT_S))
        self.ask(ApiKey.API_VERSIONS, _VERSIONS, ApiVersionsRequest())
        self._socket.settimeout(self._timeout_s)


def ask(
    bootstrap: str,
    api_key: int,
    api_version: int,
    request: Message,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> Any:
    """Return the answer of the first broker that can be reached.

    Of several one that hangs costs a few seconds, and only the first time.

    Raises:
        CommandFailed: none can, or what answers is no Kafka broker; or the one that was asked is
            there, but does not come to an end with it, as where there is no controller.
    """
    refused: list[str] = []
    waiting = sorted(parse_addresses(bootstrap), key=_silent.__contains__)
    while waiting:
        host, port = waiting.pop(0)
        try:
            with Exchange(host, port, timeout_s) as exchange:
                if waiting:
                    exchange.greet()
                try:
                    answer = exchange.ask(api_key, api_version, request)
                except TimeoutError:
                    _raise_if_there((host, port), timeout_s)
                    raise
                _silent.discard((host, port))
                return answer
        except (OSError, EOFError) as error:
            refused.append(f"{host}:{port} ({why(error)})")
            if isinstance(error, TimeoutError):
                _silent.add((host, port))
                hanging = _hanging(waiting)
                _silent.update(hanging)
                refused += [f"{each[0]}:{each[1]} (no answer in time)" for each in hanging]
                waiting = [each for each in waiting if each not in hanging]
        except MalformedRequest as error:
            raise CommandFailed(
                f"{host}:{port} does not answer as a Kafka broker does: {error}",
                exit_code=UNREACHABLE,
            ) from None
    raise CommandFailed(f"no broker answers at {', '.join(refused)}", exit_code=UNREACHABLE)


def _raise_if_there(address: tuple[str, int], timeout_s: float) -> None:
    """Whoever answers, but not this, does not hang, and another one might do it a second time."""
    if not _hanging([address]):
        raise CommandFailed(
            f"{address[0]}:{address[1]} answers, but has not done this within {timeout_s:g} s",
            hint="kafkaesque doctor",
        ) from None


def greet_all(bootstrap: str) -> dict[str, str]:
    """Ask all at once whether a broker is there; return for each address why not, or nothing."""

    def greet(address: tuple[str, int]) -> str:
        try:
            with Exchange(*address, GREETING_TIMEOUT_S) as exchange:
                exchange.greet()
        except (OSError, EOFError, MalformedRequest) as error:
            return why(error)
        return ""

    addresses = parse_addresses(bootstrap)
    with ThreadPoolExecutor(ASKED_AT_ONCE_MAX) as pool:
        names = (f"{host}:{port}" for host, port in addresses)
        return dict(zip(names, pool.map(greet, addresses), strict=True))


def _hanging(addresses: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return those that do not answer in time, all asked at once."""

    def hangs(address: tuple[str, int]) -> bool:
        try:
            with Exchange(*address, GREETING_TIMEOUT_S) as exchange:
                exchange.greet()
        except TimeoutError:
            return True
        except (OSError, EOFError, MalformedRequest):
            return False  # whoever asks it says why
        return False

    if not addresses:
        return []
    with ThreadPoolExecutor(ASKED_AT_ONCE_MAX) as pool:
        return [
            each for each, is_so in zip(addresses, pool.map(hangs, addresses), strict=True) if is_so
        ]
