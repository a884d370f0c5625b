"""Causes while brokers that know of them hang, or networks are slow: in time, and never certain."""

from __future__ import annotations

from random import Random

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafkaesque.model.counted import counted
from kafkaesque.model.ids import TopicPartition
from tests.sim.causes.ground import NAMES, CauseGround
from tests.sim.causes.logs import fill, of_record, others, record_case
from tests.sim.causes.messages import of_message
from tests.sim.causes.readers import asked, joined
from tests.sim.causes.table import HEALTHY, Case, injects
from tests.unit.admin.test_why import begin_transaction


def leader_of(ground: CauseGround, where: TopicPartition) -> str:
    """Return who leads a partition."""
    return ground.leader(where.topic, where.partition)[0]


def hang(ground: CauseGround, name: str, random: Random) -> tuple[str, ...]:
    """Stop a broker's process for a moment; return the others."""
    ground.wait(1_000)
    ground.world.machines[name].pause()
    ground.wait(random.randrange(1, 300))
    return others(name)


@injects("no leader", is_rough=True)
def of_a_group_whose_coordinator_hangs(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    fill(ground, topic, random)
    member = joined(ground, topic, random)
    where = ground.cluster.brokers["b1"].doors.groups.find(member.group)
    assert where.topic == OFFSETS_TOPIC
    hosts = hang(ground, leader_of(ground, where), random)
    path = f"groups/{member.group}"
    return Case(cause="coordinator", path=path, query={}, hosts=hosts, is_doubtful=True)


@injects("no leader", is_rough=True)
def of_a_transaction_whose_coordinator_hangs(ground: CauseGround, random: Random) -> Case:
    topic, name = ground.topic("paid"), ground.name("shop")
    begun = begin_transaction(ground, topic, name)
    where = ground.cluster.brokers["b1"].doors.transactions.find(name)
    assert where.topic == TRANSACTIONS_TOPIC
    hosts = hang(ground, leader_of(ground, where), random)
    path = f"producers/{random.choice([name, str(begun.producer_id)])}"
    return Case(cause="known|coordinator", path=path, query={}, hosts=hosts, is_doubtful=True)


@injects("no leader", is_rough=True)
def of_a_queue_that_hangs(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("work")
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    node = ground.cluster.brokers["b1"].leaders.leader(queue.partitions[0].group)
    hosts = hang(ground, f"b{node}", random)
    return of_message("leader", queue, offset, str(node), hosts=hosts, is_doubtful=True)


@injects("no leader", is_rough=True)
def of_a_queue_at_a_broker_that_is_cut_off(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("work")
    (offset,) = ground.send(queue, NewMessage(value=b"a"))
    ground.wait(1_000)
    alone = random.choice(NAMES)
    ground.isolate(alone)
    ground.wait(random.choice([50, 2_000, 10_000]))
    return of_message("leader|cut-off", queue, offset + 1, hosts=(alone,), is_doubtful=True)


@injects("no leader", is_rough=True)
def of_a_group_at_a_broker_that_is_cut_off(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    member = joined(ground, topic, random)
    ground.wait(1_000)
    alone = random.choice(NAMES)
    ground.isolate(alone)
    ground.wait(random.choice([50, 2_000, 10_000]))
    path, query = asked(member, topic, last, random)
    cause = "coordinator|leader|cut-off"
    return Case(cause=cause, path=path, query=query, hosts=(alone,), is_doubtful=True)


@injects("stuck transaction", is_rough=True)
def while_another_broker_hangs(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("paid")
    before = fill(ground, topic, random)
    begin_transaction(ground, topic, ground.name("shop"))
    leader, _ = ground.leader(topic)
    controller = ground.cluster.controller
    hosts = hang(ground, random.choice([e for e in NAMES if e not in (leader, controller)]), random)
    return record_case("transaction", topic, before + 1, hosts=hosts)


@injects("stuck transaction", is_rough=True)
def while_the_controller_hangs(ground: CauseGround, random: Random) -> Case:
    for _ in range(20):
        topic = ground.topic("paid")
        if ground.leader(topic)[0] != ground.cluster.controller:
            break
    before = fill(ground, topic, random)
    begin_transaction(ground, topic, ground.name("shop"))
    controller = ground.cluster.controller
    assert controller is not None
    hosts = hang(ground, controller, random)
    return record_case("transaction|cut-off", topic, before + 1, hosts=hosts, is_doubtful=True)


def slow(ground: CauseGround, ms: float) -> None:
    """Have everything between brokers take longer, each way."""
    for one in NAMES:
        for other in NAMES:
            if one != other:
                ground.world.wire.link(one, other).extra_ms = ms
    ground.wait(3_000)


@injects("lagging consumer", is_rough=True)
def in_a_slow_network(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    member = joined(ground, topic, random)
    slow(ground, random.choice([5.0, 20.0, 50.0]))
    path, query = asked(member, topic, last, random)
    return Case(cause="lag", path=path, query=query, says=f"{counted(last + 1, 'message')} behind")


@injects(HEALTHY, is_rough=True)
def a_record_in_a_slow_network(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("plain")
    offset = fill(ground, topic, random)
    slow(ground, random.choice([5.0, 20.0, 60.0]))
    path, query = of_record(topic, offset)
    return Case(cause="", path=path, query=query)
