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
    return {each.broker_id: each for each in describe_cluster(bootstrap).brokers}


def alive_addresses(bootstrap: str) -> list[tuple[int, str, int]]:
    """Return their ids, and the hosts and ports of their Kafka ports: see `BrokerAddress`.

    Raises:
        CommandFailed: nobody answers.
    """
    return [(node, each.host, each.port) for node, each in read_alive(bootstrap).items()]


def controller_first(bootstrap: str) -> str:
    """Return the addresses with the controller's before them, if there is one.

    It knows what has just been changed; what is older each broker knows.

    Raises:
        CommandFailed: nobody answers.
    """
    answer = describe_cluster(bootstrap)
    leading = [each for each in answer.brokers if each.broker_id == answer.controller_id]
    addresses = [f"{each.host}:{each.port}" for each in leading]
    return ",".join(dict.fromkeys([*addresses, *bootstrap.split(",")]))


def describe_cluster(bootstrap: str) -> DescribeClusterResponse:
    """Return the brokers that are alive, and which of them is the controller.

    Metadata name the broker to which requests for the controller are to be sent: any will do. A
    broker that is cut off names one here that is not among those that it hears of (ADR 23).

    Raises:
        CommandFailed: nobody answers.
    """
    answer: DescribeClusterResponse = ask(
        bootstrap, ApiKey.DESCRIBE_CLUSTER, VERSION, DescribeClusterRequest()
    )
    return answer
