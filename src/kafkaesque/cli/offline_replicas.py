"""Which replicas are offline: Metadata says so, but librdkafka does not pass that part on.

A replica is offline if its broker is down, or lives and cannot open it.
"""

from collections.abc import Mapping
from typing import Final

from kafkaesque.cli.kafka_request import ask
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.protocols.kafka.messages.metadata_response import MetadataResponse

#: The field came with version 5; every broker since Kafka 2.1 knows 7.
VERSION: Final = 7

Offline = Mapping[tuple[str, int], list[int]]


def read_offline(bootstrap: str) -> Offline:
    """Return the offline replicas of each partition that has any.

    Raises:
        CommandFailed: nobody answers.
    """
    request = MetadataRequest(None, allow_auto_topic_creation=False)
    answer: MetadataResponse = ask(bootstrap, ApiKey.METADATA, VERSION, request)
    return {
        (topic.name or "", partition.partition_index): sorted(partition.offline_replicas)
        for topic in answer.topics
        for partition in topic.partitions
        if partition.offline_replicas
    }
