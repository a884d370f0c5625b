"""The text protocol in the simulator: planted bugs are found, and made-up histories judged."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafkaesque.admin import gateway as admin
from kafkaesque.admin.connection import AdminConnection
from kafkaesque.admin.http import Answer, Request, Respond, text_answer
from kafkaesque.broker.coordinators.group_offsets import GroupOffsetsClient
from kafkaesque.broker.requests.commands import GroupOffset, GroupOffsets
from kafkaesque.gateway.text import connection, consuming, publishing
from kafkaesque.gateway.text.partition_read import PartitionRead
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.text.answers import (
    MessageLine,
    write_consumed,
    write_error,
    write_ok,
)
from kafkaesque.protocols.text.positions import write_offsets
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.options import SimOptions, draw_options
from kafkaesque.sim.runner import run_seed
from kafkaesque.sim.text.answers import read_consumed, read_start
from kafkaesque.sim.text.link import Answer as Lines
from kafkaesque.sim.text.observations import TextObservations
from kafkaesque.sim.text.visitor import BROKERS, LIVE, METRICS, READY, why_bad

CALM = SimOptions(kinds=("delay",), between_ms=500, duration_ms=1_500, activities=("text",))
#: The leader of a partition is gone before others have what it has acknowledged.
CUT_OFF = SimOptions(kinds=("block",), between_ms=500, duration_ms=6_000, activities=("text",))


def _found(options: SimOptions = CALM, seeds: Sequence[int] = (1,)) -> list[str]:
    for seed in seeds:
        found = run_seed(seed, options).anomalies
        if found:
            return found
    return []


def _expect(anomaly: str, found: list[str]) -> None:
    assert any(what.startswith(anomaly) for what in found), found[:5]


def test_people_with_telnet_are_well() -> None:
    report = run_seed(3, SimOptions(duration_ms=5_000, activities=("text",)))
    assert report.ok, report.anomalies
    assert report.counts["lines refused"] > 0
    assert report.counts["admin pages"] > 0


def test_seeds_draw_what_they_drew_before_and_text_for_itself() -> None:
    having = [seed for seed in range(200) if "text" in draw_options(seed).activities]
    assert 30 < len(having) < 70
    assert all(draw_options(seed).activities[-1] in ("text", "lock") for seed in having)


# -- planted bugs: what is read


def _every(count: int, act: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does something else every so many times."""
    calls = 0

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return (instead if calls % count == 0 else act)(*arguments, **named)

    return called


def test_a_broker_that_leaves_out_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    show_next = PartitionRead.show_next

    def show_the_second(self: PartitionRead) -> MessageLine | None:
        first = show_next(self)
        return show_next(self) if self.has_more else first

    monkeypatch.setattr(PartitionRead, "show_next", _every(20, show_next, show_the_second))
    _expect("lines: internal poll skip", _found())


def test_a_broker_that_names_a_later_offset_to_go_on_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(offsets: dict[int, int]) -> str:
        return ",".join(f"{partition}:{offset + 1}" for partition, offset in offsets.items())

    monkeypatch.setattr(consuming, "write_offsets", _every(10, write_offsets, later))
    _expect("lines: poll skip: lines.reader", _found())


def test_a_broker_that_shows_a_message_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = PartitionRead._settle

    def settle_before(self: PartitionRead, result: Any) -> None:
        settle(self, result)
        if self.position > result.log_start_offset:
            self.position -= 1
            self._end = self.position

    fetch = PartitionRead.asked

    def ask_before(self: PartitionRead) -> int:
        asked: int = fetch.fget(self)  # type: ignore[attr-defined]
        return asked - 1 if asked > 10 else asked

    monkeypatch.setattr(PartitionRead, "asked", property(ask_before))
    monkeypatch.setattr(PartitionRead, "_settle", _every(10, settle, settle_before))
    _expect("lines: non-monotonic poll", _found())


@pytest.mark.extended
def test_a_broker_that_keeps_the_end_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    has_more = PartitionRead.has_more

    def has_more_but_at_the_end(self: PartitionRead) -> bool:
        return self.position < 30 and has_more.fget(self)  # type: ignore[attr-defined]

    def show_next(self: PartitionRead, right: Any = PartitionRead.show_next) -> Any:
        return right(self) if self.position < 30 else None

    monkeypatch.setattr(PartitionRead, "has_more", property(has_more_but_at_the_end))
    monkeypatch.setattr(PartitionRead, "show_next", show_next)
    _expect("stuck client: readers of lines", _found())


def test_a_broker_that_counts_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_more(count: int, *others: str) -> bytes:
        return write_consumed(count + 1, *others)

    monkeypatch.setattr(consuming, "write_consumed", _every(8, write_consumed, one_more))
    _expect("lines: bad answer", _found())


# -- the group's position


@pytest.mark.extended
def test_a_group_that_is_moved_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_more(*, topic: str, partition: int, offset: int) -> GroupOffset:
        return GroupOffset(topic=topic, partition=partition, offset=offset + 1)

    monkeypatch.setattr(consuming, "GroupOffset", _every(9, GroupOffset, one_more))
    # Once it is at the end it says so to Kafka's clients; before that it skips.
    _expect("lines: lost commit", _found())


def test_a_group_that_is_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_less(*, topic: str, partition: int, offset: int) -> GroupOffset:
        return GroupOffset(topic=topic, partition=partition, offset=max(0, offset - 1))

    monkeypatch.setattr(consuming, "GroupOffset", _every(9, GroupOffset, one_less))
    _expect("lines: non-monotonic poll: lines.group-1", _found())


def test_a_group_that_only_the_text_port_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, dict[int, int]] = defaultdict(dict)

    def commit(
        self: Any, group: str, moved: Any, timeout_ms: int, on_done: Any, is_wanted: Any = None
    ) -> None:
        kept[group].update({each.partition: each.offset for each in moved})
        on_done(None)

    def fetch(
        self: Any, group: str, topic: str, partitions: Any, timeout_ms: int, on_done: Any
    ) -> None:
        known = kept[group].items()
        offsets = [GroupOffset(topic=topic, partition=p, offset=o) for p, o in known]
        on_done(GroupOffsets(offsets=offsets))

    monkeypatch.setattr(GroupOffsetsClient, "commit", commit)
    monkeypatch.setattr(GroupOffsetsClient, "fetch", fetch)
    _expect("lines: lost commit", _found())


# -- what is published


def test_a_broker_that_publishes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    append = publishing.Publisher._append

    class Nobody:
        is_wanted = True
        rights = None
        held: Any = None

        def write(self, lines: bytes) -> None:
            """Nobody is there."""

        def end(self, lines: bytes) -> None:
            """Nobody is there."""

    def twice(self: Any, topic: Any, command: Any, reply: Any) -> None:
        append(self, topic, command, Nobody())
        append(self, topic, command, reply)

    monkeypatch.setattr(publishing.Publisher, "_append", _every(10, append, twice))
    _expect("lines: duplicate", _found())


def test_a_broker_that_says_no_and_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        return write_error("the message is not in lines-0: so it seems", "")

    monkeypatch.setattr(publishing, "write_ok", _every(10, write_ok, refuse))
    _expect("lines: refused write", _found())


def test_a_broker_that_names_another_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_one(topic: str, partition: int, offset: int) -> bytes:
        return write_ok(topic, partition, offset + 1)

    monkeypatch.setattr(publishing, "write_ok", _every(10, write_ok, next_one))
    _expect("lines: inconsistent offsets", _found())


@pytest.mark.extended
def test_a_broker_that_answers_before_it_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_ALL", 1)
    _expect("lines: lost write: b'lines.t", _found(CUT_OFF, range(3, 13)))


def test_a_broker_that_hashes_keys_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "partition_for_key", lambda key, count: sum(key) % count)
    _expect("lines: wrong partition", _found())


def _change_record(monkeypatch: pytest.MonkeyPatch, change: Callable[[Record], Record]) -> None:
    def encode_changed(records: Sequence[Record]) -> bytearray:
        return encode_batch([change(each) for each in records])

    monkeypatch.setattr(publishing, "encode_batch", encode_changed)


def test_a_broker_that_changes_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    _change_record(monkeypatch, lambda each: each._replace(key=each.key and each.key.upper()))
    _expect("lines: altered key", _found())


def test_a_broker_that_changes_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    _change_record(monkeypatch, lambda each: each._replace(value=(each.value or b"") + b"0"))
    _expect("lines: unsent", _found())


def test_a_broker_that_says_goodbye_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "write_ok", lambda *_: b"OK bye\r\n")
    _expect("lines: bad answer: 'OK bye'", _found(seeds=range(5)))


# -- the admin port


@pytest.mark.extended
def test_a_broker_that_is_never_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "answer_ready", lambda _: text_answer(503, "not in the mood"))
    found = _found()
    _expect("stuck client: readers of lines", found)
    assert "b1: not in the mood" in found[0]


def test_a_broker_whose_pages_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "answer_live", lambda _: Answer(status=200, body=b"dead\n"))
    _expect("admin: bad page: /health/live", _found(seeds=range(5)))


@pytest.mark.extended
def test_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = admin.AdminGateway.handle

    def handle_some(
        self: admin.AdminGateway, caller: AdminConnection, request: Request, respond: Respond
    ) -> None:
        if request.path != READY or self.doors.clock.now_ms() > 60_000:
            handle(self, caller, request, respond)

    monkeypatch.setattr(admin.AdminGateway, "handle", handle_some)
    _expect("admin: no answer", _found(seeds=range(5)))


@pytest.mark.parametrize(
    ("path", "status", "body", "is_good"),
    [
        (LIVE, 200, "live\n", True),
        (LIVE, 200, "ready\n", False),
        (READY, 503, "broker 1 is being stopped\n", True),
        (READY, 503, "", False),
        (READY, 500, "broken\n", False),
        (METRICS, 200, 'a{listener="text"} 1\nb{listener="admin"} 0.5\n', True),
        (METRICS, 200, 'b{listener="admin"} 0.5', False),
        (METRICS, 200, 'a{listener="text"} 1\n', False),
        (METRICS, 200, 'a{listener="text"} x\nb{listener="admin"} 1\n', False),
        (METRICS, 500, "", False),
        (BROKERS, 200, '{"brokers": [{"id": 1, "admin": "b1:8080"}]}', True),
        (BROKERS, 200, '{"brokers": [{"id": 1, "admin": null}]}', False),
        (BROKERS, 200, "[", False),
    ],
)
def test_pages_are_judged(path: str, status: int, body: str, is_good: bool) -> None:
    assert (why_bad(path, status, body) is None) == is_good


# -- the checker by itself


def _history() -> TextObservations:
    history = TextObservations(Findings(), "lines", 3)
    for number, key in enumerate((b"k", b"k", None, None)):
        history.note_published(b"t/-/%d" % number, key)
    return history


#: Where Kafka's clients put the key k, of three partitions.
HOME = 2
AWAY = 0


@pytest.mark.parametrize(
    ("anomaly", "reads"),
    [
        ("", [(HOME, 0, 0, b"k"), (HOME, 1, 1, b"k"), (AWAY, 0, 2, None)]),
        ("wrong partition", [(AWAY, 0, 0, b"k")]),
        ("altered key", [(HOME, 0, 0, b"K")]),
        ("duplicate", [(0, 0, 2, None), (1, 0, 2, None)]),
        ("duplicate", [(0, 0, 2, None), (0, 1, 2, None)]),
        ("reordered", [(0, 0, 3, None), (0, 1, 2, None)]),
        ("unsent", [(0, 0, 7, None)]),
        ("gap", [(0, 1, 2, None)]),
    ],
)
def test_made_up_histories(anomaly: str, reads: list[tuple[int, int, int, bytes | None]]) -> None:
    history = _history()
    for partition, offset, number, key in reads:
        history.note_read("r", partition, offset, b"t/-/%d" % number, key)
    history.check()
    found = history.findings.anomalies
    assert found == [] if not anomaly else any(f": {anomaly}: " in each for each in found), found


def test_what_is_in_doubt_may_come_late_and_once() -> None:
    history = _history()
    history.note_doubtful(b"t/-/2")
    for offset, number in enumerate((3, 2)):
        history.note_read("r", 0, offset, b"t/-/%d" % number)
    history.check()
    assert history.findings.anomalies == []
    history.note_read("r", 1, 0, b"t/-/2")
    history.check()
    assert history.findings.anomalies == ["lines: duplicate: b't/-/2' is at 0@1 and at 1@0"]


def test_what_is_in_doubt_comes_after_what_was_acknowledged_before_it() -> None:
    history = _history()
    history.note_doubtful(b"t/-/3")
    for offset, number in enumerate((3, 2)):
        history.note_read("r", 0, offset, b"t/-/%d" % number)
    history.check()
    assert history.findings.anomalies == ["lines: reordered: b't/-/2' at 0@1 after 3"]


def test_what_was_refused_is_nowhere() -> None:
    history = _history()
    history.note_refused(b"t/-/2", "ERROR no")
    history.check()
    assert history.findings.anomalies == []
    history.note_read("r", 0, 0, b"t/-/2")
    history.check()
    (found,) = history.findings.anomalies
    assert found.startswith("lines: refused write: b't/-/2' is at 0@0, and its publisher was told")


GOOD = "MSG 0 7 2026-11-21T04:34:58.676Z " + '{"Key":"k","Body":"t/-/0"}'


@pytest.mark.parametrize(
    ("lines", "is_good"),
    [
        ([GOOD, "OK 1 message; go on with: CONS lines g/all/1 0:8,1:0"], True),
        ([GOOD, "OK 1 message; go on with: CONS lines g/all/1 8; not read: 1: gone"], True),
        (["OK 0 messages; go on with: CONS lines g/all/1 next"], True),
        (["OK 1 message; go on with: CONS lines g/all/1 next"], False),
        (["OK 0 messages; go on with: CONS flights g/all/1 next"], False),
        ([GOOD[:-1], "OK 1 message; go on with: CONS lines g/all/1 next"], False),
        (["MSG 0 7", "OK 1 message; go on with: CONS lines g/all/1 next"], False),
        (["ERROR no"], False),
    ],
)
def test_answers_are_read(lines: list[str], is_good: bool) -> None:
    assert (read_consumed(Lines(lines), "lines", "g/all/1") is not None) == is_good


def test_starts_are_read() -> None:
    assert read_start("8", [0, 1]) == {0: 8, 1: 8}
    assert read_start("0:8,1:0", [0, 1]) == {0: 8, 1: 0}
    assert read_start("0:8", [0, 1]) is None
    assert read_start("next", [0, 1]) is None
