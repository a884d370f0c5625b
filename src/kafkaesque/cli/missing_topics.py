"""Why a topic is not among those that are listed: it does not exist, or only may not be seen."""

from typing import Final

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import missing_rule, on_topic
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)

_VERSION: Final = 9


def missing_topic(
    bootstrap: str, topic: str, operation: str, hint: str = "kafkaesque topic list"
) -> CommandFailed:
    """Return the failure for a topic that is not listed, for a command that needs `operation`.

    Asking does not create it.

    Raises:
        CommandFailed: no broker answers.
    """
    request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = ask(bootstrap, ApiKey.METADATA, _VERSION, request).topics
    hidden = missing_rule(found.error_code, bootstrap, on_topic(operation, topic))
    return hidden or CommandFailed(f"topic {topic} does not exist", hint=hint)
