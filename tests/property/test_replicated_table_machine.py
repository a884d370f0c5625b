"""A table on a partition, on three replicas of a log: followers, cuts, leaders that come and go.

What must always hold: the state is what a plain reading of the log says, on each replica, at the
end of its own log; a replay from what the log has to keep gives the same as one of all that there
ever was; and nothing is answered before the log has it for good.
"""

from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record
from kafkaesque.tables import replicated
from kafkaesque.tables.log_table import Instant, RequestToken, Respond
from kafkaesque.tables.logged import LoggedKind, read_logged, write_logged
from tests.unit.tables.locks import (
    Acquire,
    Answer,
    Freed,
    Given,
    Granted,
    Keep,
    Kept,
    Lock,
    LockTable,
    Release,
    _decoder,
)

TABLE, OTHER = 7, 8
NAMES = ("a", "b", "c")


class Entry(NamedTuple):
    """A batch in a log; entries of one place are equal if their terms are."""

    term: int
    base_offset: int
    next_offset: int
    data: bytes


class Node:
    """One replica: its log, from where it is kept, and its tables."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.start_offset = 0
        self.committed = 0
        self.tables = [LockTable(TABLE), LockTable(OTHER)]
        #: Whether they began with snapshots that may be gone again.
        self.is_taken_up = False

    @property
    def end_offset(self) -> int:
        return self.log[-1].next_offset if self.log else self.start_offset

    def put(self, entry: Entry) -> None:
        self.log.append(entry)
        feed(self.tables, entry)

    def cut(self, end_offset: int) -> None:
        while self.log and self.log[-1].next_offset > end_offset:
            self.log.pop()
        results = [table.cut(Offset(end_offset)) for table in self.tables]
        if not all(results):
            assert self.is_taken_up
            self.take_up()

    def commit(self, offset: int) -> None:
        self.committed = max(self.committed, min(offset, self.end_offset))
        for table in self.tables:
            table.commit(Offset(self.committed))

    def take_up(self) -> None:
        """Begin again with the newest snapshots, which may not be committed."""
        found: dict[int, int] = {}
        for entry in self.log:
            logged = read_logged(read_batch_header(entry.data), entry.data)
            if logged is not None and logged.kind is LoggedKind.SNAPSHOT:
                found[logged.table] = entry.base_offset
        if len(found) < len(self.tables):
            self.restart()
            return
        start = Offset(min(found.values()))
        for table in self.tables:
            table.begin_at(start, Offset(self.start_offset))
        self.is_taken_up = True
        for entry in self.log:
            if entry.base_offset >= start:
                feed(self.tables, entry)
        for table in self.tables:
            table.commit(Offset(self.committed))

    def restart(self) -> None:
        """Begin again with nothing but what the log still has."""
        self.is_taken_up = False
        self.tables = [LockTable(number, Offset(self.start_offset)) for number in (TABLE, OTHER)]
        for entry in self.log:
            feed(self.tables, entry)
        for table in self.tables:
            table.commit(Offset(self.committed))


def feed(tables: list[LockTable], entry: Entry) -> None:
    header = read_batch_header(entry.data)
    logged = read_logged(header, entry.data)
    for table in tables:
        table.apply(header, entry.data, Offset(entry.base_offset), logged)


def model(entries: list[Entry], number: int) -> tuple[dict[str, Lock], dict[str, int], int, int]:
    """Read a log in the simplest way: from its very beginning, in which the state is empty."""
    locks: dict[str, Lock] = {}
    attempts: dict[str, int] = {}
    records, kept, is_begun = 0, -1, False
    for entry in entries:
        header = read_batch_header(entry.data)
        logged = read_logged(header, entry.data)
        if logged is None:
            records += header.record_count if is_begun else 0
            continue
        if logged.table != number:
            continue
        is_begun = is_begun or (logged.kind is LoggedKind.SNAPSHOT and not logged.parts_left)
        for decision in logged.decisions:
            read = _decoder.decode(decision)
            match read:
                case Given():
                    assert read.name not in locks, "given while it was held"
                    assert read.lock.attempt == attempts.get(read.name, 0) + 1
                    locks[read.name], attempts[read.name] = read.lock, read.lock.attempt
                case Freed():
                    lock = locks.pop(read.name)
                    assert not read.is_expired or logged.lock_ms >= lock.due_ms, "it ended early"
                case Kept():
                    kept = read.offset
    return locks, attempts, records, kept


def state_of(table: LockTable) -> bytes:
    return table.snapshot()[1]


class Machine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1))
    def begin(self, seed: int) -> None:
        self.nodes = [Node() for _ in range(3)]
        self.term = 0
        self.leader = 0
        self.leads = False
        #: All that was ever in the log before what is committed, from its first offset on.
        self.history: list[Entry] = []
        self.tokens = 0
        self.clocks = [1_000, 50_000, 7]
        #: True time, and until when a lock was promised, by its owner.
        self.true_ms = 0
        self.promised_ms: dict[str, int] = {}
        self.waiting: dict[RequestToken, Acquire] = {}
        self.noted: list[Entry] = []
        self.elect(0)

    # -- a leader

    @property
    def node(self) -> Node:
        return self.nodes[self.leader]

    @property
    def table(self) -> LockTable:
        return self.node.tables[0]

    def instant(self) -> Instant:
        clock = self.clocks[self.leader]
        return Instant(clock, 1_700_000_000_000 - clock)

    def propose(self, data: bytes | bytearray) -> Entry:
        node = self.node
        header = read_batch_header(data)
        base = node.end_offset
        entry = Entry(self.term, base, base + header.last_offset_delta + 1, bytes(data))
        node.log.append(entry)
        return entry

    def end_turn(self) -> None:
        """What the host does: log what was decided, then a snapshot that is due."""
        for table in self.node.tables:
            logged = table.turn()
            if logged is not None:
                entry = self.propose(write_logged(logged))
                table.on_logged(logged, Offset(entry.base_offset), Offset(entry.next_offset))
                self.tell_others(table, entry)
            for part in table.snapshot_parts():
                entry = self.propose(write_logged(part))
                table.on_logged(part, Offset(entry.base_offset), Offset(entry.next_offset))
                self.tell_others(table, entry)
        self.take_answers()

    def tell_others(self, table: LockTable, entry: Entry) -> None:
        feed([each for each in self.node.tables if each is not table], entry)

    def take_answers(self) -> None:
        for item in self.table.take_ready():
            if isinstance(item, Respond):
                self.check_answer(item.token, item.result)
        for item in self.table.take_unconfirmed():
            assert isinstance(item, Respond), "what expires is logged"
            self.waiting.pop(item.token, None)

    def check_answer(self, token: RequestToken, answer: Answer) -> None:
        request = self.waiting.pop(token, None)
        if isinstance(answer, Granted):
            assert request is not None
            given = [
                read
                for entry in self.history
                for logged in [read_logged(read_batch_header(entry.data), entry.data)]
                if logged is not None and logged.table == TABLE
                for read in map(_decoder.decode, logged.decisions)
                if isinstance(read, Given)
            ]
            found = [
                each
                for each in given
                if (each.name, each.lock.attempt) == (answer.name, answer.attempt)
            ]
            assert [each.lock.owner for each in found] == [request.owner], "not committed"

    @rule(name=st.sampled_from(NAMES), ms=st.integers(1, 50), times=st.integers(1, 3))
    def acquire(self, name: str, ms: int, times: int) -> None:
        for _ in range(times):
            self.tokens += 1
            token = RequestToken(self.tokens)
            request = Acquire(token=token, name=name, owner=f"o{token}", ms=ms)
            self.waiting[token] = request
            self.promised_ms[request.owner] = self.true_ms + ms
            self.table.decide(request, self.instant())
        self.end_turn()

    @rule(name=st.sampled_from(NAMES), late=st.integers(0, 1))
    def let_go(self, name: str, late: int) -> None:
        self.tokens += 1
        attempt = self.table.state.attempts.get(name, 0) - late
        request = Release(token=RequestToken(self.tokens), name=name, attempt=attempt)
        self.table.decide(request, self.instant())
        self.end_turn()

    @rule(back=st.integers(0, 5))
    def keep(self, back: int) -> None:
        self.tokens += 1
        offset = max(self.node.start_offset, self.node.end_offset - back)
        request = Keep(token=RequestToken(self.tokens), offset=offset)
        self.table.decide(request, self.instant())
        self.end_turn()

    @rule(name=st.sampled_from(NAMES))
    def abandon(self, name: str) -> None:
        """The append is refused: what was decided is taken back."""
        before = state_of(self.table)
        self.table.decide(
            Acquire(token=RequestToken(0), name=name, owner="nobody", ms=9), self.instant()
        )
        self.table.abandon_turn()
        assert state_of(self.table) == before

    @rule(count=st.integers(1, 3))
    def produce(self, count: int) -> None:
        records = [Record(number, 5, b"k", b"v", ()) for number in range(count)]
        entry = self.propose(encode_batch(records))
        feed(self.node.tables, entry)

    @rule(ms=st.integers(1, 40))
    def pass_time(self, ms: int) -> None:
        self.clocks = [each + ms for each in self.clocks]
        self.true_ms += ms
        due_ms = self.table.next_deadline_ms()
        if due_ms is not None and due_ms <= self.clocks[self.leader]:
            before = dict(self.table.state.locks)
            self.table.tick(self.instant())
            for name in before.keys() - self.table.state.locks.keys():
                assert self.promised_ms[before[name].owner] <= self.true_ms, "it ended early"
            self.end_turn()

    # -- followers

    @rule(which=st.integers(0, 2), count=st.integers(1, 6))
    def replicate(self, which: int, count: int) -> None:
        """Let a follower have some more of the leader's log, once what differs is cut off."""
        node = self.nodes[which]
        if which == self.leader:
            return
        leader = self.node
        same = self.match(node)
        if node.end_offset > same:
            node.cut(same)
        for entry in [each for each in leader.log if each.base_offset >= same][:count]:
            node.put(entry)
        node.commit(leader.committed)

    def match(self, node: Node) -> int:
        """Return up to where a log is the leader's."""
        others = {entry.next_offset: entry for entry in self.node.log}
        start = max(node.start_offset, self.node.start_offset)
        found = [e.next_offset for e in node.log if others.get(e.next_offset) == e]
        return max([start, node.committed, *found])

    @rule()
    def commit(self) -> None:
        ends = sorted(
            node.end_offset if node is self.node else self.match(node) for node in self.nodes
        )
        majority = ends[1]
        last = [e for e in self.node.log if e.next_offset <= majority]
        # Only what this leader's term covers.
        if not last or last[-1].term != self.term or majority <= self.node.committed:
            return
        known = self.history[-1].next_offset if self.history else 0
        self.history += [e for e in last if e.base_offset >= known]
        self.node.commit(majority)
        self.take_answers()
        self.compare()

    @rule(which=st.integers(0, 2))
    def elect(self, which: int) -> None:
        """Another one leads, whose log has all that is committed."""
        node = self.nodes[which]
        known = self.history[-1].next_offset if self.history else 0
        has_all = node.end_offset >= known and all(
            entry in node.log for entry in self.history if entry.base_offset >= node.start_offset
        )
        if not has_all or node.start_offset > known:
            return
        if self.leads:
            for table in self.node.tables:
                table.unlead()
            self.waiting.clear()
        self.term += 1
        self.leader, self.leads = which, True
        for table in node.tables:
            table.lead(self.instant())
        for table in node.tables:
            for part in table.snapshot_parts():
                entry = self.propose(write_logged(part))
                table.on_logged(part, Offset(entry.base_offset), Offset(entry.next_offset))
                self.tell_others(table, entry)

    @rule(which=st.integers(0, 2), is_taken_up=st.booleans())
    def restart(self, which: int, is_taken_up: bool) -> None:
        node = self.nodes[which]
        before = [state_of(table) for table in node.tables]
        if is_taken_up:
            node.take_up()
        else:
            node.restart()
        assert [state_of(table) for table in node.tables] == before
        if which == self.leader:
            self.waiting.clear()
            for table in node.tables:
                table.lead(self.instant())

    @rule(which=st.integers(0, 2), bytes_max=st.sampled_from((1, 200, 1 << 20)))
    def trim(self, which: int, bytes_max: int) -> None:
        """Give up what no table needs, and take snapshots more or less often from now on."""
        replicated.SNAPSHOT_BYTES = bytes_max
        replicated.SNAPSHOT_FACTOR = 0 if bytes_max == 1 else 4
        node = self.nodes[which]
        held = [table.start_held_at() for table in node.tables]
        if None in held:
            return
        start = min(node.committed, *(each for each in held if each is not None))
        while node.log and node.log[0].next_offset <= start:
            node.start_offset = node.log.pop(0).next_offset

    # -- what must hold

    def compare(self) -> None:
        """Compare what is committed with the model."""
        for position, number in enumerate((TABLE, OTHER)):
            whole = LockTable(number)
            for entry in self.history:
                feed([whole], entry)
            locks, attempts, records, kept = model(self.history, number)
            state = whole.state
            assert (state.locks, state.attempts) == (locks, attempts)
            assert (state.records, state.kept_offset) == (records, kept)
            held = self.node.tables[position].start_held_at()
            if held is None:
                continue
            tail = LockTable(number, held)
            for entry in self.history:
                if entry.base_offset >= held:
                    feed([tail], entry)
            assert state_of(tail) == state_of(whole)
            installed = LockTable(number)
            installed.install(whole.end_offset, state_of(whole), whole.lock_ms, whole.wall_ms)
            assert state_of(installed) == state_of(whole)

    @invariant()
    def each_replica_is_as_its_log_says(self) -> None:
        for node in getattr(self, "nodes", ()):
            whole = [entry for entry in self.history if entry.base_offset < node.start_offset]
            for table in node.tables:
                fresh = LockTable(table.number)
                for entry in (*whole, *node.log):
                    feed([fresh], entry)
                assert table.end_offset == node.end_offset
                assert state_of(fresh) == state_of(table), (table.number, node.start_offset)
                assert len(table._applied) <= len(node.log)

    def teardown(self) -> None:
        replicated.SNAPSHOT_BYTES, replicated.SNAPSHOT_FACTOR = 256 * 1024, 4


TestMachine = Machine.TestCase
