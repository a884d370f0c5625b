"""Groups whose partitions the coordinator assigns, with clients that come, go, crash and are slow.

What must always hold: no partition has two owners, as the clients see it; epochs never go back;
a member whose target stays the same keeps what it has. And when all is quiet, everybody has what
the target says, and the target gives away everything.
"""

from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer import heartbeats
from kafkaesque.groups.consumer.events import ConsumerGroupHeartbeat, TopicsChanged
from kafkaesque.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from kafkaesque.groups.consumer.results import ConsumerHeartbeatResult
from kafkaesque.groups.consumer.states import MemberState
from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Partitions, Topic, TopicCatalog
from kafkaesque.groups.errors import GroupError
from kafkaesque.model.ids import TopicId
from kafkaesque.tables.log_table import RequestToken
from tests.property.driven_groups import DrivenGroup
from tests.unit.groups.desk import GROUP, Desk

CONFIG = GroupConfig()
SESSION_MS = CONFIG.consumer.session_timeout_ms
REBALANCE_MS = 60_000
REST_MS = 6_000
NAMES = ("a", "ab", "b")
SUBSCRIPTIONS: tuple[tuple[tuple[str, ...], str | None], ...] = (
    (("a",), None),
    (("a", "b"), None),
    (("a", "ab", "b"), None),
    ((), "a.*"),
    (("b",), "a"),
    ((), ""),
)


class Client:
    """A consumer, as its library would drive it, with a member id of its own."""

    def __init__(
        self, member_id: str, instance_id: str | None, subscription: tuple[Any, Any]
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.names, self.expression = subscription
        self.epoch = 0
        #: What it consumes.
        self.owned: Partitions = NO_PARTITIONS
        #: What it was told to have.
        self.wanted: Partitions = NO_PARTITIONS
        #: It has something to say beyond that it lives.
        self.is_full = True
        #: The request on its way says what it owns.
        self.has_said = False
        self.token: RequestToken | None = None
        self.beat_ms = 0
        #: Since when it has had something that it is not to have.
        self.told_ms = 0
        self.assignor: str | None = None


class ConsumerGroupMachine(DrivenGroup):
    """Clients, a desk, topics, and what has been seen."""

    clients: list[Client]

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.counts: dict[str, tuple[int, int]] = {"a": (1, 4)}
        self.next_id = 1
        self.members_made = 0
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0
        #: Of each member, its target and what it had at the last look.
        self.seen: dict[str, tuple[Partitions, Partitions]] = {}
        self.bring_topics()

    # --- what happens ---

    @precondition(lambda self: len(self.clients) < 5)
    @rule(
        instance=st.sampled_from([None, None, "i1", "i2"]),
        subscription=st.sampled_from(SUBSCRIPTIONS),
        assignor=st.sampled_from([None, "uniform", "range"]),
    )
    def start(
        self, instance: str | None, subscription: tuple[Any, Any], assignor: str | None
    ) -> None:
        self.members_made += 1
        client = Client(f"m{self.members_made}", instance, subscription)
        client.assignor = assignor
        self.clients.append(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def apply(self, data: st.DataObject) -> None:
        """Stop consuming what is to be given up; take up what has come."""
        self.adopt(data.draw(st.sampled_from(self.clients)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def lose_answer(self, data: st.DataObject) -> None:
        """The connection breaks: the client does not know what became of its request."""
        client = data.draw(st.sampled_from(self.clients))
        client.token = None
        client.is_full = True

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        client.owned = NO_PARTITIONS
        client.epoch = -1 if client.instance_id is None else data.draw(st.sampled_from([-1, -2]))
        self.send(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscription=st.sampled_from(SUBSCRIPTIONS))
    def subscribe(self, data: st.DataObject, subscription: tuple[Any, Any]) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.names, client.expression = subscription
        # An expression is taken back with an empty one.
        client.expression = client.expression or ""
        client.is_full = True

    @rule(name=st.sampled_from(NAMES), by=st.integers(1, 3))
    def grow_topic(self, name: str, by: int) -> None:
        if name in self.counts:
            topic_id, count = self.counts[name]
            self.counts[name] = (topic_id, min(count + by, 8))
        else:
            self.next_id += 1
            self.counts[name] = (self.next_id, by)
        self.bring_topics()

    @precondition(lambda self: self.counts)
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        del self.counts[data.draw(st.sampled_from(sorted(self.counts)))]
        self.bring_topics()

    @rule(by_ms=st.sampled_from([1, 5_000, 20_000, 46_000]))
    def wait(self, by_ms: int) -> None:
        self.desk.advance(by_ms)
        self.notice_silence()

    @rule(keeps=st.integers(0, 3))
    def fail_over(self, keeps: int) -> None:
        """Another broker takes over; of the writes in flight some have made it."""
        last, self.desk = self.desk, self.desk.next_leader(keeps)
        for client in self.clients:
            self.take_answer(client, last)
        self.bring_topics()
        # What was not stored was told to nobody.
        self.epochs = {}
        self.seen = {}
        self.group_epoch = 0

    # --- clients ---

    def bring_topics(self) -> None:
        topics = [
            Topic(name=name, topic_id=TopicId(topic_id.to_bytes(16, "big")), partition_count=count)
            for name, (topic_id, count) in self.counts.items()
        ]
        self.desk.ask(TopicsChanged(TopicCatalog(topics)))

    def send(self, client: Client) -> RequestToken:
        is_full = client.is_full or client.epoch == 0
        token = self.desk.token()
        self.desk.ask(
            ConsumerGroupHeartbeat(
                token=token,
                group_id=GROUP,
                member_id=client.member_id,
                member_epoch=client.epoch,
                instance_id=client.instance_id,
                rebalance_timeout_ms=REBALANCE_MS if is_full else None,
                topic_names=client.names if is_full else None,
                topic_expression=client.expression if is_full else None,
                assignor=client.assignor if is_full else None,
                owned=client.owned if is_full else None,
            )
        )
        return token

    def beat(self, client: Client) -> None:
        client.token = self.send(client)
        client.has_said = client.is_full or client.epoch == 0
        client.is_full = False
        client.beat_ms = self.desk.now_ms

    def poll(self, client: Client) -> None:
        """Take the answer that has come, or say that the client lives."""
        self.notice_silence()
        if client not in self.clients:
            return
        if client.token is None:
            self.beat(client)
        else:
            self.take_answer(client)

    def take_answer(self, client: Client, desk: Desk | None = None) -> None:
        if client.token is None:
            return
        result = (desk or self.desk).answer(client.token)
        if result is None:
            return
        client.token = None
        assert isinstance(result, ConsumerHeartbeatResult)
        if result.error is not GroupError.NONE:
            self.on_error(client, result.error)
            return
        assert result.member_epoch >= client.epoch
        client.epoch = result.member_epoch
        if result.assignment is not None:
            client.wanted = result.assignment
            # Nothing is offered that somebody else consumes.
            for other in self.clients:
                assert other is client or not other.owned & result.assignment

    def on_error(self, client: Client, error: GroupError) -> None:
        client.is_full = True
        if error in (GroupError.FENCED_MEMBER_EPOCH, GroupError.UNKNOWN_MEMBER_ID):
            self.give_up_all(client)
        elif error is GroupError.FENCED_INSTANCE_ID:
            self.clients.remove(client)
        else:
            assert error in (
                GroupError.COORDINATOR_NOT_AVAILABLE,
                GroupError.NOT_COORDINATOR,
                GroupError.UNRELEASED_INSTANCE_ID,
            ), error

    def give_up_all(self, client: Client) -> None:
        client.epoch = 0
        client.owned = client.wanted = NO_PARTITIONS

    def adopt(self, client: Client) -> None:
        if client.epoch <= 0 or client.owned == client.wanted:
            return
        if client.token is not None and client.has_said and not client.wanted <= client.owned:
            # What it has just said that it does not own it may not take up before the answer.
            return
        client.owned = (
            client.wanted if client.owned <= client.wanted else (client.owned & client.wanted)
        )
        client.is_full = True

    def notice_silence(self) -> None:
        """Who was not heard for a session, or did not give up in time what it was to, stops."""
        for client in self.clients:
            if client.owned <= client.wanted:
                client.told_ms = self.desk.now_ms
            is_late = self.desk.now_ms - client.told_ms >= REBALANCE_MS - 1
            if is_late or self.desk.now_ms - client.beat_ms >= SESSION_MS - 1:
                self.give_up_all(client)
                client.token = None

    # --- what must hold ---

    def group(self) -> ConsumerGroup | None:
        return self.desk.table._context.consumer_groups.get(GROUP)

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        owners: dict[Any, str] = {}
        for client in self.clients:
            for each in client.owned:
                assert owners.setdefault(each, client.member_id) == client.member_id, each

    @invariant()
    def the_books_add_up(self) -> None:
        group = self.group()
        if group is None:
            return
        holders = {
            each: member_id
            for member_id, current in group.currents.items()
            for each in current.held
        }
        assert group._holders == holders
        assert sum(len(current.held) for current in group.currents.values()) == len(holders)
        assert set(group.members) == set(group.currents)
        assert group.static_members == {
            member.instance_id: member_id
            for member_id, member in group.members.items()
            if member.instance_id is not None
        }
        assert group.target_epoch <= group.epoch
        members = list(group.members.values())
        assert group.subscription_bytes == sum(each.subscription_bytes for each in members)
        different = {each.subscription for each in members}
        assert group.different_topics == sum(len(each.topic_names) for each in different)

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.group()
        if group is None:
            return
        assert group.epoch >= self.group_epoch
        self.group_epoch = group.epoch
        for member_id, current in group.currents.items():
            if current.epoch >= 0:
                assert current.epoch >= self.epochs.get(member_id, 0)
                assert current.epoch <= group.target_epoch
                self.epochs[member_id] = current.epoch

    @invariant()
    def nobody_is_waited_for_without_end(self) -> None:
        group = self.group()
        if group is None:
            return
        deadlines = {
            (kind.value, member_id)
            for _, kind, member_id in self.desk.table._context.timers._deadlines
        }
        for member_id, current in group.currents.items():
            assert ("consumer session", member_id) in deadlines
            is_revoking = current.state is MemberState.UNREVOKED_PARTITIONS
            assert (("revocation", member_id) in deadlines) == is_revoking

    @invariant()
    def who_has_reached_its_target_has_it(self) -> None:
        group = self.group()
        if group is None:
            return
        for member_id, current in group.currents.items():
            if current.epoch != group.target_epoch:
                continue
            target = group.target.get(member_id, NO_PARTITIONS)
            if current.state is MemberState.STABLE:
                assert current.assigned == target
            else:
                assert current.assigned <= target

    @invariant()
    def nobody_is_disturbed_whose_target_did_not_change(self) -> None:
        """What a member has of its target it keeps, whatever becomes of the others."""
        group = self.group()
        seen: dict[str, tuple[Partitions, Partitions]] = {}
        if group is not None:
            for member_id, current in group.currents.items():
                target = group.target.get(member_id, NO_PARTITIONS)
                seen[member_id] = (target, current.assigned)
                before = self.seen.get(member_id)
                if before is not None and before[0] == target:
                    assert before[1] & target <= current.assigned
        self.seen = seen

    def teardown(self) -> None:
        """Quiet: all writes succeed, everybody who lives goes on."""
        self.desk.holds_writes = False
        self.desk.commit_held()
        for _ in range(60):
            for client in list(self.clients):
                self.poll(client)
                self.poll(client)
                self.adopt(client)
            self.desk.advance(2_000)
            for check in (
                self.a_partition_has_one_owner,
                self.the_books_add_up,
                self.epochs_never_go_back,
                self.nobody_is_waited_for_without_end,
                self.who_has_reached_its_target_has_it,
                self.nobody_is_disturbed_whose_target_did_not_change,
            ):
                check()
        group = self.group()
        # Two with the same instance: only one of them is in.
        alive = [client for client in self.clients if client.epoch > 0]
        if group is None:
            assert not alive
            return
        assert set(group.members) == {client.member_id for client in alive}
        if not alive:
            return
        assert group.state is ConsumerGroupState.STABLE
        for client in alive:
            assert client.owned == client.wanted == group.target[client.member_id]
        subscribed = {name for client in alive for name in client.names}
        given_out = {each for client in alive for each in client.owned}
        for name in subscribed & set(self.counts):
            topic_id, count = self.counts[name]
            key = TopicId(topic_id.to_bytes(16, "big"))
            assert {each.partition for each in given_out if each.topic_id == key} == set(
                range(count)
            )


class LargeGroupMachine(ConsumerGroupMachine):
    """The same where a rest follows each target, as it does in groups of thousands."""

    def __init__(self) -> None:
        super().__init__()
        self.rests = mock.patch.object(heartbeats, "rest_ms", return_value=REST_MS)
        self.rests.start()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.rests.stop()


TestConsumerGroups: Any = ConsumerGroupMachine.TestCase
TestLargeConsumerGroups: Any = LargeGroupMachine.TestCase
