"""Virtual hosts, exchanges and bindings as the APIs of ours have them; Kafka has none."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafkaesque.cli.exit_codes import FAILED, UNREACHABLE, WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import refused
from kafkaesque.cli.troubles import CLOSED
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import STORED_AMQP
from kafkaesque.model.records import Record
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from kafkaesque.protocols.amqp.stored_message import write_stored
from kafkaesque.protocols.amqp.wire import MALFORMED
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_binding_request import AlterBindingRequest
from kafkaesque.protocols.kafka.messages.alter_exchange_request import AlterExchangeRequest
from kafkaesque.protocols.kafka.messages.alter_vhost_request import AlterVhostRequest
from kafkaesque.protocols.kafka.messages.describe_exchanges_request import DescribeExchangesRequest
from kafkaesque.protocols.kafka.messages.describe_exchanges_response import DescribedVhost
from kafkaesque.protocols.kafka.messages.publish_messages_request import PublishMessagesRequest
from kafkaesque.protocols.kafka.wire import Message

TIMEOUT_MS: Final = 10_000
#: Beyond what a broker waits: the answer is on its way then.
SPARE_S: Final = 5.0
CREATE, DELETE = 0, 1
QUEUE, EXCHANGE, TOPIC = 0, 1, 2
#: What destinations are called, by their numbers.
KINDS: Final = ("queue", "exchange", "topic")
_VERSION: Final = 0
_SENTENCES: Final[Mapping[int, tuple[str, int]]] = {
    ErrorCode.INVALID_REQUEST: ("", WRONG_USAGE),
    ErrorCode.UNKNOWN_VHOST: ("kafkaesque vhost list", FAILED),
    ErrorCode.UNKNOWN_EXCHANGE: ("kafkaesque exchange list", FAILED),
    ErrorCode.UNKNOWN_QUEUE: ("kafkaesque queue list", FAILED),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ("kafkaesque topic list", FAILED),
    ErrorCode.REQUEST_TIMED_OUT: ("kafkaesque doctor", FAILED),
    ErrorCode.NOT_CONTROLLER: ("kafkaesque doctor", FAILED),
}


class Where(NamedTuple):
    """A virtual host of a cluster."""

    bootstrap: str
    vhost: str


class Binding(NamedTuple):
    """All that a binding is known by."""

    source: str
    kind: int
    destination: str
    key: str
    arguments: Mapping[str, object]


class Published(NamedTuple):
    """What has become of a message: how many queues and topics have it, or why it is not there."""

    places: int
    refusal: str


def _ask(bootstrap: str, api_key: ApiKey, request: Message) -> Any:
    """Return an answer that is no refusal.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    try:
        answer = ask(bootstrap, api_key, _VERSION, request, TIMEOUT_MS / 1000 + SPARE_S)
    except CommandFailed as failure:
        if CLOSED not in failure.message:
            raise
        raise CommandFailed(
            f"{failure.message}: it is a broker of Apache Kafka or of an earlier release, which "
            "have no exchanges, or it requires a log-in",
            hint="KAFKAESQUE_USER and KAFKAESQUE_PASSWORD_FILE, if it requires a log-in",
            exit_code=UNREACHABLE,
        ) from None
    if answer.error_code:
        if (missing := refused(answer.error_message, bootstrap)) is not None:
            raise missing
        hint, exit_code = _SENTENCES.get(answer.error_code, ("", FAILED))
        raise CommandFailed(_words(answer), hint=hint, exit_code=exit_code)
    return answer


def _words(answer: Any) -> str:
    code = answer.error_code
    name = ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
    return answer.error_message or name.lower().replace("_", " ")


def _json(arguments: Mapping[str, object]) -> str:
    return json.dumps(arguments) if arguments else ""


def describe(
    bootstrap: str, vhost: str | None, *, with_bindings: bool = False
) -> Sequence[DescribedVhost]:
    """Return a virtual host, or all, with what of them the user may see.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = DescribeExchangesRequest(vhost, with_bindings)
    found: Sequence[DescribedVhost] = _ask(bootstrap, ApiKey.DESCRIBE_EXCHANGES, request).vhosts
    return found


def alter_vhost(where: Where, action: int) -> None:
    """Create or delete a virtual host.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = AlterVhostRequest(where.vhost, action, TIMEOUT_MS)
    _ask(where.bootstrap, ApiKey.ALTER_VHOST, request)


def declare(
    where: Where,
    name: str,
    kind: str,
    arguments: Mapping[str, object],
    *,
    is_auto_delete: bool,
    is_internal: bool,
) -> None:
    """Declare an exchange; one that is there and the same is as good.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = AlterExchangeRequest(
        where.vhost,
        name,
        CREATE,
        kind,
        True,
        is_auto_delete,
        is_internal,
        _json(arguments),
        timeout_ms=TIMEOUT_MS,
    )
    _ask(where.bootstrap, ApiKey.ALTER_EXCHANGE, request)


def delete(where: Where, name: str, *, if_unused: bool) -> None:
    """Delete an exchange and its bindings; one that is absent is as good.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = AlterExchangeRequest(
        where.vhost, name, DELETE, if_unused=if_unused, timeout_ms=TIMEOUT_MS
    )
    _ask(where.bootstrap, ApiKey.ALTER_EXCHANGE, request)


def alter_binding(where: Where, binding: Binding, action: int) -> None:
    """Bind or unbind.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = AlterBindingRequest(
        where.vhost,
        action,
        binding.source,
        binding.kind,
        binding.destination,
        binding.key,
        _json(binding.arguments),
        TIMEOUT_MS,
    )
    _ask(where.bootstrap, ApiKey.ALTER_BINDING, request)


def written_headers(exchange: str, key: str, headers: Mapping[str, object]) -> Headers:
    """Return a message's headers as a record has them.

    Texts are headers of the record. Other values keep their types as a publisher of AMQP's does:
    in its table.

    Raises:
        CommandFailed: a value is none that AMQP has, or they are too long.
    """
    texts = [
        (name, value.encode(errors="surrogateescape"))
        for name, value in headers.items()
        if isinstance(value, str)
    ]
    if len(texts) == len(headers):
        return tuple(texts)
    try:
        properties = write_properties(Properties(headers=dict(headers)))
        return ((STORED_AMQP, write_stored(exchange, key, properties)),)
    except (AmqpError, *MALFORMED) as error:
        raise CommandFailed(f"--header: {error}", exit_code=WRONG_USAGE) from None


def publish(where: Where, exchange: str, key: str, messages: Sequence[Record]) -> list[Published]:
    """Publish messages under a routing key, and return what has become of each.

    Raises:
        CommandFailed: no broker answers, or it refuses all of them.
    """
    request = PublishMessagesRequest(
        where.vhost, exchange, [key] * len(messages), bytes(encode_batch(messages)), TIMEOUT_MS
    )
    answer = _ask(where.bootstrap, ApiKey.PUBLISH_MESSAGES, request)
    return [
        Published(each.destination_count, _words(each) if each.error_code else "")
        for each in answer.messages
    ]
