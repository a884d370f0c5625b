"""Stands in for the driver of a group table: its clock, its log and its clients."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.config import ConsumerTimes
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    Event,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    SyncGroup,
)
from kafkaesque.groups.results import (
    AppendInTransaction,
    CommittedOffset,
    DescribedGroup,
    JoinResult,
    Result,
)
from kafkaesque.groups.table import GroupTable
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import (
    Append,
    Instant,
    LogRecord,
    RequestToken,
    Respond,
    WriteFailure,
    WriteToken,
)

GROUP = "readers"
WALL_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    """What a consumer says about itself: version 1, topics, no user data, owns nothing."""
    parts = [b"\x00\x01", len(topics).to_bytes(4, "big")]
    for topic in topics:
        parts += [len(topic.encode()).to_bytes(2, "big"), topic.encode()]
    return b"".join([*parts, b"\xff\xff\xff\xff", b"\x00\x00\x00\x00"])


RANGE = (JoinProtocol("range", subscription("flights")),)


class Desk:
    """One table, driven as a broker would, with every answer and every record noted."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        log: Sequence[LogRecord] = (),
        is_active: bool = True,
        times: Mapping[str, ConsumerTimes] = MappingProxyType({}),
    ) -> None:
        self.config = config or GroupConfig()
        self.table = GroupTable(self.config, times)
        self.now_ms = 5_000
        self.log: list[LogRecord] = list(log)
        #: What this desk has written itself, in order.
        self.written: list[Append | AppendInTransaction] = []
        self.asked: list[RequestToken] = []
        self.answers: dict[RequestToken, Any] = {}
        self.holds_writes = False
        self.held: list[Append | AppendInTransaction] = []
        self._suffixes = 0
        self.table.restore(log)
        if is_active:
            self.table.activate(self.now)
            self.pump()

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, WALL_MS + self.now_ms)

    def reopened(self, config: GroupConfig | None = None) -> "Desk":
        """The next leader's table, from the log."""
        return Desk(config or self.config, log=self.log)

    def next_leader(self, keeps: int) -> "Desk":
        """Lose leadership; return the next leader's desk, at the same time.

        Of the writes in flight the first few have made it.
        """
        self.table.unload()
        self.pump()
        assert set(self.asked) == set(self.answers)
        log = [*self.log]
        for write in self.held[:keeps]:
            log += write.records
        later = Desk(self.config, log=log, is_active=False)
        later.now_ms, later._suffixes = self.now_ms, self._suffixes
        later.table.activate(later.now)
        assert later.table.records_skipped == 0
        return later

    # --- driving ---

    def ask(self, event: Event) -> Any:
        """Send an event; return the answer, or None while there is none."""
        self.table.step(event, self.now)
        self.pump()
        return self.answers.get(getattr(event, "token", RequestToken(-1)))

    def pump(self) -> None:
        while ready := self.table.take_ready():
            for work in ready:
                if isinstance(work, Respond):
                    self._note(work.token, work.result)
                elif self.holds_writes:
                    self.held.append(work)
                else:
                    self._commit(work)

    def commit_held(self, count: int | None = None) -> None:
        while self.held and count != 0:
            self._commit(self.held.pop(0))
            self.pump()
            count = None if count is None else count - 1

    def fail_held(self, failure: WriteFailure = WriteFailure.NOT_ENOUGH_REPLICAS) -> None:
        """Fail the oldest write that is held, and those that follow it."""
        refused: list[WriteToken] = []
        for write in list(self.held):
            if not refused or (isinstance(write, Append) and write.follows in refused):
                self.held.remove(write)
                refused.append(write.token)
        for token in refused:
            self.table.on_append_failed(token, failure, self.now)
            self.pump()

    def advance(self, by_ms: int) -> None:
        """Let time pass, with a tick whenever the table wants one."""
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.table.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            assert deadline_ms >= self.now_ms
            self.now_ms = deadline_ms
            self.table.tick(self.now)
            self.pump()
            assert self.table.next_deadline_ms() != deadline_ms, "the tick did not help"
        self.now_ms = end_ms

    def _commit(self, append: Append | AppendInTransaction) -> None:
        self.log += append.records
        self.written.append(append)
        self.table.on_appended(append.token, self.now)

    def _note(self, token: RequestToken, result: Result) -> None:
        assert token in self.asked, "an answer that nobody asked for"
        assert token not in self.answers, "a second answer"
        self.answers[token] = result

    def token(self) -> RequestToken:
        token = RequestToken(len(self.asked) + 1)
        self.asked.append(token)
        return token

    def answer(self, token: RequestToken) -> Any:
        return self.answers.get(token)

    # --- clients ---

    def join_event(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocols: tuple[JoinProtocol, ...] = RANGE,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        client_id: str = "client",
        requires_known_member_id: bool = True,
        supports_skipping_assignment: bool = True,
    ) -> JoinGroup:
        self._suffixes += 1
        return JoinGroup(
            token=self.token(),
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            client_host="/127.0.0.1",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            member_id_suffix=f"{self._suffixes:04d}",
            requires_known_member_id=requires_known_member_id,
            supports_skipping_assignment=supports_skipping_assignment,
        )

    def join(self, member_id: str = "", **options: Any) -> RequestToken:
        event = self.join_event(member_id, **options)
        self.ask(event)
        return event.token

    def join_new(self, **options: Any) -> tuple[str, RequestToken]:
        """Ask for an id, then join with it, as clients do."""
        first = self.answers[self.join(**options)]
        assert first.error is GroupError.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> RequestToken:
        event = SyncGroup(
            token=self.token(),
            group_id=group_id,
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple((assignments or {}).items()),
        )
        self.ask(event)
        return event.token

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
    ) -> GroupError:
        event = Heartbeat(
            token=self.token(),
            group_id=group_id,
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
        )
        error = self.ask(event).error
        assert isinstance(error, GroupError)
        return error

    def leave(self, *members: tuple[str, str | None], group_id: str = GROUP) -> RequestToken:
        leaving = tuple(LeavingMember(*member) for member in members)
        event = LeaveGroup(token=self.token(), group_id=group_id, members=leaving)
        self.ask(event)
        return event.token

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        group_id: str = GROUP,
        metadata: str = "",
        retention_ms: int = -1,
        topic_id: bytes | None = None,
        is_by_name: bool = False,
        knows_member_epochs: bool = True,
    ) -> RequestToken:
        event = CommitOffsets(
            token=self.token(),
            group_id=group_id,
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            offsets=tuple(
                OffsetToCommit(
                    TopicPartition(*partition), offset, 3, metadata, topic_id, is_by_name
                )
                for partition, offset in offsets.items()
            ),
            retention_ms=retention_ms,
            knows_member_epochs=knows_member_epochs,
        )
        self.ask(event)
        return event.token

    def commit_errors(self, *args: Any, **options: Any) -> list[GroupError]:
        result = self.answers[self.commit(*args, **options)]
        return [error for _, error in result.partitions]

    def committed(
        self, group_id: str = GROUP, partitions: Sequence[tuple[str, int]] | None = None
    ) -> dict[tuple[str, int], CommittedOffset | None]:
        wanted = None if partitions is None else tuple(TopicPartition(*each) for each in partitions)
        event = FetchOffsets(token=self.token(), group_id=group_id, partitions=wanted)
        result = self.ask(event)
        assert result.error is GroupError.NONE
        return {tuple(partition): committed for partition, committed, _ in result.offsets}

    def offsets(self, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        committed = self.committed(group_id)
        return {partition: each.offset for partition, each in committed.items() if each is not None}

    def delete_offsets(self, *partitions: tuple[str, int], group_id: str = GROUP) -> RequestToken:
        event = DeleteOffsets(
            token=self.token(),
            group_id=group_id,
            partitions=tuple(TopicPartition(*each) for each in partitions),
        )
        self.ask(event)
        return event.token

    def delete_groups(self, *group_ids: str) -> RequestToken:
        event = DeleteGroups(token=self.token(), group_ids=group_ids)
        self.ask(event)
        return event.token

    def describe(self, group_id: str = GROUP) -> DescribedGroup:
        result = self.ask(DescribeGroups(token=self.token(), group_ids=(group_id,)))
        described = result.groups[0]
        assert isinstance(described, DescribedGroup)
        return described

    def state(self, group_id: str = GROUP) -> str:
        return self.describe(group_id).state

    # --- whole rounds ---

    def stable_group(self, size: int = 2, **options: Any) -> list[str]:
        """Return the members of a stable group of generation 1; the first one leads."""
        joined = [self.join_new(**options) for _ in range(size)]
        self.advance(4 * self.config.initial_rebalance_delay_ms)
        self.assign([token for _, token in joined])
        assert self.state(options.get("group_id", GROUP)) == "Stable"
        return [member_id for member_id, _ in joined]

    def assign(self, joins: Sequence[RequestToken], group_id: str = GROUP) -> None:
        """Let everybody whose JoinGroup was answered sync, with an assignment of its own name."""
        results = [self.answers[join] for join in joins]
        for result in results:
            assert isinstance(result, JoinResult)
            assert result.error is GroupError.NONE
        syncs = []
        for result in sorted(results, key=lambda result: bool(result.members)):
            given = {
                member.member_id: b"for " + member.member_id.encode() for member in result.members
            }
            name = result.protocol_name
            kind = result.protocol_type
            generation = result.generation
            syncs.append(
                self.sync(
                    result.member_id,
                    generation,
                    given,
                    group_id=group_id,
                    protocol_name=name,
                    protocol_type=kind,
                )
            )
        for sync, result in zip(
            syncs, sorted(results, key=lambda result: bool(result.members)), strict=True
        ):
            assert self.answers[sync].error is GroupError.NONE
            assert self.answers[sync].assignment == b"for " + result.member_id.encode()
