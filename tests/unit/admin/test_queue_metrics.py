"""What `/metrics` says of queues, on simulated brokers."""

from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkaesque.admin import metric_table
from kafkaesque.broker.requests.queue_requests import (
    ClaimsResult,
    QueueMessage,
    ReleaseMessages,
    SettleMessages,
    TakeMessages,
    TakenMessages,
)
from tests.unit.admin.api_ground import ApiGround

Values = Mapping[tuple[str, str], float]
NAMES = ("b1", "b2", "b3")


def read(ground: ApiGround, host: str, query: str = "") -> Values:
    """Return values by name and by what the last label says."""
    told = ground.browser(host).ask("GET", f"/metrics{query}")
    assert told.status == 200, told.body
    return {
        (sample.name.removeprefix("kafkaesque_"), ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(told.body.decode())
        for sample in family.samples
        if "queue" in sample.name
    }


def leader_of(ground: ApiGround, queue: str) -> str:
    (state,) = list(ground.cluster.brokers["b1"].doors.queues.all())
    assert state.queue.name == queue
    leader = ground.cluster.brokers["b1"].doors.cluster.leaders.leader(state.partitions[0].group)
    return f"b{leader}"


def take(ground: ApiGround, count: int) -> list[QueueMessage]:
    taken = ground.ask_queue(
        "mails", TakeMessages, TakenMessages, messages_max=count, bytes_max=1 << 20
    )
    return taken.messages


def test_a_queue_is_counted_by_its_leader_and_by_nobody_else() -> None:
    ground = ApiGround()
    ground.create_queue("mails", delivery_limit="1")
    ground.put("mails", "a", "b", "c", "d")
    first, second, _ = take(ground, 3)
    ground.ask_queue("mails", SettleMessages, ClaimsResult, claims=[first.claim])
    ground.ask_queue("mails", ReleaseMessages, ClaimsResult, claims=[second.claim], is_failed=True)
    leader = leader_of(ground, "mails")
    ground.world.loop.run_for(5_000)
    found = read(ground, leader)
    one = "/,mails,0"
    assert found["queues", ""] == found["queues_led", ""] == 1
    assert found["queues_leaderless", ""] == 0
    for place, count in (("ready", 1), ("in-flight", 1), ("parked", 1), ("delayed", 0)):
        assert found["queues_messages", place] == count
    assert found["queues_arrived_total", ""] == found["queue_arrived_total", one] == 4
    assert (found["queues_attempts_total", ""], found["queues_redeliveries_total", ""]) == (3, 0)
    assert found["queues_settled_total", ""] == 1
    assert found["queue_removed_total", f"{one},settled"] == 1
    assert found["queues_parked_total", "attempts"] == 1
    assert found["queues_dead_letters_total", "attempts"] == 0
    assert found["queue_ready_messages", one] == found["queue_parked_messages", one] == 1
    assert 4 < found["queue_oldest_seconds", one] < 10
    assert 4 < found["queue_unwanted_seconds", one] < 10
    assert found["queue_head_failures", one] == 1
    assert found["queue_log_bytes", one] == found["queues_log_bytes", ""] > 0
    assert found["queue_log_holder", f"{one},snapshot"] == 1, "the newest snapshot is older"
    for other in {*NAMES} - {leader}:
        found = read(ground, other, "?queue=mails")
        assert found["queues", ""] == 1
        assert found["queues_led", ""] == found["queues_messages", "ready"] == 0
        assert not [name for name, _ in found if name.startswith("one_queue")]


def test_a_queue_without_messages_is_shown_on_request() -> None:
    ground = ApiGround()
    ground.create_queue("mails")
    leader = leader_of(ground, "mails")
    assert ("queue_ready_messages", "/,mails,0") not in read(ground, leader)
    found = read(ground, leader, "?queue=mails&queue=nobody")
    assert found["queue_ready_messages", "/,mails,0"] == 0
    assert found["queue_log_holder", "/,mails,0,snapshot"] == 1
    names = "&".join(f"queue=q{number}" for number in range(metric_table.QUEUES_ASKED_MAX + 1))
    assert ground.browser(leader).ask("GET", f"/metrics?{names}").status == 400


def test_a_message_that_stays_holds_the_log() -> None:
    ground = ApiGround()
    ground.create_queue("mails")
    for _ in range(90):
        ground.put("mails", "x" * 100_000)
    found = read(ground, leader_of(ground, "mails"))
    assert found["queue_log_holder", "/,mails,0,message"] == 1
    assert found["queue_log_bytes", "/,mails,0"] > 9_000_000


def test_only_so_many_queues_have_numbers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaesque.admin.census.QUEUES_MAX", 1)
    ground = ApiGround()
    for name in ("young", "old", "middle"):
        ground.create_queue(name)
    for name in ("old", "middle", "young"):
        ground.put(name, "a")
        ground.world.loop.run_for(3_000)
    for host in NAMES:
        found = read(ground, host)
        shown = [labels for name, labels in found if name == "queue_ready_messages"]
        assert len(shown) == min(1, int(found["queues_messages", "ready"]))
        assert found["queues_messages", "ready"] < 3 or shown == ["/,old,0"]


def test_a_transient_queue_is_memory_and_no_log() -> None:
    ground = ApiGround()
    ground.create_queue("mails", transient="true")
    ground.put("mails", "a" * 10_000)
    (home,) = (each for each in NAMES if read(ground, each)["queues_memory_bytes", ""])
    found = read(ground, home)
    assert 10_000 < found["queues_memory_bytes", ""] < 12_000
    assert found["queues_log_bytes", ""] == found["queues_leaderless", ""] == 0
    assert found["queues_led", ""] == found["queues_messages", "ready"] == 1
    (taken,) = take(ground, 1)
    ground.ask_queue("mails", SettleMessages, ClaimsResult, claims=[taken.claim])
    assert read(ground, home)["queues_memory_bytes", ""] == 0
