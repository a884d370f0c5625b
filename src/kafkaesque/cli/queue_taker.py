"""Takes messages of a queue, attached as a consumer where the queue wants to know who does."""

from typing import Any

from kafkaesque.cli.addresses import parse_addresses
from kafkaesque.cli.exit_codes import FAILED, UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import Exchange
from kafkaesque.cli.queue_requests import (
    SPARE_S,
    TIMEOUT_MS,
    WAIT_MS_MAX,
    NotAttached,
    Queue,
    Shown,
    refusal,
    shown_of,
    take,
    take_request,
)
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.attach_consumer_request import AttachConsumerRequest
from kafkaesque.protocols.kafka.wire import Message

_VERSION = 0
_NUMBER = 1
_AS_THE_QUEUE_HAS_IT = -1


class Taker:
    """One command's way to the messages of a queue.

    Most queues give messages to anybody. The others are asked over one connection, on which the
    command is a consumer until `close`.
    """

    def __init__(self, queue: Queue, may_attach: bool) -> None:
        """Without `may_attach`, messages are to stay locked when the command has ended."""
        self._queue = queue
        self._may_attach = may_attach
        self._exchange: Exchange | None = None

    def take(self, count: int, wait_ms: int) -> list[Shown]:
        """Lock messages, at most so many, and wait for the first.

        Raises:
            CommandFailed: no broker answers, or it refuses; or the connection broke.
        """
        if self._exchange is None:
            try:
                return take(self._queue, count, wait_ms, _AS_THE_QUEUE_HAS_IT)
            except NotAttached as failure:
                if not self._may_attach:
                    raise CommandFailed(
                        f"{failure.message}: its messages are locked for a consumer, and this "
                        "command ends",
                        hint="without --keep locked",
                        exit_code=FAILED,
                    ) from None
            self._attach()
        request = take_request(self._queue, _NUMBER, count, wait_ms, _AS_THE_QUEUE_HAS_IT)
        return shown_of(self._ask(ApiKey.TAKE_MESSAGES, request))

    def close(self) -> None:
        """Be no consumer any more."""
        if self._exchange is not None:
            with self._exchange:
                self._exchange = None

    def _attach(self) -> None:
        self._exchange = self._connect()
        queue = self._queue
        request = AttachConsumerRequest(queue.vhost, queue.name, _NUMBER, False, TIMEOUT_MS)
        self._ask(ApiKey.ATTACH_CONSUMER, request)

    def _connect(self) -> Exchange:
        timeout_s = (TIMEOUT_MS + WAIT_MS_MAX) / 1000 + SPARE_S
        for host, port in parse_addresses(self._queue.bootstrap):
            try:
                exchange = Exchange(host, port, timeout_s)
                exchange.greet()
            except (OSError, EOFError, MalformedRequest):
                continue
            return exchange
        raise CommandFailed(f"no broker answers at {self._queue.bootstrap}", exit_code=UNREACHABLE)

    def _ask(self, api_key: ApiKey, request: Message) -> Any:
        exchange = self._exchange
        if exchange is None:
            raise CommandFailed(f"the connection for queue {self._queue.name} is closed")
        try:
            answer = exchange.ask(api_key, _VERSION, request)
        except (OSError, EOFError, MalformedRequest) as error:
            raise CommandFailed(
                f"the broker's connection broke: {error!r}",
                hint="the same command again: messages that were not acknowledged come again",
                exit_code=UNREACHABLE,
            ) from None
        if answer.error_code:
            raise refusal(self._queue, api_key, answer.error_code, answer.error_message)
        return answer
