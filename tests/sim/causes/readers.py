"""Causes at readers of topics: groups, quotas, rights."""

from __future__ import annotations

from random import Random
from typing import Any

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.rules import Effect, Rule
from kafkaesque.broker.requests.access_commands import AddRules
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.counted import counted
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from kafkaesque.protocols.kafka.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    write_consumer_protocol_assignment_v0,
)
from kafkaesque.protocols.kafka.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedPartitions,
)
from kafkaesque.protocols.kafka.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    write_consumer_protocol_subscription_v0,
)
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.protocols.kafka.messages.sync_group_request import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.sim.causes.ground import NAMES, CauseGround, KafkaPeer
from tests.sim.causes.logs import fill, of_record, others, until_unled
from tests.sim.causes.table import HEALTHY, Case, injects
from tests.unit.admin.api_ground import text
from tests.unit.admin.test_why import begin_transaction

SESSION_MS = 300_000
LATE = (-1, 15, 16, 14)


class Member:
    """A member of a group, over Kafka's protocol."""

    def __init__(self, ground: CauseGround, group: str, topic: str, *, is_classic: bool) -> None:
        self.ground, self.group, self.topic = ground, group, topic
        self.is_classic = is_classic
        self.id = "" if is_classic else ground.name("member")
        self.epoch = 0
        self.peers: list[KafkaPeer] = ground.kafka_everywhere()

    def coordinator(self, api_key: int, version: int, message: Any) -> Any:
        """Ask whoever coordinates."""
        for _ in range(200):
            for peer in self.peers:
                answer = peer.ask(api_key, version, message)
                if answer.error_code not in LATE:
                    return answer
            self.ground.wait(100)
        raise AssertionError("nobody coordinates")

    def beat(self) -> Any:
        """Join, or go on: KIP-848."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=[] if self.epoch == 0 else None,
        )
        answer = self.coordinator(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, request)
        assert answer.error_code == 0, answer.error_code
        self.epoch = answer.member_epoch
        return answer

    def subscription(self) -> bytes:
        """Return what a classic member says at its joining."""
        parts: list[Any] = [b"\0\0"]
        write_consumer_protocol_subscription_v0(
            ConsumerProtocolSubscription(topics=[self.topic]), parts
        )
        return b"".join(map(bytes, parts))

    def join_request(self) -> JoinGroupRequest:
        """Return the request of a classic member."""
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", self.subscription())],
        )

    def join_classic(self, partitions: list[int]) -> None:
        """Join as the only member, and take partitions."""
        answer = self.coordinator(ApiKey.JOIN_GROUP, 4, self.join_request())
        if answer.error_code == 79:
            self.id = answer.member_id
            answer = self.coordinator(ApiKey.JOIN_GROUP, 4, self.join_request())
        assert answer.error_code == 0, answer.error_code
        self.id = answer.member_id
        parts: list[Any] = [b"\0\0"]
        given = ConsumerProtocolAssignment([AssignedPartitions(self.topic, partitions)], None)
        write_consumer_protocol_assignment_v0(given, parts)
        assignment = SyncGroupRequestAssignment(self.id, b"".join(map(bytes, parts)))
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=answer.generation_id,
            member_id=self.id,
            assignments=[assignment],
        )
        assert self.coordinator(ApiKey.SYNC_GROUP, 3, request).error_code == 0

    def begin_joining(self) -> None:
        """Join a classic group, and wait for nothing."""
        for peer in self.peers:
            answer: list[Any] = []
            peer.link.send(ApiKey.JOIN_GROUP, 3, self.join_request(), answer.append)
            self.ground.wait(300)
            if not answer:
                return
        raise AssertionError("everybody has answered")


def joined(ground: CauseGround, topic: str, random: Random) -> Member:
    """Return a member of a new group of either kind that has a topic's only partition."""
    member = Member(ground, ground.name("billing"), topic, is_classic=random.random() < 0.5)
    if member.is_classic:
        member.join_classic([0])
    else:
        member.beat()
        member.beat()
    return member


def asked(member: Member, topic: str, offset: int, random: Random) -> tuple[str, dict[str, Any]]:
    """Return a question about a group, or about a record for a group."""
    if random.random() < 0.5:
        return f"groups/{member.group}", {}
    return of_record(topic, offset, group=member.group)


# -- nothing


@injects(HEALTHY)
def a_group_has_nothing_to_read(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("idle")
    member = joined(ground, topic, random)
    return Case(cause="", path=f"groups/{member.group}", query={})


# -- lag


@injects("lagging consumer")
def a_member_reads_nothing(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    member = joined(ground, topic, random)
    path, query = asked(member, topic, last, random)
    return Case(cause="lag", path=path, query=query, says=f"{counted(last + 1, 'message')} behind")


@injects("lagging consumer")
def nobody_is_left(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    member = Member(ground, ground.name("billing"), topic, is_classic=False)
    member.beat()
    other = Member(ground, member.group, topic, is_classic=False)
    other.beat()
    for each in (member, other):
        each.epoch = -1
        each.beat()
    path, query = asked(member, topic, last, random)
    return Case(cause="members|group", path=path, query=query, says=member.group)


@injects("lagging consumer")
def nobody_has_ever_come(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    fill(ground, topic, random)
    return Case(cause="group", path=f"groups/{ground.name('none')}", query={})


@injects("no leader", is_rough=True)
def of_what_a_group_reads(ground: CauseGround, random: Random) -> Case:
    topic, leader = ground.solo(random)
    fill(ground, topic, random)
    member = joined(ground, topic, random)
    ground.kill(leader)
    until_unled(ground, topic)
    ground.wait(8_000)
    return Case(
        cause="leader",
        path=f"groups/{member.group}",
        query={},
        hosts=others(leader),
        says=topic,
    )


@injects("no leader", is_rough=True)
def of_the_groups_own_log(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    member = joined(ground, topic, random)
    left = random.choice(NAMES)
    for name in others(left):
        ground.world.machines[name].kill()
    ground.wait(random.randrange(2_000, 10_000))
    path, query = asked(member, topic, last, random)
    # From here, a majority that is dead looks like one that is cut off.
    cause = "coordinator|leader|cut-off"
    return Case(cause=cause, path=path, query=query, hosts=(left,), is_doubtful=True)


# -- rebalances


@injects("rebalance that waits")
def for_a_member_that_keeps_what_it_has(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders", partitions=3)
    last = fill(ground, topic, random)
    first = Member(ground, ground.name("billing"), topic, is_classic=False)
    first.beat()
    first.beat()
    second = Member(ground, first.group, topic, is_classic=False)
    second.beat()
    ground.wait(random.randrange(5_000))
    path, query = asked(first, topic, last, random)
    return Case(cause="rebalance", path=path, query=query, says=first.group)


@injects("rebalance that waits")
def for_a_member_that_does_not_join_again(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    first = Member(ground, ground.name("billing"), topic, is_classic=True)
    first.join_classic([0])
    Member(ground, first.group, topic, is_classic=True).begin_joining()
    ground.wait(random.randrange(5_000))
    path, query = asked(first, topic, last, random)
    return Case(cause="rebalance", path=path, query=query, says=first.group)


# -- transactions


@injects("stuck transaction")
def before_a_group(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("paid")
    begun = begin_transaction(ground, topic, ground.name("shop"))
    member = joined(ground, topic, random)
    path, query = asked(member, topic, 0, random)
    says = f"producer {begun.producer_id}"
    return Case(cause="transaction", path=path, query=query, says=says)


# -- quotas


def client_quota(ground: CauseGround, name: str, value: float) -> None:
    """Limit the clients of the simulator."""
    ground.limit((("client-id", "sim"),), name, value)


@injects("quota", is_rough=True)
def of_a_consumer(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    for _ in range(6):
        ground.publish(topic, 0, text(b"x" * 20_000))
    member = joined(ground, topic, random)
    client_quota(ground, "consumer_byte_rate", random.choice([200.0, 1_000.0]))
    leader, broker = ground.leader(topic)
    peer = member.peers[NAMES.index(leader)]
    topic_id = broker.state.topics[topic].topic_id
    for offset in range(3):
        wanted = FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=offset,
            partition_max_bytes=1_000_000,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1_000_000,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
        )
        if peer.ask(ApiKey.FETCH, 13, request).throttle_time_ms:
            break
    path, query = asked(member, topic, 5, random)
    return Case(cause="quota", path=path, query=query, says="sim at")


def produce_request(topic: str, size: int) -> ProduceRequest:
    """Return a request with one record."""
    records = bytes(encode_batch([text(b"x" * size)]))
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


@injects("quota", is_rough=True)
def of_a_producer(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    client_quota(ground, "producer_byte_rate", random.choice([200.0, 1_000.0]))
    leader, _ = ground.leader(topic)
    peer = ground.kafka(leader)
    request = produce_request(topic, 20_000)
    for _ in range(3):
        answer = peer.ask(ApiKey.PRODUCE, 9, request)
        assert answer.responses[0].partition_responses[0].error_code == 0
        if answer.throttle_time_ms:
            break
    _, broker = ground.leader(topic)
    end = broker.partitions.find(TopicPartition(topic, 0)).log.end_offset
    path, query = of_record(topic, end)
    # That the message is this one's is not known.
    return Case(cause="quota", path=path, query=query, says=topic, is_doubtful=True)


@injects("quota", is_rough=True)
def of_a_publisher_of_amqp(ground: CauseGround, random: Random) -> Case:
    queue = ground.queue("work")
    name = queue.queue.name
    ground.limit((("user", None),), "producer_byte_rate", random.choice([200.0, 1_000.0]))
    client = ground.amqp(random.choice(NAMES))
    for _ in range(4):
        client.publish(b"x" * 5_000, name)
    ground.wait(500)
    after = 1_000
    return Case(
        cause="quota",
        path=f"queues/{name}",
        query={"message": after},
        says=name,
        is_doubtful=True,
    )


# -- rights


@injects("denied")
def a_user_without_rules(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    user = f"User:{random.choice(['app', 'eva', 'tom'])}"
    path, query = of_record(topic, random.randrange(last + 1), principal=user)
    return Case(cause="denied", path=path, query=query, says=user)


@injects("denied")
def a_user_who_may_not_use_the_group(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    user = ground.name("User:half")
    allow(ground, user, Operation.READ, ResourceType.TOPIC, topic)
    member = joined(ground, topic, random)
    path, query = asked(member, topic, last, random)
    return Case(cause="denied", path=path, query={**query, "principal": user}, says=member.group)


@injects(HEALTHY)
def a_user_who_may(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    user = ground.name("User:full")
    allow(ground, user, Operation.READ, ResourceType.TOPIC, topic)
    path, query = of_record(topic, last, principal=user)
    return Case(cause="", path=path, query=query)


@injects("denied")
def a_user_who_may_from_elsewhere_only(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    user = ground.name("User:near")
    host = random.choice(["10.0.0.9", "192.168.0.0/16"])
    allow(ground, user, Operation.READ, ResourceType.TOPIC, topic, host=host)
    path, query = of_record(topic, last, principal=user)
    # Where it comes from was not said.
    return Case(cause="denied", path=path, query=query, says=host, is_doubtful=True)


def allow(
    ground: CauseGround,
    user: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
    host: str = "*",
) -> None:
    """Add a rule."""
    rule = Rule(
        effect=Effect.ALLOW,
        principal=user,  # type: ignore[arg-type]
        operation=operation,
        resource_type=kind,
        name=name,
        host=host,
    )
    ground.submit(AddRules(rules=(rule,)))
    ground.wait(500)


@injects("denied", is_secured=True)
def a_producer_that_has_tried(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    last = fill(ground, topic, random)
    leader, _ = ground.leader(topic)
    peer = ground.kafka(leader, user="app")
    peer.ask(ApiKey.PRODUCE, 9, produce_request(topic, 100))
    ground.wait(random.randrange(20_000))
    path, query = of_record(topic, last + 1)
    # That the message is this one's is not known.
    return Case(cause="denied", path=path, query=query, says="User:app", is_doubtful=True)


@injects("denied", is_secured=True)
def a_consumer_that_has_tried_to_join(ground: CauseGround, random: Random) -> Case:
    topic = ground.topic("orders")
    fill(ground, topic, random)
    group = ground.name("billing")
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="me",
        rebalance_timeout_ms=SESSION_MS,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    ground.kafka(random.choice(NAMES), user="app").ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, request)
    ground.wait(random.randrange(20_000))
    return Case(cause="denied", path=f"groups/{group}", query={}, says="User:app", is_doubtful=True)
