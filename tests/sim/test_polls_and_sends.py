"""Jepsen's anomalies of polls and sends: for each a broker with a planted bug that is found out."""

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.broker.partition import Partition
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.ids import Offset
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.observations import Observations
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed

READ_NOW = Partition.read_now
KNOWN_DUPLICATE = Partition._known_duplicate
CALM = SimOptions(kinds=("delay",), between_ms=500, duration_ms=4_000)
#: Answers are lost, so that batches are sent again.
LOSSY = SimOptions(kinds=("reset", "kill"), between_ms=400, duration_ms=6_000)


def _found(options: SimOptions, seeds: range = range(5)) -> list[str]:
    for seed in seeds:
        found = run_seed(seed, options).anomalies
        if found:
            return found
    return []


def _plant_read(
    monkeypatch: pytest.MonkeyPatch, choose: Callable[[Partition, int, list[Any]], list[Any]]
) -> None:
    """Let brokers give out other ranges of a client's topic than they should."""

    def read(
        self: Partition, offset: Offset, bytes_max: int, end: Offset | None = None
    ) -> list[Any] | None:
        right = READ_NOW(self, offset, bytes_max, end)
        if not right or self.state.topic_partition.topic != "events":
            return right
        return choose(self, offset, right)

    monkeypatch.setattr(Partition, "read_now", read)


def _starts(ranges: list[Any]) -> list[Offset]:
    """Return where the batches of an answer begin."""
    data = b"".join(each.file.read_blocking(each.position, each.length) for each in ranges)
    return [Offset(header.base_offset) for header in scan_batches(data).batches]


def test_a_broker_that_answers_from_a_later_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(self: Partition, offset: int, right: list[Any]) -> list[Any]:
        starts = _starts(right)
        return (READ_NOW(self, starts[1], 4_000) or right) if len(starts) > 1 else right

    _plant_read(monkeypatch, later)
    found = _found(CALM)
    assert any(what.startswith("events: poll skip") for what in found), found


def test_a_broker_that_leaves_something_out_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def holed(self: Partition, offset: int, right: list[Any]) -> list[Any]:
        starts = _starts(right)
        if len(starts) < 3:
            return right
        return [*(READ_NOW(self, starts[0], 1) or []), *(READ_NOW(self, starts[2], 1) or [])]

    _plant_read(monkeypatch, holed)
    found = _found(CALM)
    assert any(what.startswith("events: internal poll skip") for what in found), found


def test_a_broker_that_answers_from_an_earlier_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    hit: set[int] = set()

    def earlier(self: Partition, offset: int, right: list[Any]) -> list[Any]:
        # Once at each place, or a reader would never get on.
        if offset < 60 or offset in hit:
            return right
        hit.add(offset)
        return READ_NOW(self, Offset(offset - 40), 1) or right

    _plant_read(monkeypatch, earlier)
    found = _found(CALM)
    assert any(what.startswith("events: non-monotonic poll") for what in found), found


def test_a_broker_that_repeats_itself_within_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(self: Partition, offset: int, right: list[Any]) -> list[Any]:
        return [*right, *right]

    _plant_read(monkeypatch, twice)
    found = _found(CALM)
    assert any(what.startswith("events: internal non-monotonic poll") for what in found), found


def test_a_broker_that_keeps_the_end_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(self: Partition, offset: int, right: list[Any]) -> list[Any]:
        return right if offset < 100 else []

    _plant_read(monkeypatch, short)
    found = _found(CALM)
    assert any(what.startswith("stuck client: readers") for what in found), found
    assert any(what.startswith("events: unseen") for what in found), found


@pytest.mark.parametrize(
    ("wrong", "anomaly"),
    [
        (lambda known: (Offset(0), known[1]), "events: spurious zero offset"),
        (lambda known: (Offset(max(1, known[0] - 60)), known[1]), "events: non-monotonic send"),
    ],
)
def test_a_broker_that_answers_a_repeated_batch_with_another_offset(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Any], Any], anomaly: str
) -> None:
    def known(self: Partition, batch: Any) -> Any:
        right = KNOWN_DUPLICATE(self, batch)
        return None if right is None else wrong(right)

    monkeypatch.setattr(Partition, "_known_duplicate", known)
    found = _found(LOSSY, range(20))
    assert any(what.startswith(anomaly) for what in found), found


def _poll(observations: Observations, position: int, *spans: tuple[int, int]) -> None:
    observations.note_polled("c", 0, position, spans)


def _read_all(observations: Observations) -> None:
    for offset, value in enumerate((b"p/0/0", b"p/0/1", b"p/0/2")):
        observations.note_read("another", 0, offset, value)


def _skip(observations: Observations) -> None:
    _read_all(observations)
    _poll(observations, 0, (1, 2))


def _skip_within(observations: Observations) -> None:
    _read_all(observations)
    _poll(observations, 0, (0, 0), (2, 2))


def _send_back(observations: Observations) -> None:
    observations.note_acknowledged(0, 2, [b"p/0/0"])
    observations.note_acknowledged(0, 1, [b"p/0/1"])


def _tear_a_batch(observations: Observations) -> None:
    for offset, value in enumerate((b"p/0/0", b"p/0/1", b"q/0/0", b"p/0/2")):
        observations.note_read("c", 0, offset, value)


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("unseen", lambda o: o.note_acknowledged(0, 0, [b"p/0/0"])),
        ("poll skip", _skip),
        ("internal poll skip", _skip_within),
        ("non-monotonic poll", lambda o: _poll(o, 2, (0, 1))),
        ("internal non-monotonic poll", lambda o: _poll(o, 0, (0, 1), (1, 1))),
        ("non-monotonic send", _send_back),
        ("internal send skip", _tear_a_batch),
    ],
)
def test_every_anomaly_is_seen(name: str, act: Callable[[Observations], None]) -> None:
    observations = Observations(Findings())
    observations.note_sent(0, [b"p/0/0", b"p/0/1", b"p/0/2"])
    act(observations)
    observations.check()
    anomalies = observations.findings.anomalies
    assert any(what.startswith(f"events: {name}: ") for what in anomalies), anomalies


def test_a_skip_of_what_never_was_is_none() -> None:
    observations = Observations(Findings())
    observations.note_sent(0, [b"p/0/0"])
    observations.note_read("c", 0, 3, b"p/0/0")
    _poll(observations, 0, (3, 3))
    observations.check()
    assert not any("poll skip" in what for what in observations.findings.anomalies)
