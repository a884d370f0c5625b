"""The checker by itself: each anomaly is seen in a history that was made up to have it."""

from collections.abc import Callable

import pytest

from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.observations import Observations

VALUES = [b"p/0/0", b"p/0/1", b"p/0/2"]


def _observations(*, compacts: bool = False) -> Observations:
    """The records of one batch are on their way."""
    observations = Observations(Findings(), compacts=compacts)
    observations.note_sent(0, VALUES)
    return observations


def _read(observations: Observations, *values: bytes, first: int = 0) -> None:
    for offset, value in enumerate(values, first):
        observations.note_read("c", 0, offset, value)


def _poll(observations: Observations, position: int, *spans: tuple[int, int]) -> None:
    observations.note_polled("c", 0, position, spans)


def _lose(observations: Observations) -> None:
    observations.note_acknowledged(0, 0, VALUES[:1])
    _read(observations, VALUES[1], first=1)


def _lose_to_another(observations: Observations) -> None:
    observations.note_acknowledged(0, 0, VALUES[:1])
    _read(observations, VALUES[1])


def _read_two_at_one_offset(observations: Observations) -> None:
    _read(observations, VALUES[0])
    _read(observations, VALUES[1])


def _acknowledge_elsewhere(observations: Observations) -> None:
    _read(observations, *VALUES)
    observations.note_acknowledged(0, 1, VALUES[:1])


def _acknowledge_the_first_anew(observations: Observations) -> None:
    observations.note_acknowledged(0, 0, VALUES[:1])
    observations.note_acknowledged(0, 0, VALUES[1:2])


def _give_an_id_twice(observations: Observations) -> None:
    observations.note_producer_id("a", 1)
    observations.note_producer_id("b", 1)


def _undo_a_deletion(observations: Observations) -> None:
    observations.note_deletion_asked(0, 5)
    observations.note_deleted(0, 5)
    observations.check_start(0, 4)


def _delete_too_much(observations: Observations) -> None:
    observations.note_deletion_asked(0, 5)
    observations.note_skipped("c", 0, 3, 6)


def _skip(observations: Observations) -> None:
    _read(observations, *VALUES)
    _poll(observations, 0, (1, 2))


def _skip_within(observations: Observations) -> None:
    _read(observations, *VALUES)
    _poll(observations, 0, (0, 0), (2, 2))


def _send_back(observations: Observations) -> None:
    observations.note_acknowledged(0, 2, VALUES[:1])
    observations.note_acknowledged(0, 1, VALUES[1:2])


def _send_back_and_hear_it_late(observations: Observations) -> None:
    observations.note_acknowledged(0, 1, VALUES[1:2])
    observations.note_acknowledged(0, 2, VALUES[:1])


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("events: lost write", _lose),
        ("events: lost write", _lose_to_another),
        ("events: unseen", lambda o: o.note_acknowledged(0, 0, VALUES[:1])),
        ("events: duplicate", lambda o: _read(o, VALUES[0], VALUES[0])),
        ("events: inconsistent offsets", _read_two_at_one_offset),
        ("events: inconsistent offsets", _acknowledge_elsewhere),
        ("events: spurious zero offset", _acknowledge_the_first_anew),
        ("events: poll skip", _skip),
        ("events: internal poll skip", _skip_within),
        ("events: non-monotonic poll", lambda o: _poll(o, 2, (0, 1))),
        ("events: internal non-monotonic poll", lambda o: _poll(o, 0, (0, 1), (1, 1))),
        ("events: non-monotonic send", _send_back),
        ("events: non-monotonic send", _send_back_and_hear_it_late),
        ("events: internal send skip", lambda o: _read(o, *VALUES[:2], b"q/0/0", VALUES[2])),
        ("events: gap", lambda o: _read(o, VALUES[0], first=1)),
        ("events: unsent", lambda o: _read(o, b"q/0/0")),
        ("events: reordered", lambda o: _read(o, VALUES[1], VALUES[0])),
        ("events: undeleted", _undo_a_deletion),
        ("events: overdeleted", _delete_too_much),
        ("events: c: position 5", lambda o: o.note_skipped("c", 0, 5, 5)),
        ("producer id 1", _give_an_id_twice),
    ],
)
def test_every_anomaly_is_seen(name: str, act: Callable[[Observations], None]) -> None:
    observations = _observations()
    act(observations)
    observations.check()
    anomalies = observations.findings.anomalies
    assert any(what.startswith((f"{name}:", f"{name} ")) for what in anomalies), anomalies


def test_what_is_lost_is_seen_where_readers_never_come_to_an_end() -> None:
    observations = _observations()
    _lose_to_another(observations)
    observations.note_unseen()
    (anomaly,) = observations.findings.anomalies
    assert anomaly.startswith("events: lost write: b'p/0/0'")


def test_an_offset_of_a_compacted_topic_is_one_records() -> None:
    observations = _observations(compacts=True)
    _read(observations, *VALUES)
    # It is gone where it was acknowledged, or it is there.
    observations.note_acknowledged(0, 0, VALUES)
    observations.check()
    assert not observations.findings.anomalies
    observations.note_acknowledged(0, 1, VALUES[:1])
    observations.check()
    assert any("inconsistent offsets" in what for what in observations.findings.anomalies)


def test_what_was_deleted_on_request_is_neither_lost_nor_a_gap() -> None:
    observations = _observations()
    observations.note_acknowledged(0, 0, VALUES)
    observations.note_deletion_asked(0, 2)
    observations.note_skipped("c", 0, 0, 2)
    observations.note_deleted(0, 2)
    _read(observations, VALUES[2], first=2)
    observations.check_start(0, 2)
    observations.check()
    assert not observations.findings.anomalies


def test_a_skip_of_what_never_was_is_none() -> None:
    observations = _observations()
    _read(observations, VALUES[0], first=3)
    _poll(observations, 0, (3, 3))
    observations.check()
    assert not any("poll skip" in what for what in observations.findings.anomalies)


def test_acknowledgements_may_come_in_another_order() -> None:
    """A batch that was not acknowledged in time comes again after the next one is acknowledged."""
    findings = Findings()
    observations = Observations(findings)
    observations.note_sent(0, VALUES)
    observations.note_acknowledged(0, 1, VALUES[1:])
    observations.note_acknowledged(0, 0, VALUES[:1])
    assert findings.anomalies == []
