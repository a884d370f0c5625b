"""Which brokers are alive: Metadata lists a broker for some seconds after it is lost."""

from collections.abc import Mapping
from typing import Final

from kafkaesque.cli.kafka_request import ask
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.describe_cluster_request import DescribeClusterRequest
from kafkaesque.protocols.kafka.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)

#: Every broker that knows the request knows this one.
VERSION: Final = 0


def read_alive(bootstrap: str) -> Mapping[int, DescribeClusterBroker]:
    """Return the brokers that whoever is asked hears of, by their ids.

    Raises:
        CommandFailed: nobody answers.
    """
    answer: DescribeClusterResponse = ask(
        bootstrap, ApiKey.DESCRIBE_CLUSTER, VERSION, DescribeClusterRequest()
    )
    return {each.broker_id: each for each in answer.brokers}
