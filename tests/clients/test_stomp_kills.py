"""A broker is killed while messages flow over STOMP: what has a receipt comes."""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import stomp

from tests.clients.amqp_cluster import new_name
from tests.clients.stomp_cluster import StompCluster
from tests.waiting import DEADLINE_S

QUEUES = 6
MESSAGES = 40


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StompCluster]:
    with StompCluster(3, tmp_path_factory.mktemp("stomp")) as found:
        yield found


def test_a_leader_is_killed_while_messages_flow(cluster: StompCluster) -> None:
    destinations = [f"/queue/{new_name('killed')}" for _ in range(QUEUES)]
    wanted = {f"{each} {number}" for each in destinations for number in range(MESSAGES)}
    seen: list[str] = []
    sent: Counter[str] = Counter()
    with cluster.stomp(2) as receiver:
        for number, each in enumerate(destinations):
            receiver.subscribe(each, str(number), ack="client-individual", prefetch_count="5")
        _send_all(cluster, sorted(wanted), receiver, seen, sent)
        while set(seen) != wanted:
            _take(receiver, seen)
    # What was acknowledged does not come again: twice comes only what was sent twice.
    assert not Counter(seen) - sent


def _send_all(
    cluster: StompCluster, bodies: list[str], receiver: Any, seen: list[str], sent: Counter[str]
) -> None:
    """Send until each message has its receipt; a broker that leads some of the queues is killed."""
    left = list(bodies)
    is_killed = False
    while left:
        with cluster.stomp(3) as sender:
            for body in left:
                destination = body.partition(" ")[0]
                sent[body] += 1
                try:
                    sender.connection.send(destination, body, headers={"receipt": body})
                except (stomp.exception.NotConnectedException, OSError):
                    # The library's other thread closes the socket when the broker has.
                    break
                if not is_killed and len(left) - left.index(body) < len(bodies) // 2:
                    is_killed = True
                    # Before, because nothing that is on its way now has to arrive.
                    _take(receiver, seen)
                    # Of six queues it leads two or so.
                    cluster.brokers[0].kill()
            left = _without_receipts(sender, left)


def _without_receipts(sender: Any, left: list[str]) -> list[str]:
    """Return what has no receipt when all have come, or the broker has had an error."""
    found: set[str] = set()
    while len(found) < len(left):
        try:
            found.add(sender.receipts.get(timeout=0.05))
        except queue.Empty:
            if not sender.errors.empty() and sender.receipts.empty():
                break
    return [each for each in left if each not in found]


def _take(receiver: Any, seen: list[str]) -> None:
    frame = receiver.messages.get(timeout=DEADLINE_S)
    seen.append(frame.body)
    receiver.connection.ack(frame.headers["ack"])
