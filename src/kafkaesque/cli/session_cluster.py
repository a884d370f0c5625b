"""Which brokers a session is good for: those that are named, and those that they know."""

from kafkaesque.access.secret import Secret
from kafkaesque.cli.addresses import parse_addresses
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import Exchange
from kafkaesque.client.log_in import TOKEN_MECHANISM, LogIn
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest

_METADATA_VERSION = 9
_TIMEOUT_S = 5.0


def find_addresses(bootstrap: str, user: str, token: Secret) -> tuple[str, ...]:
    """Return the brokers' Kafka ports, as far as the first one that answers knows them."""
    named = parse_addresses(bootstrap)
    found = [f"{host}:{port}" for host, port in named]
    log_in = LogIn(user=user, password=token, mechanism=TOKEN_MECHANISM)
    for host, port in named:
        try:
            with Exchange(host, port, _TIMEOUT_S, log_in) as exchange:
                request = MetadataRequest(topics=[])
                answer = exchange.ask(ApiKey.METADATA, _METADATA_VERSION, request)
        except (OSError, EOFError, MalformedRequest, CommandFailed):
            continue
        found += [f"{each.host}:{each.port}" for each in answer.brokers]
        break
    return tuple(dict.fromkeys(found))
