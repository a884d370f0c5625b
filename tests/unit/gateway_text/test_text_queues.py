"""Queues at the text port: PUT, GET, ACK, NACK, QUEUES."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.gateway.text import held
from tests.unit.gateway_text.person import Person, TextCluster


def create(cluster: TextCluster, name: str, **options: str) -> None:
    done: list[Any] = []
    command = CreateQueue(
        vhost=DEFAULT_VHOST,
        name=name,
        options={key.replace("_", "."): value for key, value in options.items()},
    )
    nodes = cluster.live.nodes.values()
    next(iter(nodes)).broker.doors.cluster.submit(command, 10_000, done.append)
    cluster.live.wait(lambda: bool(done), "the queue is created")
    key = QueueName(DEFAULT_VHOST, name)
    cluster.live.wait(lambda: all(key in n.broker.state.queues for n in nodes), "all know it")


@pytest.fixture
def queue(cluster: TextCluster, topic: str) -> str:
    create(cluster, topic)
    return topic


def given(person: Person, line: str) -> tuple[int, int, Any]:
    """Say GET; return number, attempt and message."""
    shown, last = person.say(line)
    word, offset, attempt, _, message = shown.split(" ", 4)
    assert word == "MSG"
    assert last.startswith("OK 1 message; when it is done with: ACK ")
    assert last.endswith(f" {offset}")
    return int(offset), int(attempt), json.loads(message)


def put(person: Person, line: str) -> int:
    """Say PUT; return the message's number."""
    queue, offset = person.ok(line).split()
    assert line.split()[1] == queue
    return int(offset)


def test_a_message_is_put_given_and_acknowledged(person: Person, queue: str) -> None:
    first = put(person, f"PUT {queue} hello")
    second = put(person, f'PUT {queue} {{"Key": "k", "Body": 1, "Delay": 0}}')
    assert given(person, f"GET {queue}") == (first, 1, {"Body": "hello"})
    assert person.ok(f"ACK {queue} {first}") == f"{queue} {first}"
    assert f"does not hold message {first}" in person.error(f"ACK {queue} {first}")
    assert given(person, f"GET {queue}") == (second, 1, {"Key": "k", "Body": 1})
    assert any(line.startswith(queue) and "in-flight=1" in line for line in person.say("QUEUES"))


@pytest.mark.parametrize("start", ["GET /", "PUT /x", "GET http://a/"])
def test_a_web_page_is_not_served(cluster: TextCluster, start: str) -> None:
    person = cluster.person()
    person.type(f"{start} HTTP/1.1\r\n\r\nHELP\n")
    assert person.is_gone()


def test_what_failed_is_given_again(person: Person, queue: str) -> None:
    person.ok(f"PUT {queue} hello")
    offset, _, _ = given(person, f"GET {queue}")
    person.ok(f"NACK {queue} {offset}")
    again, attempt, _ = given(person, f"GET {queue}")
    assert (again, attempt) == (offset, 2)
    person.ok(f"NACK {queue} {offset} 60")
    assert person.ok(f"GET {queue}") == "0 messages"


def test_messages_wait_expire_and_are_known_by_their_ids(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    create(cluster, topic, deduplication_ms="60000")
    person.ok(f'PUT {topic} {{"Body": "over", "Expires": 0}}')
    person.ok(f'PUT {topic} {{"Body": "later", "Delay": 0.4}}')
    first = put(person, f'PUT {topic} {{"Body": "a", "Id": "17", "Expires": 9}}')
    assert put(person, f'PUT {topic} {{"Body": "b", "Id": "17"}}') == first
    assert given(person, f"GET {topic}")[2] == {"Body": "a"}
    assert given(person, f"GET {topic} 10")[2] == {"Body": "later"}


@pytest.mark.parametrize("says_quit", [True, False])
def test_who_goes_leaves_nothing_behind(
    cluster: TextCluster, person: Person, queue: str, says_quit: bool
) -> None:
    person.ok(f"PUT {queue} hello")
    given(person, f"GET {queue}")
    other = cluster.person()
    assert other.ok(f"GET {queue}") == "0 messages"
    if says_quit:
        person.ok("QUIT")
    else:
        person.leave()
    assert given(other, f"GET {queue} 10")[1:] == (2, {"Body": "hello"})


def test_who_goes_while_waiting_is_given_nothing(
    cluster: TextCluster, person: Person, queue: str
) -> None:
    waiting = cluster.person()
    waiting.type(f"GET {queue} 30\n")
    cluster.live.run_for(0.5)
    waiting.leave()
    cluster.live.run_for(0.5)
    person.ok(f"PUT {queue} hello")
    assert given(person, f"GET {queue} 5")[2] == {"Body": "hello"}


def test_a_wait_ends_when_a_message_comes_and_lines_behind_it_follow(
    cluster: TextCluster, person: Person, queue: str
) -> None:
    begun = time.monotonic()
    person.type(f"GET {queue} 30\nHELP\n")
    other = cluster.person()
    other.ok(f"PUT {queue} hello")
    assert [line.split()[0] for line in person.answer()] == ["MSG", "OK"]
    assert person.answer()[-1] == "OK"
    assert time.monotonic() - begun < 25


def test_what_a_connection_holds_has_a_bound(
    person: Person, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "HELD_MAX", 2)
    offsets = [put(person, f"PUT {queue} hello") for _ in range(3)]
    given(person, f"GET {queue}")
    given(person, f"GET {queue}")
    assert "say ACK or NACK first" in person.error(f"GET {queue}")
    person.ok(f"ACK {queue} {offsets[0]}")
    assert given(person, f"GET {queue}")[0] == offsets[2]


def test_any_broker_serves_any_queue(trio: TextCluster, topic: str) -> None:
    create(trio, topic)
    people = [trio.person(node=node) for node in (1, 2, 3)]
    for person in people:
        person.ok(f"PUT {topic} hello")
    offsets = [given(person, f"GET {topic} 5")[0] for person in people]
    assert len(set(offsets)) == 3
    for person, offset in zip(people, offsets, strict=True):
        person.ok(f"ACK {topic} {offset}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("PUT none hello", "there is no queue 'none'"),
        ("GET none", "there is no queue 'none'"),
        ("PUT", "needs a queue"),
        ("PUT {queue}", "needs a message"),
        ('PUT {queue} {{"Body": 1, "Prority": 1}}', 'did you mean "Priority"?'),
        ('PUT {queue} {{"Body": 1, "Priority": 32}}', "from 0 to 31"),
        ('PUT {queue} {{"Body": 1, "Delay": -1}}', "number of seconds"),
        ('PUT {queue} {{"Body": 1, "Delay": "x"}}', "number of seconds"),
        ('PUT {queue} {{"Body": 1, "Group": 1}}', "must be a string"),
        ('PUT {queue} {{"Body": 1, "Priority": 3}}', "set its option max.priority"),
        ('PUT {queue} {{"Body": 1, "Group": "g"}}', "set its option ordered.groups"),
        ('PUT {queue} {{"Body": 1, "Id": "7"}}', "set its option deduplication.ms"),
        ("GET {queue} 31", "at most 30 seconds"),
        ("GET {queue} soon", "not a number of seconds"),
        ("GET", "takes a queue"),
        ("ACK {queue}", "number of a message"),
        ("ACK {queue} x", "not the number"),
        ("NACK {queue} 0 x", "not a number of seconds"),
        ("NACK {queue} 0", "does not hold"),
        ("QUEUES all", "stands alone"),
    ],
)
def test_what_cannot_be_is_explained(person: Person, queue: str, line: str, says: str) -> None:
    assert says in person.error(line.format(queue=queue))
