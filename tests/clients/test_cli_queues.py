"""`kafkaesque queue` against a cluster, a process for each command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

from tests.clients.kafka_helpers import Sent, produce, unique
from tests.clients.test_cli import KAFKAESQUE, Cli, cli
from tests.forked import processes
from tests.waiting import eventually

__all__ = ["cli"]


@pytest.fixture
def queue(cli: Cli) -> str:
    name = unique("mails")
    cli("queue", "create", name)
    return name


def _facts(cli: Cli, name: str) -> dict[str, int]:
    facts: dict[str, int] = cli("queue", "describe", name, "--json").document["counts"]
    return facts


def _has(cli: Cli, name: str, **counts: int) -> Any:
    return lambda: counts.items() <= _facts(cli, name).items()


def test_messages_are_put_printed_and_acknowledged(cli: Cli, queue: str) -> None:
    put = cli("queue", "put", queue, "hello", "good morning", "-k", "me", "-H", "a=b", "--json")
    assert (put.document["put"], len(put.document["offsets"])) == (2, 2)
    assert cli("queue", "get", queue).output == "hello\n"
    (message,) = cli("queue", "get", queue, "--count", "5", "--json").messages
    assert (message["key"], message["value"], message["attempt"]) == ("me", "good morning", 1)
    assert message["headers"] == [["a", "b"]]
    assert _has(cli, queue, ready=0, in_flight=0, removed_settled=2)()
    nothing = cli("queue", "get", queue, "--wait", "0.5", code=5)
    assert "no message" in nothing.errors


def test_a_queue_over_a_topic_with_partitions_is_emptied(cli: Cli, bootstrap_servers: str) -> None:
    topic, name = unique("topic"), unique("over")
    cli("topic", "create", topic, "-p", "3", "-r", "1")
    produce(bootstrap_servers, topic, [Sent(key=b"%d" % n, value=b"%d" % n) for n in range(30)])
    options = ("-c", f"source.topic={topic}", "-c", "source.start=earliest")
    cli("queue", "create", name, *options)
    got = cli("queue", "get", name, "--count", "30", "--wait", "20")
    assert sorted(got.output.split(), key=int) == [str(number) for number in range(30)]
    assert "may come again" not in got.errors
    eventually(_has(cli, name, in_flight=0, removed_settled=30), "all are settled")
    # What is put then is peeked where it is.
    produce(bootstrap_servers, topic, [Sent(key=b"%d" % n, value=b"%d" % n) for n in range(30)])
    kept = cli("queue", "get", name, "--count", "30", "--wait", "20", "--keep", "locked")
    peeked = [cli("queue", "peek", name, "-p", str(n), "--count", "30").output for n in range(3)]
    assert [each.count("in-flight") > 0 for each in peeked] == [True] * 3
    assert sum(each.count("in-flight") for each in peeked) == len(kept.output.split())


def test_a_queue_of_several_partitions_is_used_as_any_other(cli: Cli) -> None:
    name = unique("parted")
    cli("queue", "create", name, "-c", "partitions=3")
    for number in range(3):
        cli("queue", "put", name, str(number))
    document = cli("queue", "describe", name, "--json").document
    assert [each["partition"] for each in document["partitions"]] == [0, 1, 2]
    assert len({each["leader"] for each in document["partitions"]}) == 3
    assert document["counts"]["ready"] == 3
    assert "ready" in cli("queue", "peek", name, "-p", "2").output
    got = cli("queue", "get", name, "--count", "3", "--wait", "20")
    assert sorted(got.output.split()) == ["0", "1", "2"]
    assert _has(cli, name, ready=0, in_flight=0, removed_settled=3)()
    fixed = cli("queue", "alter", name, "-c", "partitions=4", code=2)
    assert "partitions cannot be changed" in fixed.errors
    ordered = cli("queue", "alter", name, "-c", "max.length=5", code=2)
    assert "several partitions has no max.length" in ordered.errors


def test_dead_letters_in_any_partition_go_back_to_where_they_came_from(cli: Cli) -> None:
    dead, name = unique("dead"), unique("mails")
    cli("queue", "create", dead, "-c", "partitions=3", "-c", "ordered.groups=true")
    way = ("-c", f"dead.letter.queue={dead}", "-c", "message.ttl.ms=1")
    cli("queue", "create", name, "-c", "ordered.groups=true", *way)
    # A group that is not in the first partition.
    cli("queue", "put", name, "a", "--group", "g1")
    eventually(_has(cli, dead, ready=1), "it is a dead letter")
    described = cli("queue", "describe", dead, "--json").document
    assert described["held_by"]["partition"] == 2
    cli("queue", "alter", name, "--delete-config", "message.ttl.ms")
    assert "moving 1 message" in cli("queue", "redrive", dead).output
    eventually(_has(cli, name, ready=1), "it is back")


def test_lines_of_standard_input_are_put_as_they_come(cli: Cli, queue: str) -> None:
    lines = "".join(f"task {number}\n" for number in range(2_500)) + "the last"
    assert "2501 messages" in cli("queue", "put", queue, text=lines).output
    got = cli("queue", "get", queue, "--count", "3000", "--wait", "1")
    assert got.output == lines + "\n"


def test_a_line_is_put_while_more_are_awaited(cli: Cli, queue: str, bootstrap_servers: str) -> None:
    command = [*KAFKAESQUE, "queue", "put", queue, "-b", bootstrap_servers]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as putting:
        assert putting.stdin is not None
        putting.stdin.write(b"first\n")
        putting.stdin.flush()
        assert cli("queue", "get", queue, "--wait", "30").output == "first\n"
        putting.stdin.close()
        assert putting.wait(30) == 0


def test_what_is_kept_is_locked_or_released(cli: Cli) -> None:
    name = unique("kept")
    cli("queue", "create", name, "-c", "visibility.timeout.ms=60000")
    cli("queue", "put", name, "a")
    assert cli("queue", "get", name, "--keep", "released").output == "a\n"
    assert cli("queue", "get", name, "--keep", "locked").output == "a\n"
    cli("queue", "get", name, code=5)
    assert cli("queue", "peek", name).rows[1][1] == "in-flight"


def test_who_cannot_print_releases(cli: Cli, queue: str, bootstrap_servers: str) -> None:
    cli("queue", "put", queue, "a")
    with open("/dev/full", "wb") as full:
        done = processes.run(
            [*KAFKAESQUE, "queue", "get", queue, "-b", bootstrap_servers],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert cli("queue", "get", queue).output == "a\n"


def test_who_is_stopped_while_waiting_takes_nothing(
    cli: Cli, queue: str, bootstrap_servers: str
) -> None:
    command = [*KAFKAESQUE, "queue", "get", queue, "--wait", "60", "-b", bootstrap_servers]
    with subprocess.Popen(command, env=os.environ) as waiting:
        time.sleep(2)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) == 130
    cli("queue", "put", queue, "a")
    assert cli("queue", "get", queue, "--wait", "10").output == "a\n"


def test_priorities_groups_delays_lives_and_ids(cli: Cli) -> None:
    name = unique("all")
    options = ("max.priority=9", "deduplication.ms=60000")
    cli("queue", "create", name, *(word for each in options for word in ("-c", each)))
    cli("queue", "put", name, "low")
    cli("queue", "put", name, "high", "--priority", "9")
    cli("queue", "put", name, "later", "--delay", "3600", "--expires", "7200")
    first = cli("queue", "put", name, "once", "--id", "17", "--json").document["offsets"]
    assert cli("queue", "put", name, "twice", "--id", "17", "--json").document["offsets"] == first
    later = cli("queue", "peek", name, "--json").document[2]
    assert (later["value"], later["place"]) == ("later", "delayed")
    assert later["not_after_ms"] - later["not_before_ms"] == 3_600_000
    assert later["headers"] == []
    assert cli("queue", "get", name).output == "high\n"
    assert cli("queue", "get", name, "--count", "10").output == "low\nonce\n"


def test_dead_letters_say_why_and_go_back(cli: Cli) -> None:
    name, dead = unique("orders"), unique("dead")
    cli("queue", "create", dead)
    options = ("visibility.timeout.ms=200", "delivery.limit=1", f"dead.letter.queue={dead}")
    cli("queue", "create", name, *(word for each in options for word in ("-c", each)))
    cli("queue", "put", name, "bad")
    cli("queue", "get", name, "--keep", "locked")
    eventually(_has(cli, dead, ready=1), "it is dead")
    (row,) = cli("queue", "peek", dead).rows[1:]
    assert row[1] == "ready"
    assert row[3].startswith(f"attempts in {name} at 2")
    (shown,) = cli("queue", "peek", dead, "--json").document
    assert (shown["deaths"][0]["queue"], shown["deaths"][0]["reason"]) == (name, "attempts")
    told = cli("queue", "redrive", dead, "--json").document
    assert (told["to"], told["messages"]) == (name, 1)
    eventually(_has(cli, name, ready=1), "it is back")
    assert cli("queue", "get", name).output == "bad\n"
    assert cli("queue", "redrive", dead, "--stop").code == 0


def test_parked_messages_are_ready_again(cli: Cli) -> None:
    name = unique("parking")
    cli("queue", "create", name, "-c", "visibility.timeout.ms=200", "-c", "delivery.limit=1")
    cli("queue", "put", name, "bad")
    cli("queue", "get", name, "--keep", "locked")
    eventually(_has(cli, name, parked=1), "it is parked")
    held = cli("queue", "describe", name, "--json").document["held_by"]
    assert (held["place"], held["failures"]) == ("parked", 1)
    assert "1 parked message" in cli("queue", "redrive", name).output
    assert cli("queue", "get", name).output == "bad\n"


def test_queues_are_altered_purged_and_deleted(cli: Cli, queue: str) -> None:
    cli("queue", "alter", queue, "-c", "max.length=1", "-c", "overflow=reject-publish")
    full = cli("queue", "put", queue, "1", "2", code=1)
    assert full.output.startswith("put 1 message")
    assert "is full" in full.errors
    cli("queue", "alter", queue, "--delete-config", "overflow")
    options = cli("queue", "describe", queue, "--json").document["options"]
    assert options == {"max.length": "1"}
    refused = cli("queue", "purge", queue, code=2)
    assert "nothing was done" in refused.errors
    assert "1 message removed" in cli("queue", "purge", queue, "--yes").output
    cli("queue", "delete", queue, code=2)
    assert cli("queue", "delete", queue, "--yes").output == f"deleted {queue}\n"
    cli("queue", "delete", queue, "--yes", code=1)
    assert "nothing" in cli("queue", "delete", queue, "--yes", "--if-exists").output


def test_queues_are_listed(cli: Cli, queue: str) -> None:
    other = unique("other")
    cli("queue", "create", other, "--vhost", "shop")
    cli("queue", "put", queue, "a")
    rows = {row[0]: row for row in cli("queue", "list").rows}
    assert rows["QUEUE"][1:3] == ["READY", "IN-FLIGHT"]
    assert rows[queue][1:3] == ["1", "0"]
    assert f"shop:{other}" in rows
    assert other in {each["queue"] for each in cli("queue", "list", "--json").document}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("get", "{queue}s"), 1, "did you mean {queue}?"),
        (("get", ""), 2, "1 to 255 bytes"),
        (("create", "x", "-c", "max.lenght=5"), 2, "max.lenght"),
        (("create", "{queue}", "-c", "max.length=5"), 1, "queue alter"),
        (("alter", "{queue}"), 2, "nothing to alter"),
        (("alter", "{queue}", "-c", "delay.ms=1", "--delete-config", "delay.ms"), 2, "set back"),
        (("put", "{queue}", "a", "b", "--id", "1"), 2, "one message"),
        (("put", "{queue}", "a", "-H", "kafkaesque.group=b"), 2, "--group"),
        (("put", "{queue}", "a", "--priority", "32"), 2, "31"),
        (("put", "{queue}", "a", "--priority", "3"), 2, "set its option max.priority"),
        (("put", "{queue}", "a", "--group", "g"), 2, "set its option ordered.groups"),
        (("put", "{queue}", "a", "--id", "7"), 2, "set its option deduplication.ms"),
        (("get", "{queue}", "--wait", "nan"), 2, "nan"),
        (("redrive", "{queue}", "--to", "{queue}"), 2, "already"),
        (("redrive", "{queue}", "--to", "none"), 1, "queue none does not exist"),
        (("redrive", "{queue}", "--to", "a", "--stop"), 2, "contradict"),
    ],
)
def test_mistakes_are_explained(
    cli: Cli, queue: str, words: tuple[str, ...], code: int, says: str
) -> None:
    done = cli("queue", *(each.format(queue=queue) for each in words), code=code)
    assert says.format(queue=queue) in done.errors
    assert "Traceback" not in done.errors


def test_documents_are_json(cli: Cli, queue: str) -> None:
    for words in (
        ("alter", queue, "-c", "delay.ms=0"),
        ("purge", queue, "--yes"),
        ("redrive", queue),
        ("delete", queue, "--yes"),
    ):
        assert json.loads(cli("queue", *words, "--json").output)


def test_a_queue_for_one_consumer_is_read_as_a_consumer(cli: Cli) -> None:
    name = unique("jobs")
    cli("queue", "create", name, "-c", "sharing=single-active")
    cli("queue", "put", name, "a", "b", "c")
    refused = cli("queue", "get", name, "--keep", "locked", code=1)
    assert "without --keep locked" in refused.errors
    assert cli("queue", "get", name, "--keep", "released").output == "a\n"
    assert cli("queue", "get", name, "--count", "2").output == "a\nb\n"
    eventually(_has(cli, name, consumers=0, ready=1, in_flight=0), "the command is gone")


def test_a_transient_queue_is_one_as_any_other(cli: Cli) -> None:
    name = unique("replies")
    cli("queue", "create", name, "-c", "transient=true")
    cli("queue", "put", name, "a", "b")
    assert cli("queue", "get", name).output == "a\n"
    described = cli("queue", "describe", name, "--json").document
    assert described["counts"]["ready"] == 1
    refused = cli("queue", "alter", name, "-c", "transient=false", code=2)
    assert "cannot be changed" in refused.errors
    assert name in cli("queue", "list").output
    moved = cli("queue", "reassign", name, "--replicas", "1", code=1)
    assert "no replicas to move" in moved.errors
