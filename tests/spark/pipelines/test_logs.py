"""The pipeline `logs`: from topics and files into an index, each line once, what is none aside."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.cli.log_search import as_text
from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.logs.index import LineIndex, Search
from kafkaesque.spark.pipelines.templates import copy_template
from tests.clients.kafka_helpers import Sent, TopicMaker, consume, produce
from tests.spark.pipelines.command import kafkaesque, pipeline
from tests.spark.pipelines.local_flows import run_flows
from tests.spark.query_process import running, wait_for

#: The lines of the samples that are to be kept aside, with the beginning of the reason.
ASIDE = {
    ("access.log", 9): "it begins like a line of a web server",
    ("access.log", 10): "there is no such time: 30/Feb/2026:08:16:09 +0100",
    ("dpkg.log", 8): "it does not begin like a line",
    ("dpkg.log", 9): "it does not begin like a line",
    ("syslog.log", 8): "it begins like a line of syslog (RFC 5424)",
    ("syslog.log", 9): "its priority is 999",
}
WEB = b'198.51.100.23 - - [02/Mar/2026:09:00:00 +0000] "GET /topic HTTP/1.1" 500 1'
APP = "tests.spark.pipelines.index_app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """A project made of the template, and its topics."""

    folder: Path
    settings: dict[str, str]
    topic: str
    aside: str
    bootstrap_servers: str

    def publish(self, *lines: bytes) -> None:
        sent = [Sent(key=b"web7", value=line) for line in lines]
        produce(self.bootstrap_servers, self.topic, sent)

    def found(self, words: str = "", **wanted: Any) -> list[str]:
        with LineIndex(self.folder / "storage" / "index") as index:
            found = index.search(Search(words=words, **{"limit": 1000, **wanted}))
        return [line["line"] for line in found]


@pytest.fixture
def logs(tmp_path: Path, make_topic: TopicMaker, bootstrap_servers: str) -> Logs:
    folder = tmp_path / "logs"
    copy_template("logs", folder)
    topic, aside = make_topic("logs"), make_topic("aside", partitions=1)
    settings = {
        "kafkaesque.bootstrap.servers": bootstrap_servers,
        "kafkaesque.logs.topics": topic,
        "kafkaesque.logs.aside.topic": aside,
        "kafkaesque.logs.host": "web1",
    }
    return Logs(
        folder=folder,
        settings=settings,
        topic=topic,
        aside=aside,
        bootstrap_servers=bootstrap_servers,
    )


def samples(folder: Path) -> dict[tuple[str, int], bytes]:
    """Return the lines of the sample files, by their files and numbers."""
    return {
        (path.name, number): line
        for path in sorted((folder / "data").glob("*.log"))
        for number, line in enumerate(path.read_bytes().splitlines())
    }


def test_each_line_is_indexed_once_or_kept_aside(spark: Any, logs: Logs) -> None:
    logs.publish(WEB, b"poison", b"\xff\xfe")
    run_flows(spark, logs.folder, logs.settings)
    lines = samples(logs.folder)
    expected = [line.decode() for place, line in lines.items() if place not in ASIDE]
    assert Counter(logs.found()) == Counter([*expected, WEB.decode()])
    kept = {}
    for message in consume(logs.bootstrap_servers, logs.aside, len(ASIDE) + 2, at_rest_s=0.5):
        headers: Any = message.headers()
        told = {name: value.decode() for name, value in headers}
        kept[message.value()] = told
        if told["source"] == logs.topic:
            assert message.key() == b"web7"
    poison = [kept.pop(b"poison"), kept.pop(b"\xff\xfe")]
    assert [told["source"] for told in poison] == [logs.topic] * 2
    assert poison[1]["reason"] == "the line is not UTF-8"
    assert set(kept) == {lines[place] for place in ASIDE}
    for (name, number), reason in ASIDE.items():
        told = kept[lines[name, number]]
        path = logs.folder / "data" / name
        assert (told["source"], told["reason"][: len(reason)]) == (str(path), reason)
        assert path.read_bytes()[int(told["position"]) :].startswith(lines[name, number])

    run_flows(spark, logs.folder, logs.settings)
    assert len(logs.found()) == len(expected) + 1
    logs.publish(WEB)
    with (logs.folder / "data" / "dpkg.log").open("ab") as file:
        file.write(b"2026-03-02 06:31:00 status installed late:amd64 1\n")
    run_flows(spark, logs.folder, logs.settings)
    assert len(logs.found()) == len(expected) + 3
    assert logs.found("late:amd64") == ["2026-03-02 06:31:00 status installed late:amd64 1"]


def test_what_is_searched_is_found(spark: Any, logs: Logs) -> None:
    run_flows(spark, logs.folder, logs.settings)
    assert len(logs.found("openssl -status")) == 3
    assert [line[-3:] for line in logs.found(host="web1", severity=3)] == ['4)"']
    assert logs.found("deadlock", host="db1") == [
        "Mar  2 07:13:59 db1 postgres[812]: ERROR: deadlock detected"
    ]
    assert len(logs.found(kind="web", status_class=4)) == 2
    half_past_six = 1772433000000000
    assert len(logs.found(since=half_past_six, until=half_past_six + 3_000_000)) == 4
    done = kafkaesque(
        *("pipeline", "search", str(logs.folder), "lonvick", "--since", "2026-03-02T00:00Z"),
        *("--host", "db1", "--severity", "error", "--json"),
    )
    (line,) = json.loads(done.stdout)
    assert (line["time"], line["severity"]) == ("2026-03-02T07:12:44.000Z", "crit")
    assert line["fields"]["message"] == "'su root' failed for lonvick on /dev/pts/8"


def test_a_micro_batch_that_comes_again_is_skipped(spark: Any, logs: Logs) -> None:
    """As after a driver that died when the index had the lines and the checkpoint did not."""
    logs.publish(*[WEB] * 100)
    run_flows(spark, logs.folder, logs.settings)
    before = Counter(logs.found())
    checkpoints = logs.folder / "storage" / "_checkpoints" / "index"
    done = [path for path in checkpoints.glob("*/commits/*") if path.is_file()]
    assert len([path for path in done if path.name.isdigit()]) == 2
    for path in done:
        path.unlink()
    (index,) = (logs.folder / "storage").glob("index/index.db")
    assert index.is_file()
    run_flows(spark, logs.folder, logs.settings)
    assert Counter(logs.found()) == before
    assert not list((logs.folder / "storage" / "index" / "staging").glob("*/*/*"))


@pytest.mark.timeout(900)
def test_the_project_runs_by_its_command(logs: Logs) -> None:
    logs.publish(WEB, b"poison")
    done = pipeline("run", logs.folder, logs.settings)
    assert done.returncode == 0, done.stdout + done.stderr
    found = kafkaesque("pipeline", "search", str(logs.folder), "topic", "--status", "5xx")
    assert found.stdout.splitlines() == [f"2026-03-02T09:00:00.000Z  web7  err  {WEB.decode()}"]
    assert len(logs.found()) == len(samples(logs.folder)) - len(ASIDE) + 1
    kept = consume(logs.bootstrap_servers, logs.aside, len(ASIDE) + 1, at_rest_s=0.5)
    assert len(kept) == len(ASIDE) + 1


def test_a_search_that_cannot_be_meant_so_is_told(tmp_path: Path) -> None:
    for words, sentence in (
        ((str(tmp_path),), f"there is no index in {tmp_path}/storage/index"),
        ((".", "--severity", "bad"), "--severity is one of emerg, alert, crit, err,"),
        ((".", "--status", "500"), "--status is 1xx, 2xx, 3xx, 4xx or 5xx, not '500'"),
        ((".", "--limit", "0"), "--limit is a number from 1 to 100000, not 0"),
        ((".", "--since", "soon"), "'soon' is neither an offset nor a time"),
    ):
        done = kafkaesque("pipeline", "search", *words)
        assert done.returncode != 0
        assert sentence in done.stderr


def test_a_line_has_no_say_in_a_terminal() -> None:
    line = {"time": "t", "host": "h", "severity": "info", "line": "a\x1b[2Jb\nc\td\x9b"}
    assert as_text(line) == r"t  h  info  a\x1b[2Jb\nc" + "\td" + r"\x9b"


def count_of(folder: Path) -> int:
    try:
        with LineIndex(folder) as index:
            return index.count()
    except ConnectorError:
        return 0


@pytest.mark.timeout(900)
def test_each_line_is_found_once_whatever_is_killed(
    tmp_path: Path, make_topic: TopicMaker, bootstrap_servers: str
) -> None:
    dice, total = random.Random(11), 6000
    topic, folder, log = make_topic(), tmp_path / "index", tmp_path / "query.log"
    lines = [b"<13>Oct 11 22:14:15 h app: line %d" % number for number in range(total)]
    produce(bootstrap_servers, topic, lines)
    arguments = [bootstrap_servers, topic, str(folder), str(tmp_path / "checkpoint")]
    for _ in range(2):
        before = count_of(folder)
        with running(arguments, log, APP) as process:
            wait_for(process, log, lambda: count_of(folder), before + 1)
            time.sleep(dice.uniform(0.0, 0.6))
    assert count_of(folder) < total, "the kills came too late"
    with running(arguments, log, APP) as process:
        wait_for(process, log, lambda: count_of(folder), total)
        time.sleep(1.0)
    with LineIndex(folder, writes=True) as index:
        index.check()
        found = [line["line"] for line in index.search(Search(limit=2 * total))]
        assert len(index.search(Search(words="app", limit=2 * total))) == total
    assert Counter(found) == Counter(line.decode() for line in lines)
