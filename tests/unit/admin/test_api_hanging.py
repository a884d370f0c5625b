"""What hangs, and is aborted, is what no coordinator knows of: that has to be proven."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from kafkaesque.access.audit import AuditEvent
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api import coordinator_action_part, hanging
from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import FanOut
from kafkaesque.admin.api.hanging import Look
from kafkaesque.admin.api.part_pages import TransactionsAnswer
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.ids import NodeId, TopicPartition
from tests.unit.admin.api_ground import CHANGE, ApiGround, Browser
from tests.unit.admin.test_api_ending import begin, coordinator, leader, write
from tests.unit.admin.told import Told

PLACE = "/topics/orders/partitions/1/abort"
BODY = {"start_offset": 0}
HUNG = 4711


@pytest.fixture
def ground() -> ApiGround:
    made = ApiGround(44)
    made.create("orders", 3)
    return made


def live_transaction(ground: ApiGround) -> None:
    """Begin one in partition 1, and write."""
    known = begin(ground, "shop", 1)
    write(ground, 1, known.producer_id, known.producer_epoch)


def is_hanging(ground: ApiGround, host: str = "b1") -> list[bool | None]:
    return [each["is_hanging"] for each in ground.get("/open-transactions", host)["items"]]


def is_open(ground: ApiGround) -> bool:
    _, _, partition = leader(ground, TopicPartition("orders", 1))
    return partition.last_stable_offset < partition.high_watermark


class Late:
    """A step that is held up: what happens meanwhile?"""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.held: list[Callable[[], None]] = []
        real = getattr(owner, name)

        def hold(*words: Any) -> None:
            self.held.append(partial(real, *words))

        monkeypatch.setattr(owner, name, hold)

    def ask(self, ground: ApiGround, meanwhile: Callable[[], None]) -> Told:
        """Abort; do something in between."""
        browser: Browser = ground.browser()
        headers = {**CHANGE, "Content-Type": "application/json"}
        browser.begin("POST", f"/api/v1{PLACE}", headers, json.dumps(BODY).encode())
        ground.run_until(lambda: bool(self.held))
        meanwhile()
        self.held[0]()
        ground.run_until(lambda: browser.is_done)
        return Told(status=browser.status, headers=browser.headers, body=browser.body)


def end(ground: ApiGround) -> None:
    """Write the marker that somebody else has decided on."""
    done: list[object] = []
    _, _, partition = leader(ground, TopicPartition("orders", 1))
    partition.append_marker(
        EndMarker(type=MarkerType.COMMIT, coordinator_epoch=0),
        producer_id=HUNG,
        producer_epoch=0,
        is_epoch_bumped=False,
        timeout_ms=10_000,
        on_done=done.append,
    )
    ground.run_until(lambda: bool(done) and not is_open(ground))


def test_what_a_coordinator_knows_that_does_not_serve_yet_is_not_aborted(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its broker answers; but for that partition of the transaction log nobody has."""
    live_transaction(ground)
    assert is_hanging(ground) == [False]
    _, doors, log = coordinator(ground, "shop")
    hosts = doors.transactions.coordinators._by_group
    with monkeypatch.context() as patch:
        patch.delitem(hosts, log.state.group)
        assert is_hanging(ground) == [None]
        assert ground.ask("POST", PLACE, BODY, dry_run="true").status == 503
        told = ground.ask("POST", PLACE, BODY)
        assert (told.status, told.json["error"]) == (503, "LeaderNotAvailable")
    assert is_open(ground)
    assert is_hanging(ground) == [False]


def test_the_word_of_a_coordinator_counts_that_a_majority_confirms(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ground, "shop", 0)
    write(ground, 1, HUNG)
    assert is_hanging(ground) == [True]
    _, _, log = coordinator(ground, "shop")
    real = Replica.confirm

    def confirm(self: Replica, on_done: Callable[[bool], None]) -> None:
        if self is log.replica:
            on_done(False)
        else:
            real(self, on_done)

    monkeypatch.setattr(Replica, "confirm", confirm)
    assert is_hanging(ground) == [None]
    assert ground.ask("POST", PLACE, BODY).status == 503
    assert is_open(ground)


def test_nothing_hangs_while_it_is_not_known_which_coordinators_there_are(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may not have heard yet that transactions have a topic."""
    write(ground, 1, HUNG)
    assert is_hanging(ground) == [True]
    cluster = ground.cluster.brokers["b1"].doors.cluster
    monkeypatch.setattr(cluster, "when_current", lambda _, done: done(False))
    assert is_hanging(ground) == [None]
    assert ground.ask("POST", PLACE, BODY).status == 503


def test_coordinators_are_asked_again_where_they_have_moved_to(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ground, "shop", 0)
    write(ground, 1, HUNG)
    _, doors, _ = coordinator(ground, "shop")
    real, asked = doors.transactions.list_whole, []

    def list_whole(make_event: Any, on_done: Any) -> None:
        asked.append(True)
        if len(asked) == 1:
            on_done([], [])
        else:
            real(make_event, on_done)

    monkeypatch.setattr(doors.transactions, "list_whole", list_whole)
    assert is_hanging(ground) == [True]
    assert len(asked) == 2
    assert ground.ask("POST", PLACE, BODY).status == 200
    assert not is_open(ground)


def test_a_coordinator_that_is_silent_is_waited_for_once(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ground, "shop", 0)
    write(ground, 1, HUNG)
    name, doors, _ = coordinator(ground, "shop")
    other = next(each for each in ("b1", "b2", "b3") if each != name)
    asked: list[object] = []
    monkeypatch.setattr(doors.transactions, "list_whole", lambda *words: asked.append(words))
    assert is_hanging(ground, other) == [None]
    assert len(asked) == 1


def test_an_earlier_release_proves_nothing(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not say what its answers cover."""
    write(ground, 1, HUNG)
    begin(ground, "shop", 0)
    decode = msgspec.msgpack.decode

    def read(data: Any, **words: Any) -> Any:
        found = decode(data, **words)
        is_listed = isinstance(found, TransactionsAnswer)
        return msgspec.structs.replace(found, covers=[]) if is_listed else found

    monkeypatch.setattr("kafkaesque.admin.api.fan_out.msgspec.msgpack.decode", read)
    assert is_hanging(ground) == [None]


@pytest.mark.parametrize(
    ("meanwhile", "status"),
    [(lambda ground: write(ground, 1, HUNG, sequence=1), 503), (end, 404)],
    ids=["written", "ended"],
)
def test_what_is_no_longer_so_when_coordinators_have_answered(
    ground: ApiGround,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[ApiGround], None],
    status: int,
) -> None:
    begin(ground, "shop", 0)
    write(ground, 1, HUNG)
    late = Late(monkeypatch, Look, "_look_again")
    assert late.ask(ground, lambda: meanwhile(ground)).status == status


def test_what_is_written_before_the_marker_is_not_aborted(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator may know of it, though it has known of nothing when it was asked."""
    begin(ground, "shop", 0)
    write(ground, 1, HUNG)
    with monkeypatch.context() as patch:
        late = Late(patch, FanOut, "ask_change")
        told = late.ask(ground, lambda: write(ground, 1, HUNG, sequence=1))
    assert (told.status, told.json["error"]) == (409, "Busy")
    assert is_open(ground)
    assert ground.ask("POST", PLACE, BODY).status == 200
    assert not is_open(ground)


def test_what_has_ended_before_the_marker_is_said_to_have(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ground, "shop", 0)
    write(ground, 1, HUNG)
    told = Late(monkeypatch, FanOut, "ask_change").ask(ground, lambda: end(ground))
    assert (told.status, told.json["error"]) == (409, "NoTransaction")


# -- who has not answered


def test_what_a_silent_leader_may_have_open_is_not_said_to_be_absent() -> None:
    ground = ApiGround(45, serving=("b1", "b2"))
    ground.create("orders", 3)
    wheres = [TopicPartition("orders", each) for each in range(3)]
    (silent,) = [each for each in wheres if leader(ground, each)[0] == "b3"]
    place = PLACE.replace("/1/", f"/{silent.partition}/")
    told = ground.ask("POST", place, BODY)
    assert told.status == 503
    assert "does not serve the admin API" in told.json["message"]
    other = next(each for each in wheres if each != silent)
    assert ground.ask("POST", PLACE.replace("/1/", f"/{other.partition}/"), BODY).status == 404


def test_who_leads_no_longer_does_not_say_what_is_absent(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, _ = leader(ground, TopicPartition("orders", 1))
    other = next(each for each in ("b1", "b2", "b3") if each != name)
    monkeypatch.setattr(Context, "leader", lambda *_: NodeId(int(other[1])))
    told = ground.ask("POST", PLACE, BODY)
    assert (told.status, "does not lead orders-1" in told.json["message"]) == (503, True)


def test_what_was_left_out_is_not_said_to_be_absent(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ground, 1, HUNG)
    write(ground, 1, HUNG + 1)
    for module in (coordinator_action_part, hanging):
        monkeypatch.setattr(module, "OPEN_MAX", 1)
    seen = ground.get("/open-transactions")
    assert len(seen["items"]) == 1
    missing = [each["missing"] for each in seen["sources"] if each["missing"]]
    assert len(missing) == 1
    assert "knows of more than 1 open transactions" in missing[0]
    left_out = {"start_offset": 1 - seen["items"][0]["start_offset"]}
    told = ground.ask("POST", PLACE, left_out)
    assert (told.status, "more than 1 open" in told.json["message"]) == (503, True)


# -- who hears of it


def test_an_id_is_not_named_to_who_may_not_see_it(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_transaction(ground)
    assert "shop" in ground.ask("POST", PLACE, BODY).json["message"]

    def could(self: Any, operation: Operation, kind: ResourceType, name: str) -> bool:
        return kind is not ResourceType.TRANSACTIONAL_ID

    monkeypatch.setattr(Call, "could", could)
    told = ground.ask("POST", PLACE, BODY)
    assert (told.status, told.json["error"]) == (409, "NotHanging")
    assert "shop" not in told.json["message"]


@pytest.mark.parametrize("is_late", [False, True], ids=["done", "unknown"])
def test_the_audit_log_is_told_of_what_was_aborted(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    begin(ground, "shop", 0)
    write(ground, 1, HUNG)
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    assert ground.ask("POST", PLACE, BODY, dry_run="true").status == 200
    assert noted == []
    if is_late:
        real = Partition._answer_later

        def never(self: Partition, *words: Any) -> None:
            if self.state.topic != "orders":
                real(self, *words)

        monkeypatch.setattr(Partition, "_answer_later", never)
    told = ground.ask("POST", PLACE, BODY)
    assert told.status == (504 if is_late else 200), told
    (event,) = noted
    assert (event.operation, event.resource) == ("abort-transaction", "orders")
    assert event.outcome == ("unknown" if is_late else "done")
    assert event.detail == {"1": f"1: producer {HUNG}, from 0"}
