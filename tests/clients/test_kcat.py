"""kcat: librdkafka from a shell, as people use it to look into a cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from tests.clients.kafka_helpers import CODECS, Sent, TopicMaker, consume, produce, unique
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


def kcat(bootstrap_servers: str, *arguments: str, text: str = "") -> str:
    """Run kcat and return what it prints; fails when it does."""
    command = ["kcat", "-b", bootstrap_servers, *arguments]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_json(bootstrap_servers: str, topic: str, *arguments: str) -> list[dict[str, Any]]:
    arguments = ("-C", "-t", topic, "-e", "-q", "-J", *arguments)
    return [json.loads(line) for line in kcat(bootstrap_servers, *arguments).splitlines()]


def test_the_cluster_is_listed(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("kcat-list", partitions=2)
    listed = json.loads(kcat(bootstrap_servers, "-L", "-J"))
    assert sorted(each["name"] for each in listed["brokers"]) == sorted(
        bootstrap_servers.split(",")
    )
    (found,) = [each for each in listed["topics"] if each["topic"] == topic]
    assert [len(each["replicas"]) for each in found["partitions"]] == [3, 3]
    assert [len(each["isrs"]) for each in found["partitions"]] == [3, 3]


@pytest.mark.parametrize("codec", CODECS)
def test_lines_go_in_and_come_out(
    bootstrap_servers: str, make_topic: TopicMaker, codec: str
) -> None:
    topic = make_topic("kcat-codec", partitions=1)
    lines = "".join(f"k{i}:value {i} of a few\n" for i in range(300))
    kcat(bootstrap_servers, "-P", "-t", topic, "-z", codec, "-K", ":", text=lines)
    printed = kcat(bootstrap_servers, "-C", "-t", topic, "-e", "-q", "-K", ":")
    assert printed == lines


def test_headers_nulls_and_partitions(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("kcat-nulls", partitions=3)
    options = ["-P", "-t", topic, "-p", "2", "-H", "a=1", "-H", "b=2", "-K", ":", "-Z"]
    kcat(bootstrap_servers, *options, text="k:v\ngone:\n")
    first, second = read_json(bootstrap_servers, topic)
    assert (first["partition"], first["key"], first["payload"]) == (2, "k", "v")
    assert first["headers"] == ["a", "1", "b", "2"]
    assert (second["partition"], second["key"], second["payload"]) == (2, "gone", None)


@pytest.mark.parametrize(
    ("place", "expected"),
    [("beginning", [0, 1, 2, 3, 4]), ("3", [3, 4]), ("-2", [3, 4]), ("s@1700000002000", [2, 3, 4])],
)
def test_reading_starts_where_it_is_told(
    bootstrap_servers: str, make_topic: TopicMaker, place: str, expected: Sequence[int]
) -> None:
    topic = make_topic("kcat-place", partitions=1)
    base_ms = 1_700_000_000_000
    records = [Sent(value=b"%d" % i, timestamp_ms=base_ms + 1000 * i) for i in range(5)]
    produce(bootstrap_servers, topic, records)
    found = read_json(bootstrap_servers, topic, "-o", place)
    assert [int(each["payload"]) for each in found] == expected
    assert [each["offset"] for each in found] == expected


def test_offsets_are_asked_by_time(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("kcat-query", partitions=1)
    produce(bootstrap_servers, topic, [Sent(value=b"x", timestamp_ms=each) for each in (10, 20)])
    assert kcat(bootstrap_servers, "-Q", "-t", f"{topic}:0:15").strip() == f"{topic} [0] offset 1"


def test_an_idempotent_producer_and_a_large_file(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("kcat-large", partitions=1)
    text = "".join(f"{i:06d} {'x' * 500}\n" for i in range(5000))
    options = ["-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "acks=all"]
    kcat(bootstrap_servers, *options, text=text)
    received = consume(bootstrap_servers, topic, 5000, at_rest_s=0.2)
    assert "".join(f"{(each.value() or b'').decode()}\n" for each in received) == text


def test_a_group_reads_each_message_once(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic, group = make_topic("kcat-group", partitions=4), unique("group")
    produce(bootstrap_servers, topic, [b"%d" % i for i in range(50)])
    options = ["-G", group, "-q", "-u", "-X", "auto.offset.reset=earliest", topic]
    command = ["kcat", "-b", bootstrap_servers, *options]
    values: list[int] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                values.append(int(line))
                if len(values) == 50:
                    break
        finally:
            process.terminate()
    assert sorted(values) == list(range(50))
    # It has committed when it left, so that the next member gets only what is new.
    produce(bootstrap_servers, topic, [b"50"])
    assert kcat(bootstrap_servers, *options[:-1], "-c", "1", topic) == "50\n"
