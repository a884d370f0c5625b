"""Groups in which clients of both protocols come and go, so that the group changes its kind.

What must always hold: no partition has two owners, as the clients see it. And when all is quiet,
everybody who lives has its share, and all partitions are consumed.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.classic_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from kafkaesque.groups.consumer.events import ConsumerGroupHeartbeat, TopicsChanged
from kafkaesque.groups.consumer.results import ConsumerHeartbeatResult
from kafkaesque.groups.consumer.topics import Topic, TopicCatalog
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import JoinProtocol
from kafkaesque.groups.results import HeartbeatResult, JoinedMember, JoinResult, SyncResult
from kafkaesque.model.ids import TopicId, TopicPartition
from kafkaesque.tables.log_table import RequestToken
from tests.property.driven_groups import DrivenGroup
from tests.unit.groups.desk import GROUP, Desk, subscription

#: What may be written in parts is.
CONFIG = GroupConfig(records_per_write_max=2)
SESSION_MS = CONFIG.consumer.session_timeout_ms
REBALANCE_MS = 60_000
TOPIC = Topic(name="a", topic_id=TopicId(b"a" * 16), partition_count=5)
CATALOG = TopicCatalog([TOPIC])
ALL = frozenset(TopicPartition("a", each) for each in range(TOPIC.partition_count))

Owned = frozenset[TopicPartition]


class Consumer:
    """A client of either protocol."""

    def __init__(self, name: str, *, is_classic: bool) -> None:
        self.name = name
        self.is_classic = is_classic
        self.member_id = "" if is_classic else name
        #: Member epoch or generation; 0 and less: not in.
        self.epoch = 0
        self.owned: Owned = frozenset()
        self.token: RequestToken | None = None
        self.beat_ms = 0
        #: It has to join again before anything else.
        self.is_out = True


class MigrationMachine(DrivenGroup):
    """Clients, a desk, and one topic."""

    clients: list[Consumer]

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.desk.ask(TopicsChanged(CATALOG))
        self.made = 0
        self.is_cooperative = False

    @initialize(is_cooperative=st.booleans(), starts=st.lists(st.booleans(), max_size=3))
    def begin(self, is_cooperative: bool, starts: list[bool]) -> None:
        """Say whether classic members go on consuming while they join; let some clients begin."""
        self.is_cooperative = is_cooperative
        for is_classic in starts:
            self.start(is_classic)
        self.settle()

    # --- what happens ---

    @precondition(lambda self: len(self.clients) < 4)
    @rule(is_classic=st.booleans())
    def start(self, is_classic: bool) -> None:
        self.made += 1
        self.clients.append(Consumer(f"m{self.made}", is_classic=is_classic))
        self.poll(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def hurry(self, data: st.DataObject) -> None:
        """One is much faster than the others."""
        client = data.draw(st.sampled_from(self.clients))
        for _ in range(4):
            self.poll(client)

    @rule()
    def settle(self) -> None:
        """Nothing goes wrong for a while."""
        self.calm_down()
        for _ in range(10):
            self.act_all()
            self.act_all()
            self.a_partition_has_one_owner()
            self.desk.advance(2_000)
            self.notice_silence()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        client.owned = frozenset()
        if client.is_classic:
            self.desk.leave((client.member_id, None))
        else:
            client.epoch = -1
            self.send(client)

    @rule(by_ms=st.sampled_from([1, 3_000, 20_000, 46_000]))
    def wait(self, by_ms: int) -> None:
        self.desk.advance(by_ms)
        self.notice_silence()

    @rule(keeps=st.integers(0, 6), knows_topics=st.booleans())
    def fail_over(self, keeps: int, knows_topics: bool) -> None:
        """Another broker takes over; of the writes in flight some have made it."""
        last, self.desk = self.desk, self.desk.next_leader(keeps)
        for client in list(self.clients):
            self.take_answer(client, last)
            client.token = None
        if knows_topics:
            self.learn_topics()

    @rule(data=st.data(), is_classic=st.booleans(), leaves=st.booleans())
    def fail_over_within_a_write(self, data: st.DataObject, is_classic: bool, leaves: bool) -> None:
        """Somebody comes or goes, and the coordinator is gone before all of that is stored."""
        self.settle()
        self.desk.holds_writes = True
        if self.clients and leaves:
            self.leave(data)
        elif len(self.clients) < 4:
            self.start(is_classic)
        self.fail_over(data.draw(st.integers(0, len(self.desk.held))), knows_topics=True)

    @rule()
    def learn_topics(self) -> None:
        """The broker hears of the topics, perhaps some time after it has taken over."""
        self.desk.ask(TopicsChanged(CATALOG))

    def calm_down(self) -> None:
        """All writes succeed."""
        self.desk.holds_writes = False
        self.desk.commit_held()
        self.learn_topics()

    # --- clients ---

    def poll(self, client: Consumer) -> None:
        """Take the answer that has come, or do what the client does next."""
        self.notice_silence()
        if client.token is not None:
            self.take_answer(client)
            return
        client.beat_ms = self.desk.now_ms
        if not client.is_classic:
            client.token = self.send(client)
        elif client.is_out:
            self.join(client)
        else:
            client.token = self.beat_classic(client)

    def send(self, client: Consumer) -> RequestToken:
        token = self.desk.token()
        self.desk.ask(
            ConsumerGroupHeartbeat(
                token=token,
                group_id=GROUP,
                member_id=client.member_id,
                member_epoch=client.epoch,
                rebalance_timeout_ms=REBALANCE_MS,
                topic_names=("a",),
                owned=CATALOG.ids_of(client.owned),
            )
        )
        return token

    def join(self, client: Consumer) -> None:
        if not self.is_cooperative:
            client.owned = frozenset()
        head = subscription("a")[:-4]
        tail = b"\x00\x00\x00\x00"
        if client.owned:
            tail = b"\x00\x00\x00\x01\x00\x01a" + len(client.owned).to_bytes(4, "big")
            tail += b"".join(each.partition.to_bytes(4, "big") for each in client.owned)
        client.token = self.desk.join(
            client.member_id,
            protocols=(JoinProtocol("p", head + tail),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )

    def beat_classic(self, client: Consumer) -> RequestToken:
        before = len(self.desk.asked)
        if self.desk.holds_writes:
            # Its answer may have to wait for a write: then it is asked for again.
            self.desk.holds_writes = False
            self.desk.commit_held()
        self.desk.heartbeat(client.member_id, client.epoch)
        return self.desk.asked[before]

    def take_answer(self, client: Consumer, desk: Desk | None = None) -> None:
        if client.token is None:
            return
        result = (desk or self.desk).answer(client.token)
        if result is None:
            return
        client.token = None
        if result.error is not GroupError.NONE:
            self.on_error(client, result)
        elif isinstance(result, ConsumerHeartbeatResult):
            client.epoch = result.member_epoch
            if result.assignment is not None:
                wanted = frozenset(CATALOG.names_of(result.assignment))
                # First it stops, and takes up the rest when it has said so.
                client.owned = wanted if client.owned <= wanted else client.owned & wanted
        elif isinstance(result, JoinResult):
            self.on_joined(client, result)
        elif isinstance(result, SyncResult):
            self.on_synced(client, result)
        else:
            assert isinstance(result, HeartbeatResult)

    def on_joined(self, client: Consumer, result: JoinResult) -> None:
        client.member_id, client.epoch = result.member_id, result.generation
        given = {}
        if result.leader_id == result.member_id and not result.skip_assignment:
            given = shares(result.members)
        client.token = self.desk.sync(
            client.member_id, client.epoch, given, protocol_name=result.protocol_name
        )

    def on_synced(self, client: Consumer, result: SyncResult) -> None:
        assigned = read_assignment(result.assignment)
        assert assigned is not None
        client.is_out = not client.owned <= assigned
        client.owned = assigned

    def on_error(self, client: Consumer, result: Any) -> None:
        error = result.error
        if error is GroupError.MEMBER_ID_REQUIRED:
            client.member_id = result.member_id
        elif error is GroupError.REBALANCE_IN_PROGRESS:
            client.is_out = True
        elif error in (
            GroupError.COORDINATOR_LOAD_IN_PROGRESS,
            GroupError.COORDINATOR_NOT_AVAILABLE,
            GroupError.NOT_COORDINATOR,
        ):
            pass
        elif error in (
            GroupError.FENCED_MEMBER_EPOCH,
            GroupError.UNKNOWN_MEMBER_ID,
            GroupError.ILLEGAL_GENERATION,
        ):
            self.give_up_all(client)
            if client.is_classic and error is GroupError.UNKNOWN_MEMBER_ID:
                client.member_id = ""
        else:
            raise AssertionError(error)

    def give_up_all(self, client: Consumer) -> None:
        client.epoch = 0
        client.owned = frozenset()
        client.is_out = True

    def notice_silence(self) -> None:
        """Who was not heard for a session stops by itself."""
        for client in self.clients:
            is_waiting = client.token is not None and client.is_classic
            if self.desk.now_ms - client.beat_ms >= SESSION_MS - 1 and not is_waiting:
                self.give_up_all(client)
                client.token = None
            elif is_waiting and self.desk.now_ms - client.beat_ms >= SESSION_MS - 1:
                client.owned = frozenset()

    # --- what must hold ---

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        owners: dict[TopicPartition, str] = {}
        for client in self.clients:
            for each in client.owned:
                assert owners.setdefault(each, client.name) == client.name, each

    @invariant()
    def a_name_is_one_groups(self) -> None:
        context = self.desk.table._context
        assert not set(context.groups) & set(context.consumer_groups)

    def teardown(self) -> None:
        """Quiet: everybody who lives goes on."""
        self.calm_down()
        for _ in range(120):
            for client in list(self.clients):
                self.poll(client)
                self.poll(client)
                self.a_partition_has_one_owner()
            self.desk.advance(2_000)
        if not self.clients:
            return
        sizes = [len(client.owned) for client in self.clients]
        assert sum(sizes) == len(ALL), sizes
        assert max(sizes) - min(sizes) <= 1
        context = self.desk.table._context
        is_new = any(not client.is_classic for client in self.clients)
        assert GROUP in (context.consumer_groups if is_new else context.groups)
        self.check_log()

    def check_log(self) -> None:
        """A new coordinator finds the same group, and nothing that is left of another."""
        self.desk.advance(CONFIG.offsets_retention_check_interval_ms)
        context = self.desk.table._context
        again = self.desk.reopened().table._context
        assert set(again.groups) == set(context.groups)
        assert set(again.consumer_groups) == set(context.consumer_groups)
        assert again.leftovers.group_ids() == []
        for group_id, group in context.consumer_groups.items():
            assert again.consumer_groups[group_id].members == group.members


def shares(members: tuple[JoinedMember, ...]) -> dict[str, bytes]:
    """Assign as a leader does: evenly, and nothing that somebody else goes on consuming."""
    owned: dict[str, Owned] = {}
    for member in members:
        read = read_subscription(member.metadata)
        assert read is not None
        owned[member.member_id] = read.owned
    ids = sorted(owned)
    given = {}
    for position, member_id in enumerate(ids):
        wanted = {each for each in ALL if each.partition % len(ids) == position}
        taken = {each for other in ids if other != member_id for each in owned[other]}
        given[member_id] = write_assignment(wanted - taken)
    return given


TestMigration: Any = MigrationMachine.TestCase
