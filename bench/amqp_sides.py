"""The brokers of `bench/amqp.py`: one of ours, and one node of Debian's RabbitMQ."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.maven import PeerUnavailableError
from bench.rabbitmq.server import Node, fetch, running
from tests.clients.amqp_cluster import AmqpCluster

OURS: Final = "ours"
RABBITMQ: Final = "rabbitmq"


@dataclass(frozen=True, slots=True)
class Side:
    """A broker."""

    name: str
    #: Runs it with its data in a directory.
    run: Callable[[Path], AbstractContextManager[Node]]


@contextmanager
def _ours(directory: Path) -> Iterator[Node]:
    with AmqpCluster(1, directory) as cluster:
        yield Node(cluster.amqp_ports[0], cluster.brokers[0].pid)


def _rabbitmq(directory: Path) -> AbstractContextManager[Node]:
    # As it comes: Erlang's machine uses both cores.
    return running(parent=directory)


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
