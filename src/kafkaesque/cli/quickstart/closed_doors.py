"""Whether a secured cluster turns away whom it has to: the quickstart looks, as everybody can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkaesque.cli.addresses import parse_addresses
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import Exchange
from kafkaesque.client.log_in import LogIn
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

#: A topic that the user of the quickstart has no rule for.
FORBIDDEN: Final = "salaries"
_METADATA: Final = 9
_TIMEOUT_S: Final = 10.0


class _Nobody(Exchange):
    """A connection of a client that trusts the cluster and does not say who it is."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port, _TIMEOUT_S)
        self._log_in: LogIn | None = None


def is_closed_to_strangers(bootstrap: str) -> bool:
    """Tell whether no broker answers a client that has not logged in.

    Raises:
        OSError: a broker cannot be reached at all.
    """
    for host, port in parse_addresses(bootstrap):
        with _Nobody(host, port) as stranger:
            stranger.greet()
            try:
                stranger.ask(ApiKey.METADATA, _METADATA, MetadataRequest(topics=None))
            except (OSError, EOFError, MalformedRequest):
                continue
        return False
    return True


def is_closed_to_others(admin: AdminClient) -> bool:
    """Tell whether this user may not create a topic outside of its prefix."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    (created,) = admin.create_topics([NewTopic(FORBIDDEN, 1, 1)]).values()
    try:
        created.result(_TIMEOUT_S)
    except KafkaException as refused:
        code = refused.args[0].code()
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return True
        raise CommandFailed(f"topic {FORBIDDEN}: {refused.args[0].str()}") from None
    return False
