"""The command line against a cluster, as people and scripts use it: a process for each command."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.model.kernel import active
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

KAFKAESQUE = [sys.executable, "-m", "kafkaesque.cli.app"]

Cli = Callable[..., "Done"]


class Done:
    """What a command left."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.output = done.stdout
        self.errors = done.stderr

    @property
    def document(self) -> Any:
        """The one JSON document that was printed."""
        return json.loads(self.output)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of all lines."""
        return [line.split("\t") for line in self.output.splitlines()]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON of all lines."""
        return [json.loads(line) for line in self.output.splitlines()]


def cli_at(bootstrap_servers: str, directory: Path | None = None) -> Cli:
    """Return what runs a command, and fails if its exit code is another than `code`."""
    environment = {**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": bootstrap_servers}

    def run(*words: str, text: str = "", code: int = 0) -> Done:
        done = processes.run(
            [*KAFKAESQUE, *words],
            input=text,
            env=environment,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return Done(done)

    return run


@pytest.fixture
def cli(bootstrap_servers: str) -> Cli:
    return cli_at(bootstrap_servers)


def read_all(cli: Cli, topic: str, *words: str) -> list[dict[str, Any]]:
    """Return all messages of a topic, in the order of partition and offset."""
    messages = cli("consume", topic, "--from-beginning", "--until-end", "--json", *words).messages
    return sorted(messages, key=lambda each: (each["partition"], each["offset"]))


def values(messages: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(each["value"] for each in messages)


def test_the_life_of_a_topic(cli: Cli) -> None:
    name = unique("life")
    created = cli("topic", "create", name, "-p", "4", "-r", "3", "-c", "retention.ms=86400000")
    assert created.output == f"created {name}: 4 partitions of 3 replicas\n"

    again = cli("topic", "create", name, code=1)
    assert f"topic {name} exists already" in again.errors
    accepted = cli("topic", "create", name, "--if-not-exists", "--json").document
    assert accepted == {"topic": name, "created": False, "partitions": 4, "replication_factor": 3}

    assert [name, "4", "3"] in cli("topic", "list").rows
    (described,) = cli("topic", "describe", name, "--json").document
    assert described["options"] == {"retention.ms": "86400000"}
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2, 3]
    assert all(each["leader"] in each["replicas"] for each in described["partitions"])

    cli("topic", "alter", name, "-p", "6", "-c", "max.message.bytes=5000")
    cli("topic", "alter", name, "--delete-config", "retention.ms")
    (altered,) = cli("topic", "describe", name, "--json").document
    assert altered["options"] == {"max.message.bytes": "5000"}
    assert len(altered["partitions"]) == 6

    cli("topic", "alter", name, "--config", "retenton.ms=1", code=2)
    wrong = cli("topic", "create", unique("never"), "-c", "retenton.ms=1", code=2).errors
    assert "did you mean retention.ms" in wrong

    refused = cli("topic", "delete", name, unique("missing"), "--yes", code=1)
    assert "does not exist" in refused.errors
    assert [name, "6", "3"] in cli("topic", "list").rows
    cli("topic", "delete", name, unique("missing"), "--if-exists", "--yes")
    eventually(
        lambda: name not in [row[0] for row in cli("topic", "list").rows], f"{name} to be gone"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["topic", "create", "x", "-r", "9"], "INVALID_REPLICATION_FACTOR"),
        (["topic", "describe", "nowhere"], "topic nowhere does not exist"),
        (["topic", "alter", "nowhere", "-p", "3"], "topic nowhere does not exist"),
        (["consume", "nowhere"], "topic nowhere does not exist"),
        (["group", "describe", "nobody"], "group nobody does not exist"),
        (["group", "reset-offsets", "g", "-t", "nowhere", "--to", "1"], "nowhere does not exist"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_the_cluster_refuses_is_said_in_a_sentence(
    cli: Cli, words: list[str], sentence: str
) -> None:
    refused = cli(*words, code=1)
    assert refused.output == ""
    assert refused.errors.startswith("error: ")
    assert sentence in refused.errors


def test_two_topics_whose_names_differ_by_dots_are_refused_by_the_others_name(cli: Cli) -> None:
    first = unique("a_b")
    second = first.replace("_", ".")
    cli("topic", "create", first)
    for words in (["topic", "create", second], ["publish", second, "m"]):
        refused = cli(*words, code=1)
        assert f"error: topic {second} cannot be made beside {first}: their names" in refused.errors
        assert f"topic create {second}" not in refused.errors


def test_messages_from_arguments_lines_and_files(
    cli: Cli, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    assert cli("publish", topic, "one", "two").output == f"published 2 messages to {topic}\n"
    cli("publish", topic, text="three\n\nfive")
    file = tmp_path / "lines"
    file.write_bytes(b"k:six\nseven\n")
    words = ["--key-separator", ":", "-H", "source=shop", "-H", "n=1"]
    report = cli("publish", topic, "-f", str(file), "-f", "-", *words, "--json", text="k:eight")
    assert report.document == {"topic": topic, "published": 3, "failed": 0}

    found = {each["value"]: each for each in read_all(cli, topic)}
    assert sorted(found) == ["", "eight", "five", "one", "seven", "six", "three", "two"]
    assert (found["six"]["key"], found["seven"]["key"], found["one"]["key"]) == ("k", None, None)
    assert found["six"]["headers"] == [["source", "shop"], ["n", "1"]]
    assert found["six"]["partition"] == found["eight"]["partition"]
    assert found["eight"]["offset"] > found["six"]["offset"]


def test_a_key_goes_where_kafkas_own_clients_send_it(cli: Cli, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=6)
    keys = [f"key-{number}" for number in range(40)]
    cli("publish", topic, "--key-separator", "=", text="".join(f"{key}={key}\n" for key in keys))
    for each in read_all(cli, topic):
        expected = (active.murmur2(each["key"].encode()) & 0x7FFFFFFF) % 6
        assert each["partition"] == expected


def test_what_consume_prints_publish_reads_back(cli: Cli, make_topic: TopicMaker) -> None:
    source, target = make_topic(partitions=2), make_topic(partitions=2)
    lines = [
        {"key": "k", "value": {"x": 1}, "headers": {"a": "1", "b": None}, "timestamp_ms": 5000},
        {"key": {"base64": "/wA="}, "value": None, "partition": 1},
        {"value": "ä\n\t", "headers": [["a", "1"], ["a", "2"]], "partition": 0},
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    cli("publish", source, "--format", "json", "--keep-partitions", text=text)
    printed = cli("consume", source, "--from-beginning", "--until-end", "--json").output
    cli("publish", target, "--format", "json", "--keep-partitions", text=printed)
    first, second = read_all(cli, source), read_all(cli, target)
    assert len(first) == 3
    assert [{**each, "topic": ""} for each in first] == [{**each, "topic": ""} for each in second]
    assert [each for each in first if each["value"] == '{"x":1}'][0]["timestamp_ms"] == 5000


def test_what_consume_prints_goes_into_a_topic_with_fewer_partitions(
    cli: Cli, make_topic: TopicMaker
) -> None:
    source, target = make_topic(partitions=5), make_topic(partitions=1)
    cli("publish", source, "--key-separator", "=", text="".join(f"k{n}=v{n}\n" for n in range(20)))
    printed = cli("consume", source, "--from-beginning", "--until-end", "--json").output
    cli("publish", target, "--format", "json", text=printed)

    def without_place(messages: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted((each["key"], each["value"], each["timestamp_ms"]) for each in messages)

    assert without_place(read_all(cli, target)) == without_place(read_all(cli, source))


def test_a_partition_that_is_to_be_kept_must_be_there(cli: Cli, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=2)
    text = '{"value": "x", "partition": 1}\n{"value": "y", "partition": 9}\n{"value": "z"}\n'
    words = ["publish", topic, "--format", "json", "--keep-partitions"]
    refused = cli(*words, text=text, code=1)
    assert f"error: line 2: topic {topic} has no partition 9: it has 0 to 1\n" in refused.errors
    assert refused.output == f"published 1 message to {topic}\n"
    assert [(each["partition"], each["value"]) for each in read_all(cli, topic)] == [(1, "x")]


def test_a_bad_line_ends_it_and_what_came_before_is_delivered(
    cli: Cli, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    text = '{"value": "good"}\n{"key": "no value"}\n{"value": "never"}\n'
    refused = cli("publish", topic, "--format", "json", text=text, code=1)
    assert "line 2: this line is not a message in JSON" in refused.errors
    assert refused.output == f"published 1 message to {topic}\n"
    assert values(read_all(cli, topic)) == ["good"]


def test_a_message_that_is_too_large_is_counted_and_explained(
    cli: Cli, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1, max_message_bytes="1000")
    refused = cli("publish", topic, "x" * 2000, code=1)
    assert f"error: message 1: a message is larger than topic {topic} accepts" in refused.errors
    assert "max.message.bytes" in refused.errors
    assert refused.output == f"published 0 messages to {topic}\n"


def test_what_comes_before_a_line_that_is_too_large_is_published(
    cli: Cli, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    refused = cli("publish", topic, text="1\n2\n3\n" + "a" * 2_000_000 + "\nnever\n", code=1)
    assert f"error: line 4: a message is larger than topic {topic} accepts" in refused.errors
    assert f"try:   kafkaesque topic alter {topic} --config max.message.bytes=" in refused.errors
    assert "Traceback" not in refused.errors
    assert refused.output == f"published 3 messages to {topic}\n"
    assert values(read_all(cli, topic)) == ["1", "2", "3"]


def test_the_topic_decides_how_large_a_message_may_be(cli: Cli, make_topic: TopicMaker) -> None:
    large = make_topic(partitions=1, max_message_bytes="3000000")
    cli("publish", large, text="a" * 2_000_000 + "\n")
    # Together they are more than the topic takes at once.
    small = make_topic(partitions=1, max_message_bytes="1000")
    cli("publish", small, text=("b" * 100 + "\n") * 200)
    assert len(read_all(cli, small)) == 200
    # Its bytes are few enough, and with what surrounds them they are too many.
    almost = cli("publish", small, "b" * 990, code=1)
    assert f"error: message 1: a message is larger than topic {small} accepts" in almost.errors
    assert almost.output == f"published 0 messages to {small}\n"


def test_a_message_without_a_key_is_none_for_a_compacted_topic(
    cli: Cli, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1, cleanup_policy="compact")
    refused = cli("publish", topic, "--key-separator", ":", text="a:1\nb\nc:3\n", code=1)
    assert refused.output == f"published 1 message to {topic}\n"
    assert f"error: line 2: topic {topic} is compacted: its messages need a key" in refused.errors
    assert "try:   --key KEY" in refused.errors
    repeated = ["--header", "source=shop", "--header", "source=till"]
    cli("publish", topic, "2", "--key", "b", *repeated)
    assert values(read_all(cli, topic)) == ["1", "2"]


def test_places_to_read_from(cli: Cli, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=2)
    for partition, time_ms in ((0, 1_000_000), (1, 2_000_000)):
        lines = [{"value": f"{partition}{n}", "timestamp_ms": time_ms + n * 1000} for n in range(5)]
        text = "".join(json.dumps(each) + "\n" for each in lines)
        cli("publish", topic, "--format", "json", "--partition", str(partition), text=text)

    def read(*words: str) -> list[str]:
        return sorted(cli("consume", topic, "--until-end", *words).output.split())

    assert len(read("--from-beginning")) == 10
    assert read() == []
    assert read("--offset", "3") == ["03", "04", "13", "14"]
    assert read("--offset", "-1") == ["04", "14"]
    assert read("--offset", "3", "--partition", "1") == ["13", "14"]
    assert read("--offset", "1970-01-01T00:33:22+00:00") == ["12", "13", "14"]
    assert read("-p", "0", "-p", "1", "--offset", "earliest", "--max", "10") == read("-o", "0")
    assert len(read("--from-beginning", "--max", "7")) == 7
    outside = cli("consume", topic, "--partition", "0", "--offset", "99", code=1)
    assert f"{topic}-0 has no offset 99: it has 0 to 4, and the next message gets 5" in (
        outside.errors
    )
    empty = make_topic(partitions=1)
    beyond = cli("consume", empty, "--offset", "5", code=1)
    assert f"{empty}-0 has no offset 5: it is empty, and the next message gets 0" in beyond.errors
    nowhere = cli("consume", topic, "--partition", "7", code=1)
    assert "has no partition 7: it has 0 to 1" in nowhere.errors
    late = cli("consume", topic, "--max", "1", "--timeout", "0.3", code=5)
    assert "only 0 of 1 message came" in late.errors


def test_several_topics_are_read_together_as_a_template_says(
    cli: Cli, make_topic: TopicMaker
) -> None:
    orders, bills = make_topic(partitions=2), make_topic(partitions=1)
    for partition in ("0", "1"):
        cli("publish", orders, '{"id": 1}', "--partition", partition, "--header", "from=shop")
    cli("publish", bills, '{"id": 2}', '{"id": 3}', "--key", "b")
    template = "{topic} {partition}:{offset} {key} {value.id} {header.from}"
    wanted = [f"{orders} 0:0  1 shop", f"{orders} 1:0  1 shop"]
    wanted += [f"{bills} 0:0 b 2 ", f"{bills} 0:1 b 3 "]
    both = [orders, bills, "--until-end", "--template", template]
    assert sorted(cli("consume", *both, "--from-beginning").output.splitlines()) == sorted(wanted)
    # As a member of a group, each once.
    member = ["--group", f"of-{orders}", "--from-beginning"]
    assert sorted(cli("consume", *both, *member).output.splitlines()) == sorted(wanted)
    assert cli("consume", *both, *member).output == ""
    last = cli("consume", *both, "--offset", "-1", "--partition", "0").output.splitlines()
    assert sorted(last) == sorted([wanted[0], wanted[3]])
    nowhere = cli("consume", orders, bills, "-p", "1", code=1)
    assert f"topic {bills} has no partition 1: it has 0 to 0" in nowhere.errors
    absent = cli("consume", orders, "absent-topic", code=1)
    assert "topic absent-topic does not exist" in absent.errors
    twice = cli("consume", orders, "--template", "{key}", "--json", code=2)
    assert "--template says it all" in twice.errors


def test_consuming_waits_for_what_comes_and_ctrl_c_ends_it_well(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    command = [*KAFKAESQUE, "consume", topic, "--from-beginning", "-b", bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        for value in ("first", "second"):
            cli("publish", topic, value)
            assert consumer.stdout.readline() == f"{value}\n"
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(DEADLINE_S) == 0


def test_a_reader_that_has_enough_is_no_failure(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    cli("publish", topic, text="line\n" * 20_000)
    command = [*KAFKAESQUE, "consume", topic, "--from-beginning", "-b", bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        assert consumer.stdout.readline() == b"line\n"
        consumer.stdout.close()
        cli("publish", topic, text="line\n" * 1000)
        assert consumer.wait(DEADLINE_S) == 0
        assert consumer.stderr.read() == b""


def test_the_state_of_the_cluster(cli: Cli, make_topic: TopicMaker) -> None:
    make_topic(partitions=3)
    ready = cli("cluster", "wait", "--brokers", "3", "--timeout", "60")
    assert ready.output.startswith("ready: 3 brokers, ")
    status = cli("cluster", "status", "--json").document
    assert len(status["brokers"]) == 3
    assert sum(each["is_controller"] for each in status["brokers"]) == 1
    assert status["leaderless"] == []
    assert status["partitions"] >= 3
    assert ["brokers", "3"] in cli("cluster", "status").rows
    late = cli("cluster", "wait", "--brokers", "4", "--timeout", "0.3", code=5)
    assert "4 brokers were asked for" in late.errors


def test_a_short_measurement(cli: Cli, bootstrap_servers: str) -> None:
    words = ["--messages", "2000", "--size", "100", "--json"]
    figures = cli("bench", "-b", bootstrap_servers, *words).document
    assert [each["what"] for each in figures] == ["publish, acks=all", "consume"]
    assert all(each["messages"] == 2000 and each["messages_per_s"] > 0 for each in figures)


def test_a_question_is_answered_with_no_or_broken_off(
    cli: Cli, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    topic = make_topic(partitions=1)
    for typed, expected, said in (
        (b"\x03", 130, ""),
        (b"n\n", 1, "error: not confirmed, so nothing was done"),
        (b"\x04", 1, "error: not confirmed, so nothing was done"),
    ):
        code, written = type_at_question(["topic", "delete", topic, "-b", bootstrap_servers], typed)
        assert code == expected, written
        assert said in written
        assert "Aborted" not in written
    assert topic in cli("topic", "list").output


def type_at_question(words: Sequence[str], typed: bytes) -> tuple[int, str]:
    """Run a command on a terminal of its own, and type that when it asks."""
    terminal, inside = pty.openpty()
    # `setsid --ctty` makes the terminal the command's own, so that Ctrl-C typed there is a signal.
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *KAFKAESQUE, *words],
        stdin=inside,
        stdout=inside,
        stderr=inside,
    )
    os.close(inside)
    written = b""
    try:
        for _ in range(20):
            while select.select([terminal], [], [], 3)[0]:
                written += os.read(terminal, 1 << 16)
                if written.endswith(b"[y/N]: "):
                    os.write(terminal, typed)
            if b"[y/N]: " in written:
                # Python misses a Ctrl-C between the question and the read: a person types again.
                os.write(terminal, typed)
        process.kill()
        process.wait()
        pytest.fail(f"the command said no more after {written!r}")
    except OSError:  # so Linux says that the other side is closed
        pass
    finally:
        os.close(terminal)
    return process.wait(), written.decode()
