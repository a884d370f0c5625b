"""Groups of clients that come, go, crash, restart and wait, over a log that fails and fails over.

What must always hold: one answer per request; one leader per generation; everybody gets what the
leader gave it; generations only grow; a static member's restart disturbs nobody; nobody waits for
something that cannot happen. And when all is quiet again, everybody who lives is in one generation.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.context import TimerKind
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import JoinProtocol
from kafkaesque.groups.group import Group, GroupState
from kafkaesque.groups.results import JoinResult, SyncResult
from kafkaesque.tables.log_table import RequestToken
from tests.property.driven_groups import DrivenGroup
from tests.unit.groups.desk import GROUP, subscription

SESSION_MS = 10_000
REBALANCE_MS = 15_000
CONFIG = GroupConfig(new_member_join_timeout_ms=20_000)
STICKY = JoinProtocol("sticky", subscription("flights"))
RANGE = JoinProtocol("range", subscription("flights"))
OTHER = JoinProtocol("range", subscription("trains"))
#: All with the same names: a coordinator that takes over knows only the one that was chosen.
PROTOCOLS = ((RANGE, STICKY), (STICKY, RANGE), (OTHER, STICKY))


class Client:
    """A consumer as its own library would drive it."""

    def __init__(self, instance_id: str | None, protocols: tuple[JoinProtocol, ...]) -> None:
        self.instance_id = instance_id
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1
        self.join_token: RequestToken | None = None
        self.sync_token: RequestToken | None = None
        self.assignment: bytes | None = None
        self.leads = False


class GroupMachine(DrivenGroup):
    """Clients, a desk, and what has been seen."""

    clients: list[Client]

    def __init__(self) -> None:
        super().__init__(CONFIG)
        #: Who a member id stands for: its instance, or itself.
        self.owners: dict[str, str] = {}
        self.leaders: dict[int, str] = {}
        self.generation = 0

    # --- what happens ---

    @precondition(lambda self: len(self.clients) < 5)
    @rule(instance=st.sampled_from([None, None, "i1", "i2"]), protocols=st.sampled_from(PROTOCOLS))
    def start(self, instance: str | None, protocols: tuple[JoinProtocol, ...]) -> None:
        client = Client(instance, protocols)
        self.clients.append(client)
        self.join(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        self.desk.leave((client.member_id, client.instance_id))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def change_mind(self, data: st.DataObject) -> None:
        """Subscribe to something else and join again."""
        client = data.draw(st.sampled_from(self.clients))
        client.protocols = data.draw(st.sampled_from(PROTOCOLS))
        if client.join_token is None and client.sync_token is None:
            self.join(client)

    @rule(by_ms=st.sampled_from([1, 500, 3_000, 9_000, 16_000]))
    def wait(self, by_ms: int) -> None:
        self.desk.advance(by_ms)

    @precondition(lambda self: self.stable_static() is not None)
    @rule()
    def restart_static(self) -> None:
        """The whole point of static membership: nobody notices."""
        client = self.stable_static()
        assert client is not None
        self.desk.holds_writes = False
        self.desk.commit_held()
        group = self.group()
        if group is None or group.state is not GroupState.STABLE:
            return
        others = [each for each in group.members if each != client.member_id]
        generation = group.generation
        self.clients.remove(client)
        fresh = Client(client.instance_id, client.protocols)
        self.clients.append(fresh)
        self.join(fresh)
        assert group.state is GroupState.STABLE
        assert group.generation == generation
        assert [each for each in group.members if each in others] == others
        self.poll(fresh)
        self.poll(fresh)
        assert fresh.assignment == given_to(generation, str(client.instance_id))

    @rule(keeps=st.integers(0, 3))
    def fail_over(self, keeps: int) -> None:
        """Another broker takes over; of the writes in flight some have made it."""
        self.desk = self.desk.next_leader(keeps)
        # What was not stored of a generation is forgotten, so its number comes again.
        self.leaders = {}
        group = self.group()
        self.generation = 0 if group is None else group.generation
        for client in self.clients:
            client.join_token = client.sync_token = None

    # --- clients ---

    def join(self, client: Client) -> None:
        client.generation = -1
        client.assignment = None
        client.join_token = self.desk.join(
            client.member_id,
            instance_id=client.instance_id,
            protocols=client.protocols,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )

    def poll(self, client: Client) -> None:
        """Take the answers that have come, and do what a client does next."""
        if client.join_token is not None:
            answer = self.desk.answer(client.join_token)
            if answer is not None:
                client.join_token = None
                self.on_joined(client, answer)
        elif client.sync_token is not None:
            answer = self.desk.answer(client.sync_token)
            if answer is not None:
                client.sync_token = None
                self.on_synced(client, answer)
        elif client.assignment is None:
            self.join(client)
        else:
            error = self.desk.heartbeat(
                client.member_id, client.generation, instance_id=client.instance_id
            )
            if error is not GroupError.NONE:
                self.on_error(client, error)

    def on_joined(self, client: Client, result: JoinResult) -> None:
        if result.error is GroupError.MEMBER_ID_REQUIRED:
            client.member_id = result.member_id
            self.join(client)
            return
        if result.error is not GroupError.NONE:
            self.on_error(client, result.error)
            return
        client.member_id = result.member_id
        client.generation = result.generation
        owner = client.instance_id or result.member_id
        self.owners[result.member_id] = owner
        for member in result.members:
            self.owners[member.member_id] = member.instance_id or member.member_id
        client.leads = result.leader_id == result.member_id
        if client.leads:
            assert self.leaders.setdefault(result.generation, owner) == owner, "two leaders"
        given = {}
        if client.leads and not result.skip_assignment:
            assert result.member_id in [member.member_id for member in result.members]
            for member in result.members:
                owner = member.instance_id or member.member_id
                given[member.member_id] = given_to(result.generation, owner)
        client.sync_token = self.desk.sync(
            client.member_id,
            client.generation,
            given,
            instance_id=client.instance_id,
            protocol_name=result.protocol_name,
        )

    def on_synced(self, client: Client, result: SyncResult) -> None:
        if result.error is not GroupError.NONE:
            self.on_error(client, result.error)
            return
        owner = client.instance_id or client.member_id
        assert result.assignment == given_to(client.generation, owner)
        client.assignment = result.assignment

    def on_error(self, client: Client, error: GroupError) -> None:
        client.assignment = None
        if error is GroupError.FENCED_INSTANCE_ID:
            self.clients.remove(client)
        elif error is GroupError.UNKNOWN_MEMBER_ID:
            client.member_id = ""
        else:
            assert error in (
                GroupError.REBALANCE_IN_PROGRESS,
                GroupError.ILLEGAL_GENERATION,
                GroupError.COORDINATOR_NOT_AVAILABLE,
            )

    # --- what must hold ---

    def group(self) -> Group | None:
        return self.desk.table._context.groups.get(GROUP)

    def stable_static(self) -> Client | None:
        group = self.group()
        if group is None or group.state is not GroupState.STABLE:
            return None
        for client in self.clients:
            if (
                client.instance_id is not None
                and client.assignment is not None
                and client.generation == group.generation
                and group.static_members.get(client.instance_id) == client.member_id
                and group.members[client.member_id].protocols == client.protocols
            ):
                return client
        return None

    @invariant()
    def the_books_add_up(self) -> None:
        group = self.group()
        if group is None:
            return
        members = group.members.values()
        assert group.generation >= self.generation
        self.generation = group.generation
        assert group.awaiting_joins == sum(each.join_token is not None for each in members)
        support: dict[str, int] = {}
        for each in members:
            for protocol in each.protocols:
                support[protocol.name] = support.get(protocol.name, 0) + 1
        assert group.support == support
        assert (group.leader_id in group.members) if group.members else group.leader_id is None
        assert group.static_members == {
            each.instance_id: each.member_id for each in members if each.instance_id is not None
        }
        assert not set(group.pending_joins) & set(group.members)
        assert set(group.pending_syncs) <= set(group.members)

    @invariant()
    def nobody_waits_for_what_cannot_happen(self) -> None:
        group = self.group()
        if group is None:
            return
        timers = self.desk.table._context.timers
        writes = self.desk.table._context.writes

        def has(kind: TimerKind, member_id: str = "") -> bool:
            return (GROUP, kind, member_id) in timers

        for _, kind, member_id in timers._deadlines:
            if kind is TimerKind.SESSION:
                assert member_id in group.members or member_id in group.pending_joins
        for member_id, member in group.members.items():
            assert has(TimerKind.SESSION, member_id) or member.has_satisfied_heartbeat
        for member_id in group.pending_joins:
            assert has(TimerKind.SESSION, member_id)
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert not has(TimerKind.JOIN)
            assert not has(TimerKind.INITIAL_JOIN)
        match group.state:
            case GroupState.EMPTY:
                assert not group.members
            case GroupState.PREPARING_REBALANCE:
                assert has(TimerKind.JOIN) or has(TimerKind.INITIAL_JOIN)
                assert not has(TimerKind.SYNC)
                assert not group.pending_syncs
                assert all(each.sync_token is None for each in group.members.values())
            case GroupState.COMPLETING_REBALANCE:
                assert group.members
                assert has(TimerKind.SYNC) if group.pending_syncs else len(writes)
            case GroupState.STABLE:
                assert group.members
                assert all(each.sync_token is None for each in group.members.values())
                if group.awaiting_joins:
                    assert len(writes), "only a restarted static member may wait here"
                assert not group.pending_syncs or has(TimerKind.SYNC)

    def teardown(self) -> None:
        """Quiet: all writes succeed, everybody who lives goes on."""
        self.desk.holds_writes = False
        self.desk.commit_held()
        for _ in range(80):
            for client in list(self.clients):
                self.poll(client)
            self.desk.advance(1_000)
            self.the_books_add_up()
            self.nobody_waits_for_what_cannot_happen()
        if not self.clients:
            assert self.desk.state() in ("Empty", "Dead")
            return
        group = self.group()
        assert group is not None
        assert group.state is GroupState.STABLE
        assert set(group.members) == {client.member_id for client in self.clients}
        assert {client.generation for client in self.clients} == {group.generation}
        assert all(client.assignment is not None for client in self.clients)
        assert [client.leads for client in self.clients].count(True) == 1


def given_to(generation: int, owner: str) -> bytes:
    return f"{generation} {owner}".encode()


TestGroups: Any = GroupMachine.TestCase
