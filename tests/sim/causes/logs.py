"""Causes at logs: leaders, replicas, disks, transactions, retention, compaction."""

from __future__ import annotations

from random import Random
from typing import Any

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.end_txn_request import EndTxnRequest
from tests.sim.causes.ground import NAMES, CauseGround
from tests.sim.causes.table import HEALTHY, Case, injects
from tests.unit.admin.api_ground import text
from tests.unit.admin.test_why import ROOM_BYTES, begin_transaction


def of_record(topic: str, offset: int, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return the question about a record of a first partition."""
    return f"topics/{topic}/partitions/0", {"offset": offset, **more}


def record_case(cause: str, topic: str, offset: int, says: str = "", **more: Any) -> Case:
    """Return a case about a record of a first partition."""
    path, query = of_record(topic, offset)
    return Case(cause=cause, path=path, query=query, says=says, **more)


def fill(ground: CauseGround, topic: str, random: Random) -> int:
    """Append some records; return the offset of the last."""
    return max(ground.publish(topic, 0, text("a")) for _ in range(random.randrange(1, 5)))


def others(*names: str) -> tuple[str, ...]:
    """Return the other brokers."""
    return tuple(each for each in NAMES if each not in names)


def until_unled(ground: CauseGround, topic: str, at: str = "b1") -> None:
    """Wait until a broker knows that nobody leads."""
    broker = ground.cluster.brokers[at]
    group = broker.state.topic(topic).partitions[0].group
    ground.run_until(lambda: broker.leaders.leader(group) is None)


# -- nothing


@injects(HEALTHY)
def a_record_that_is_there(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("plain")
    return record_case("", topic, random.randrange(fill(ground, topic, random) + 1))


@injects(HEALTHY, is_rough=True)
def a_record_while_another_broker_is_down(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("plain")
    offset = fill(ground, topic, random)
    leader, _ = ground.leader(topic)
    victim = random.choice(others(leader, "b1"))
    ground.kill(victim)
    ground.wait(random.randrange(3_000))
    return record_case("", topic, offset, hosts=others(victim))


# -- no leader


@injects("no leader", is_rough=True)
def the_only_replica_is_killed(ground: CauseGround, random: Random) -> Case:
    topic, leader = ground.solo(random)
    offset = fill(ground, topic, random)
    ground.kill(leader)
    until_unled(ground, topic)
    ground.wait(1_000 + random.randrange(20_000))
    return record_case("leader", topic, offset, leader[1:], hosts=others(leader))


@injects("no leader", is_rough=True)
def the_only_replica_was_killed_a_moment_ago(ground: CauseGround, random: Random) -> Case:
    topic, leader = ground.solo(random)
    offset = fill(ground, topic, random)
    ground.wait(1_000)
    ground.world.machines[leader].kill()
    ground.wait(random.randrange(1, 400))
    return record_case("leader", topic, offset, leader[1:], hosts=others(leader))


@injects("no leader", is_rough=True)
def the_only_replica_hangs(ground: CauseGround, random: Random) -> Case:
    topic, leader = ground.solo(random)
    offset = fill(ground, topic, random)
    ground.wait(1_000)
    ground.world.machines[leader].pause()
    ground.wait(random.randrange(1, 300))
    return record_case("leader", topic, offset, leader[1:], hosts=others(leader), is_doubtful=True)


@injects("no leader", is_rough=True)
def the_majority_is_killed(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("plain")
    offset = fill(ground, topic, random)
    ground.wait(1_000)
    left = random.choice(NAMES)
    for name in others(left):
        ground.world.machines[name].kill()
    ground.wait(random.randrange(2_000, 20_000))
    # From here, a majority that is dead looks like one that is cut off.
    return record_case("leader|cut-off", topic, offset, hosts=(left,), is_doubtful=True)


@injects("no leader", is_rough=True)
def the_asked_broker_is_cut_off(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("plain")
    offset = fill(ground, topic, random)
    ground.wait(1_000)
    alone = random.choice(NAMES)
    ground.isolate(alone)
    ground.wait(random.choice([50, 400, 2_000, 10_000]))
    # The others lead it, and write on.
    return record_case("leader|cut-off", topic, offset + 1, hosts=(alone,), is_doubtful=True)


@injects("no leader", is_rough=True)
def the_leader_is_cut_off_and_asked_elsewhere(ground: CauseGround, random: Random) -> Case:
    topic, leader = ground.solo(random)
    offset = fill(ground, topic, random)
    ground.wait(1_000)
    ground.isolate(leader)
    waited_ms = random.choice([50, 400, 2_000, 10_000])
    ground.wait(waited_ms)
    # Only later it is given up.
    is_doubtful, hosts = waited_ms < 1_000, others(leader)
    return record_case("leader", topic, offset, leader[1:], hosts=hosts, is_doubtful=is_doubtful)


@injects("no leader", is_rough=True)
def of_a_queue(ground: CauseGround, random: Random) -> Case:
    queue, node = ground.queue_of_one("work")
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    ground.kill(f"b{node}")
    broker = ground.cluster.brokers["b1"]
    ground.run_until(lambda: broker.leaders.leader(queue.partitions[0].group) is None)
    ground.wait(1_000 + random.randrange(5_000))
    return Case(
        cause="leader",
        path=f"queues/{queue.queue.name}",
        query={"message": offset},
        hosts=others(f"b{node}"),
        says=str(node),
    )


@injects("no leader", is_rough=True)
def of_a_partition_whose_transaction_ends(ground: CauseGround, random: Random) -> Case:
    topic, leader = ground.solo(random)
    name = ground.name("shop")
    begun = begin_transaction(ground, topic, name)
    ground.kill(leader)
    until_unled(ground, topic)
    alive = others(leader)

    def end(host: str) -> Any:
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            committed=True,
        )
        return ground.kafka(host).ask(ApiKey.END_TXN, 2, request).error_code

    for _ in range(50):
        if any(end(host) == 0 for host in alive):
            break
        ground.wait(200)
    else:
        raise AssertionError("nobody ends it")
    ground.wait(500)
    asked = random.choice([name, str(begun.producer_id)])
    return Case(cause="leader", path=f"producers/{asked}", query={}, hosts=alive, says=topic)


# -- what was aborted


@injects("stuck transaction")
def that_was_aborted(ground: CauseGround, random: Random) -> Case:
    topic, name = ground.topic("paid"), ground.name("shop")
    before = fill(ground, topic, random)
    begun = begin_transaction(ground, topic, name)
    request = EndTxnRequest(
        transactional_id=name,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        committed=False,
    )
    peers = ground.kafka_everywhere()
    ground.run_until(
        lambda: any(peer.ask(ApiKey.END_TXN, 2, request).error_code == 0 for peer in peers)
    )
    where = TopicPartition(topic, 0)
    ground.run_until(
        lambda: ground.leader(topic)[1].partitions.find(where).last_stable_offset > before + 1
    )
    return record_case("aborted", topic, before + 1, "aborted")


# -- min ISR


@injects("min ISR", is_rough=True)
def a_follower_is_killed(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("strict", min_insync_replicas="3")
    offset = fill(ground, topic, random)
    victim = random.choice(["b2", "b3"])
    ground.kill(victim)
    ground.run_until(lambda: ground.in_sync(topic) < 3)
    ground.wait(1_500)
    return record_case("min-insync", topic, offset + 1, victim[1:], hosts=others(victim))


@injects("min ISR", is_rough=True)
def a_follower_is_cut_off(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("strict", min_insync_replicas="3")
    offset = fill(ground, topic, random)
    leader, _ = ground.leader(topic)
    victim = random.choice(others(leader))
    ground.isolate(victim)
    ground.run_until(lambda: ground.in_sync(topic) < 3)
    ground.wait(1_500)
    return record_case("min-insync", topic, offset + 1, victim[1:], hosts=others(victim))


@injects("min ISR", is_rough=True)
def a_follower_hangs(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("strict", min_insync_replicas="3")
    offset = fill(ground, topic, random)
    leader, _ = ground.leader(topic)
    victim = random.choice(others(leader))
    ground.world.machines[victim].pause()
    ground.run_until(lambda: ground.in_sync(topic) < 3)
    ground.wait(1_500)
    return record_case("min-insync", topic, offset + 1, victim[1:], hosts=others(victim))


# -- full disk


def full(ground: CauseGround, name: str) -> None:
    """Fill a broker's disk; it notices at its next start."""
    machine = ground.world.machines[name]
    ground.kill(name)
    machine.drive.faults.capacity_bytes = machine.drive.used_bytes() + ROOM_BYTES
    ground.cluster.boot(machine)

    def is_full() -> bool:
        broker = ground.cluster.brokers.get(name)
        return broker is not None and broker.life.is_ready and broker.store.refusal is not None

    ground.run_until(is_full)
    ground.serve(name)


@injects("full disk", is_rough=True)
def at_the_leader(ground: CauseGround, random: Random) -> Case:
    topic, leader = ground.solo(random)
    offset = fill(ground, topic, random)
    full(ground, leader)
    ground.leader(topic)
    ground.wait(1_500)
    return record_case("disk", topic, offset + 1 + random.randrange(3), leader[1:])


@injects("full disk", is_rough=True)
def at_the_leader_of_a_queue(ground: CauseGround, random: Random) -> Case:
    queue, node = ground.queue_of_one("work")
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    full(ground, f"b{node}")
    leaders = ground.cluster.brokers["b1"].leaders
    ground.run_until(lambda: leaders.leader(queue.partitions[0].group) is not None)
    ground.wait(1_500)
    return Case(
        cause="disk",
        path=f"queues/{queue.queue.name}",
        query={"message": offset + 1},
        says=str(node),
    )


@injects("full disk", is_rough=True)
def at_a_follower_that_is_needed(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("strict", min_insync_replicas="3")
    offset = fill(ground, topic, random)
    victim = random.choice(["b2", "b3"])
    machine = ground.world.machines[victim]
    ground.kill(victim)
    machine.drive.faults.capacity_bytes = machine.drive.used_bytes() + ROOM_BYTES
    ground.cluster.boot(machine)
    ground.run_until(lambda: victim in ground.cluster.brokers, 20_000)
    ground.wait(8_000)
    ground.serve(victim)
    assert ground.cluster.brokers[victim].store.refusal is not None
    # Somebody writes: the follower cannot take it, and falls behind.
    ground.begin_publishing(topic)
    ground.run_until(lambda: ground.in_sync(topic) < 3)
    ground.wait(1_500)
    return record_case("min-insync", topic, offset + 2, victim[1:])


# -- stuck transactions


@injects("stuck transaction")
def before_a_record(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("paid")
    before = fill(ground, topic, random)
    begun = begin_transaction(ground, topic, ground.name("shop"))
    for _ in range(random.randrange(3)):
        ground.publish(topic, 0, text("after"))
    ground.wait(random.randrange(20_000))
    return record_case("transaction", topic, before + 1, f"producer {begun.producer_id}")


@injects("stuck transaction")
def of_a_producer(ground: CauseGround, random: Random) -> Case:
    topic, name = ground.topic("paid"), ground.name("shop")
    begun = begin_transaction(ground, topic, name)
    ground.wait(random.randrange(20_000))
    asked = random.choice([name, str(begun.producer_id)])
    return Case(cause="transaction", path=f"producers/{asked}", query={}, says=topic)


@injects("stuck transaction", is_rough=True)
def whose_coordinator_moves(ground: CauseGround, random: Random) -> Case:
    topic, name = ground.topic("paid"), ground.name("shop")
    begin_transaction(ground, topic, name)
    victim = random.choice(["b2", "b3"])
    ground.kill(victim)
    ground.wait(8_000)
    return Case(
        cause="transaction", path=f"producers/{name}", query={}, hosts=others(victim), says=topic
    )


# -- retention


@injects("retention")
def records_are_deleted(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("old")
    end = fill(ground, topic, random) + 1
    ground.delete_before(topic, end)
    return record_case("retained", topic, random.randrange(end), f"begins at {end}")


def until_begun(ground: CauseGround, topic: str, least: int) -> int:
    """Wait until a log begins later; return where."""
    where = TopicPartition(topic, 0)
    ground.run_until(
        lambda: ground.leader(topic)[1].partitions.find(where).log_start_offset >= least, 120_000
    )
    return int(ground.leader(topic)[1].partitions.find(where).log_start_offset)


@injects("retention")
def records_are_too_many(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("bounded", retention_bytes="20000")
    for _ in range(12):
        ground.publish(topic, 0, text(b"x" * 4_000))
    start = until_begun(ground, topic, 1)
    return record_case("retained", topic, random.randrange(start), "retention.bytes=20000")


@injects("retention")
def records_are_too_old(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("aged", retention_ms="60000")
    at_ms = ground.wall_ms() - 3_600_000
    for _ in range(6):
        ground.publish(topic, 0, text(b"x" * 4_000, at_ms=at_ms))
    start = until_begun(ground, topic, 1)
    return record_case("retained", topic, random.randrange(start), "retention.ms=60000")


@injects("retention")
def a_message_has_outlived_its_time(ground: CauseGround, random: Random) -> Case:
    lives_ms = random.randrange(500, 3_000)
    queue = ground.queue("brief", message_ttl_ms=str(lives_ms))
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    ground.run_until(lambda: not ground.peeked(queue))
    return Case(
        cause="expired",
        # The offset may be that of another entry of the log.
        is_doubtful=True,
        path=f"queues/{queue.queue.name}",
        query={"message": offset},
    )


@injects("retention")
def a_queue_is_full_and_drops_its_head(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("short", max_length="2")
    first, *_ = ground.send(queue, *(NewMessage(value=b"a") for _ in range(4)))
    ground.run_until(lambda: len(ground.peeked(queue)) == 2)
    return Case(
        cause="dropped",
        is_doubtful=True,
        path=f"queues/{queue.queue.name}",
        query={"message": first + random.randrange(2)},
    )


# -- compaction


@injects("compaction")
def a_key_has_a_newer_value(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("table", cleanup_policy="compact")
    first = ground.publish(topic, 0, text(b"a" * 500, b"key"))
    for number in range(40):
        ground.publish(topic, 0, text(b"x" * 800, b"key%d" % (number % 3)))
    ground.publish(topic, 0, text(b"b", b"key"))
    for number in range(40):
        ground.publish(topic, 0, text(b"x" * 800, b"key%d" % (number % 3)))
    log = ground.leader(topic)[1].partitions.find(TopicPartition(topic, 0)).log
    ground.run_until(lambda: log.clean_state.end_offset > first + 45, 120_000)
    return record_case("compacted", topic, first + random.randrange(8), "compact")


@injects("compaction")
def a_key_was_deleted(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("table", cleanup_policy="compact")
    first = ground.publish(topic, 0, text(b"a" * 500, b"key"))
    ground.publish(topic, 0, Record(0, ground.wall_ms(), b"key", None))
    for number in range(80):
        ground.publish(topic, 0, text(b"x" * 800, b"key%d" % (number % 3)))
    log = ground.leader(topic)[1].partitions.find(TopicPartition(topic, 0)).log
    ground.run_until(lambda: log.clean_state.end_offset > first + 10, 120_000)
    return record_case("compacted", topic, first, "compact")


@injects("compaction")
def all_but_the_end_of_a_log(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("table", cleanup_policy="compact,delete")
    for _ in range(60):
        ground.publish(topic, 0, text(b"x" * 800, b"key"))
    log = ground.leader(topic)[1].partitions.find(TopicPartition(topic, 0)).log
    ground.run_until(lambda: log.clean_state.end_offset > 20, 120_000)
    return record_case("compacted", topic, random.randrange(10), "compact")
