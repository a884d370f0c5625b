"""The brokers of `bench/amqp.py`: one or three of ours, and as many nodes of Debian's RabbitMQ."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pika

from bench.amqp_clients import ClientError
from bench.maven import PeerUnavailableError
from bench.rabbitmq.cluster import QuorumQueue, running_cluster
from bench.rabbitmq.server import Node, fetch
from kafkaesque.cli.queue_requests import Queue, describe
from tests.clients.amqp_cluster import AmqpCluster

OURS: Final = "ours"
RABBITMQ: Final = "rabbitmq"


@dataclass(frozen=True, slots=True)
class Brokers:
    """Brokers that run as one cluster."""

    nodes: Sequence[Node]
    #: Returns where a queue is.
    find: Callable[[str], QuorumQueue]

    def port_for(self, queue: str) -> int:
        """Return the port of a queue's leader; with several brokers the queue is declared for that.

        Raises:
            ClientError: not every broker has a replica.
        """
        first, count = self.nodes[0], len(self.nodes)
        if count == 1:
            return first.port
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", first.port)) as client:
            channel = client.channel()
            arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": count}
            channel.queue_declare(queue, durable=True, arguments=arguments)
            # The leader answers: from here on it is known.
            channel.basic_get(queue)
        found = self.find(queue)
        if found.members != count:
            raise ClientError(f"{queue} has {found.members} replicas, not {count}")
        return found.leader.port


@dataclass(frozen=True, slots=True)
class Side:
    """Brokers of a kind."""

    name: str
    #: Runs so many with their data in a directory.
    run: Callable[[Path, int], AbstractContextManager[Brokers]]


@contextmanager
def _ours(directory: Path, count: int) -> Iterator[Brokers]:
    with AmqpCluster(count, directory) as cluster:
        pids = [each.pid for each in cluster.brokers]
        nodes = [Node(*each) for each in zip(cluster.amqp_ports, pids, strict=True)]

        def find(queue: str) -> QuorumQueue:
            found = describe(Queue(cluster.brokers[0].address, "/", queue))
            return QuorumQueue(nodes[found.leader_id - 1], len(found.replicas))

        yield Brokers(nodes, find)


@contextmanager
def _rabbitmq(directory: Path, count: int) -> Iterator[Brokers]:
    # As it comes: each Erlang's machine uses both cores.
    with running_cluster(count, directory) as cluster:
        yield Brokers(cluster.nodes, cluster.find)


def sides() -> list[Side]:
    """Return the brokers that can be had; what is missing is said."""
    found = [Side(OURS, _ours)]
    try:
        fetch()
    except PeerUnavailableError as error:
        print(f"skipped: {error}", file=sys.stderr)
    else:
        found.append(Side(RABBITMQ, _rabbitmq))
    return found
