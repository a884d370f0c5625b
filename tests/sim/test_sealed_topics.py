"""Encrypted topics while things go wrong: nothing is lost, and no write to a disk can be read."""

import re
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.coordinators.table_host import TableHost
from kafkaesque.env.disk import Buffer
from kafkaesque.model.batch import HEADER_BYTES
from kafkaesque.model.sealed_batch import BatchSealer
from kafkaesque.sim.disk import SimFile
from kafkaesque.sim.nemesis import SURVIVABLE
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed
from tests.sim.scenario import TOPIC, Scenario

SEALED = {"encryption": "aes256-gcm"}
#: Seed, what goes on, and what goes wrong.
RUNS = (
    pytest.param(1, ("compaction", "commits"), SURVIVABLE, marks=pytest.mark.extended),
    pytest.param(2, ("transactions",), SURVIVABLE, marks=pytest.mark.extended),
    (3, ("compaction", "text"), ("kill", "restart", "power cut")),
)
#: A value, or a key, of the simulated producers: name, partition and number.
VALUE = re.compile(rb"(events|table)[^/]{0,8}\.p\d+/\d+/\d+")


class Writes:
    """What was written to all disks, and which writes hold words that producers have sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.readable: list[str] = []
        #: Sealed batches by what makes their key and nonce, with the bytes that follow.
        self.nonces: dict[bytes, bytes] = {}
        self.is_repeated = False
        #: What coordinators have put into brokers' topics of late, and which writes hold it.
        self.of_coordinators = 0
        self._recent: deque[bytes] = deque(maxlen=400)
        self.readable_within: list[str] = []
        write_at, seal, append = SimFile.write_at, BatchSealer.seal, TableHost.append

        def written(file: SimFile, position: int, buffers: Sequence[Buffer]) -> int:
            data = b"".join(buffers)
            self.count += 1
            if VALUE.search(data):
                self.readable.append(file.path)
            if any(each in data for each in self._recent):
                self.readable_within.append(file.path)
            return write_at(file, position, buffers)

        def sealed(sealer: BatchSealer, batch: Buffer, header: object, told: bytes = b"") -> object:
            made = seal(sealer, batch, header, told)  # type: ignore[arg-type]
            prefix = bytes(made[0][HEADER_BYTES : HEADER_BYTES + 29])
            name = sealer._keys.topic_id + bytes([sealer._keys.partition]) + prefix
            self.is_repeated |= name in self.nonces
            self.nonces[name] = bytes(made[0])
            return made

        def appended(host: Any, token: Any, records: Any, *options: Any) -> None:
            texts = [text for each in records for text in (each.key, each.value) if text]
            # Shorter ones are found by chance.
            self._recent.extend(text for text in texts if len(text) >= 12)
            self.of_coordinators += len(texts)
            append(host, token, records, *options)

        monkeypatch.setattr(TableHost, "append", appended)
        monkeypatch.setattr(SimFile, "write_at", written)
        monkeypatch.setattr(BatchSealer, "seal", sealed)


@pytest.mark.parametrize(("seed", "activities", "kinds"), RUNS)
def test_nothing_is_lost_and_nothing_is_readable(
    seed: int,
    activities: tuple[str, ...],
    kinds: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = Writes(monkeypatch)
    options = SimOptions(activities=activities, kinds=kinds, between_ms=600, is_encrypted=True)
    report = run_seed(seed, options)
    assert report.ok, f"{report.anomalies}\n" + "\n".join(report.lines[-40:])
    assert report.acknowledged > 100, "the clients did something"
    assert writes.count > 100
    assert len(writes.nonces) > 100
    assert not writes.is_repeated, "no two batches have one key and one nonce"
    assert not writes.readable
    if "text" not in activities:
        assert writes.of_coordinators > 20
    assert not writes.readable_within


def test_what_is_not_encrypted_would_have_been_found(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = Writes(monkeypatch)
    activities = ("commits", "transactions")
    report = run_seed(1, SimOptions(activities=activities, kinds=("kill",), duration_ms=2_000))
    assert report.ok
    within = writes.readable_within
    assert any(path.startswith("__consumer_offsets-") for path in within)
    assert any(path.startswith("__transaction_state-") for path in within)
    assert any(not path.startswith("__") for path in within), "the write-ahead log"
    assert any(path.startswith("events-") for path in writes.readable)
    assert any(not path.startswith("events-") for path in writes.readable), "the write-ahead log"


def test_leaders_that_write_the_same_offsets_repeat_no_nonce(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deposed leader's batches are cut off, and others take their offsets."""
    writes = Writes(monkeypatch)
    options = SimOptions(is_encrypted=True)
    scenario = Scenario(7, options, SEALED)
    scenario.write(30)
    salts: set[bytes] = set()
    for _ in range(3):
        leader = scenario.leader
        scenario.kill(leader)
        scenario.loop.run_until(lambda: scenario.leaders() != [], 30_000)
        scenario.write(30)
        scenario.cluster.boot(scenario.world.machines[leader])
        scenario.loop.run_until(lambda: scenario.find(leader) is not None, 30_000)  # noqa: B023
    topic_id = next(iter(scenario.cluster.brokers.values())).state.topic(TOPIC).topic_id
    salts = {name[22:38] for name in writes.nonces if name.startswith(topic_id)}
    assert len(salts) >= 4, "each leadership has a salt of its own"
    assert not writes.is_repeated
    assert isinstance(scenario.broker(scenario.leader), Broker)
