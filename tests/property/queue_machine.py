"""A queue on three replicas of a log, and its clients: what may happen to it, in any order.

The history is what is committed. After every commit the model reads it, which refuses what must
never be decided, and is compared with the table of the leader; each replica's table must be what a
replay of its own log gives, and snapshots with what follows them must give the same.
"""

from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.ids import Offset
from kafkaesque.queues import requests as r
from kafkaesque.queues.policy import Overflow, Policy, Sharing
from kafkaesque.queues.requests import Claim, Move, Request, Verdict
from kafkaesque.queues.snapshot import live_in
from kafkaesque.queues.table import QueueTable
from kafkaesque.tables import replicated
from kafkaesque.tables.log_table import Instant, RequestToken, Respond
from kafkaesque.tables.logged import Logged, LoggedKind, read_logged, write_logged
from tests.property.queue_model import Asked, Model
from tests.unit.queues.queue_host import TABLE, Entry, Message, cleaned, encode, entry_at, feed

WALL_MS = 1_700_000_000_000
POLICIES = (
    Policy(lock_ms=20, grace_ms=15),
    Policy(lock_ms=20, attempts_max=2, dead_letters_to="dead", retry_ms_min=5, retry_ms_max=20),
    Policy(lock_ms=20, priorities=4, is_fair=True, attempts_max=1),
    Policy(lock_ms=20, is_ordered=True, attempts_max=3, retry_ms_min=10, counts_bytes=True),
    Policy(lock_ms=20, is_ordered=True, dead_letters_to="dead", attempts_max=1, grace_ms=15),
    Policy(lock_ms=20, is_fair_by_group=True, attempts_max=3, retry_ms_min=10, counts_bytes=True),
    Policy(lock_ms=20, messages_max=4, grace_ms=15),
    Policy(
        bytes_max=300, counts_in_flight=True, overflow=Overflow.DEAD_LETTER, dead_letters_to="x"
    ),
    Policy(lock_ms=20, messages_max=5, overflow=Overflow.REJECT, deduplication_ms=80),
    Policy(lock_ms=20, ttl_ms=400, delay_ms=10, deduplication_ms=80, priorities=2),
    Policy(lock_ms=20, sharing=Sharing.SINGLE_ACTIVE, in_flight_max=3, grace_ms=15),
    Policy(lock_ms=20, ttl_ms=100, keeps_begun=True, grace_ms=15),
    Policy(lock_ms=20, holds_nothing=True),
    Policy(holds_nothing=True, overflow=Overflow.DEAD_LETTER, dead_letters_to="dead"),
)
SESSIONS = (b"s1", b"s2", b"s3")


class Node:
    """One replica: its log, from where it is kept, and its table."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.start_offset = 0
        self.committed = 0
        self.table = QueueTable(TABLE)

    @property
    def end_offset(self) -> int:
        return self.log[-1].next_offset if self.log else self.start_offset

    def put(self, entry: Entry) -> None:
        self.log.append(entry)
        feed(self.table, entry)

    def cut(self, end_offset: int) -> None:
        while self.log and self.log[-1].next_offset > end_offset:
            self.log.pop()
        assert self.table.cut(Offset(end_offset))

    def commit(self, offset: int) -> None:
        self.committed = max(self.committed, min(offset, self.end_offset))
        self.table.commit(Offset(self.committed))

    def restart(self) -> None:
        """Begin again with nothing but what the log still has."""
        self.table = QueueTable(TABLE, Offset(self.start_offset))
        for entry in self.log:
            feed(self.table, entry)
        self.table.commit(Offset(self.committed))


def state_of(table: QueueTable) -> bytes:
    return table.snapshot()[1]


class Cluster:
    """See the module; a rule of the machine is a method here."""

    def __init__(self) -> None:
        self.nodes = [Node() for _ in range(3)]
        self.term = self.leader = 0
        self.leads = False
        #: All that was ever committed, and when it was decided in truth.
        self.history: list[Entry] = []
        self.whole = QueueTable(TABLE)
        self.read = self.commits = 0
        self.decided_ms: dict[tuple[int, int], int] = {}
        self.asked = Asked()
        self.model = Model(self.asked)
        self.tokens = 0
        self.clocks = [1_000, 50_000, 7]
        self.skews_ms = [0, 0, 0]
        self.true_ms = 0
        self.grace_until_ms = 0
        #: Requests that wait for their answers, and claims that clients know of.
        self.waiting: dict[RequestToken, Request] = {}
        self.claims: list[Claim] = []
        self.delivered: set[tuple[int, int]] = set()
        self.attached: dict[bytes, bool] = {}
        #: Moves that the host was asked for, and what the targets have, by number.
        self.moves: list[Move] = []
        self.targets: dict[str, dict[int, int]] = {}
        self.elect(0)

    # -- the leader

    @property
    def node(self) -> Node:
        return self.nodes[self.leader]

    @property
    def table(self) -> QueueTable:
        return self.node.table

    def instant(self) -> Instant:
        wall_ms = WALL_MS + self.true_ms + self.skews_ms[self.leader]
        return Instant(self.clocks[self.leader], wall_ms)

    def propose(self, data: bytes | bytearray) -> Entry:
        entry = entry_at(self.term, self.node.end_offset, data)
        self.node.log.append(entry)
        self.decided_ms[entry.term, entry.base_offset] = self.true_ms
        return entry

    def log(self, logged: Logged) -> None:
        entry = self.propose(write_logged(logged))
        self.table.on_logged(logged, Offset(entry.base_offset), Offset(entry.next_offset))

    def end_turn(self) -> None:
        """What the host does: log what was decided, then a snapshot that is due."""
        logged = self.table.turn()
        if logged is not None:
            self.log(logged)
            for part in self.table.snapshot_parts():
                self.log(part)
        self.take_effects()

    def take_effects(self) -> None:
        effects = self.table.take_ready()
        if self.node.committed == self.node.end_offset:
            effects += self.table.take_unconfirmed()
        for effect in effects:
            match effect:
                case Respond():
                    self.on_answer(effect.token, effect.result)
                case r.Deliver():
                    self.on_given(effect.claims)
                case Move():
                    self.moves.append(effect)
                case r.Activate():
                    pass

    def on_answer(self, token: RequestToken, answer: r.Answer) -> None:
        request = self.waiting.pop(token, None)
        assert request is not None, "answered twice, or nobody asked"
        match answer:
            case r.Taken():
                self.on_given(answer.claims)
            case r.Attached():
                assert isinstance(request, r.Attach)
                self.attached[request.session] = True
            case _:
                pass

    def on_given(self, claims: tuple[Claim, ...]) -> None:
        for claim in claims:
            for offset in range(claim.first, claim.end):
                key = offset, claim.attempt
                assert key in self.model.given, f"{key} is given out and not committed"
                assert key not in self.delivered, f"{key} is delivered twice"
                self.delivered.add(key)
        self.claims += claims

    def ask(self, kind: type[Request], **fields: object) -> RequestToken:
        self.tokens += 1
        token = RequestToken(self.tokens)
        request = kind(token=token, **fields)  # type: ignore[arg-type]
        self.waiting[token] = request
        self.table.decide(request, self.instant())
        self.end_turn()
        return token

    # -- publishers

    def put(self, messages: list[Message]) -> None:
        """Append messages that are admitted, as a host does."""
        now = self.instant()
        wall_ms = max(now.wall_ms, self.table.wall_ms)
        identities = [message.identity for message in messages]
        sizes = [len(message.value) for message in messages]
        admissions = self.table.admit(identities, sizes, now)
        admitted = [
            message._replace(
                not_before_ms=message.not_before_ms and wall_ms + message.not_before_ms,
                not_after_ms=message.not_after_ms and wall_ms + message.not_after_ms,
            )
            for message, admission in zip(messages, admissions, strict=True)
            if admission.verdict is Verdict.ADMITTED
        ]
        policy = self.table.state.policy
        if policy.overflow is Overflow.REJECT and policy.messages_max:
            waiting = self.table.state.ready_count + self.table.state.delayed.count
            assert not admitted or waiting + len(admitted) <= policy.messages_max
        if admitted:
            entry = self.propose(encode(admitted, wall_ms))
            feed(self.table, entry)
        self.tick()

    # -- consumers

    def take(self, count: int, lock_ms: int | None, wait_ms: int, session: int) -> None:
        who = ([None, *self.attached])[session % (len(self.attached) + 1)]
        self.ask(r.Take, session=who, messages_max=count, lock_ms=lock_ms, wait_ms=wait_ms)

    def grant(self, which: int, messages: int, size: int) -> None:
        if self.attached:
            session = list(self.attached)[which % len(self.attached)]
            self.ask(r.Grant, session=session, messages=messages, bytes=size)

    def attach(self, which: int) -> None:
        self.attached.setdefault(SESSIONS[which], False)
        self.ask(r.Attach, session=SESSIONS[which])

    def detach(self, which: int, is_failed: bool) -> None:
        session = SESSIONS[which]
        if self.attached.pop(session, None) is not None:
            self.leave(session)
            self.ask(r.Detach, session=session, is_failed=is_failed)

    def leave(self, session: bytes) -> None:
        """What a session has in flight may be taken from it."""
        state = self.table.state
        for number, name in state.sessions.items():
            owned = state.owned.get(number)
            if name == session and owned is not None:
                self.asked.returned.update((o, state.attempts[o]) for o in owned.offsets())

    def chosen(self, which: int) -> tuple[Claim, ...]:
        """Return claims that a client knows of, old ones too."""
        return tuple(self.claims[-1 - which :][:2]) if self.claims else ()

    @staticmethod
    def keys(claims: tuple[Claim, ...]) -> set[tuple[int, int]]:
        return {(offset, each.attempt) for each in claims for offset in range(each.first, each.end)}

    def settle(self, which: int, may_be_late: bool) -> None:
        claims = self.chosen(which)
        self.asked.settled |= self.keys(claims)
        self.ask(r.Settle, claims=claims, may_be_late=may_be_late)

    def give_back(self, which: int, is_failed: bool, to_tail: bool, delay_ms: int | None) -> None:
        claims = self.chosen(which)
        self.asked.returned |= self.keys(claims)
        self.ask(r.GiveBack, claims=claims, is_failed=is_failed, to_tail=to_tail, delay_ms=delay_ms)

    def reject(self, which: int) -> None:
        claims = self.chosen(which)
        self.asked.rejected |= self.keys(claims)
        self.ask(r.Reject, claims=claims)

    def extend(self, which: int, lock_ms: int) -> None:
        self.ask(r.Extend, claims=self.chosen(which), lock_ms=lock_ms)

    def stage(self, which: int, transaction: int) -> None:
        self.ask(r.Stage, claims=self.chosen(which), transaction=transaction)

    def finish(self, transaction: int, is_committed: bool) -> None:
        self.ask(r.Finish, transaction=transaction, is_committed=is_committed)

    # -- administrators

    def configure(self, which: int) -> None:
        self.ask(r.Configure, policy=POLICIES[which])

    def purge(self, *, takes_in_flight: bool = False) -> None:
        self.asked.is_purged = True
        self.asked.is_flight_purged |= takes_in_flight
        self.ask(r.Purge, takes_in_flight=takes_in_flight)

    def redrive(self, target: str) -> None:
        self.ask(r.Redrive, target=target)

    def unpark(self) -> None:
        self.ask(r.Unpark)

    def move(self, count: int, reports: bool) -> None:
        """Do what the host was asked for, in order; the report may be lost."""
        done, self.moves = self.moves[:count], self.moves[count:]
        for move in done:
            there = self.targets.setdefault(move.target, {})
            assert move.sequence <= len(there), "a number is left out"
            assert there.setdefault(move.sequence, move.offset) == move.offset, "a number twice"
        if reports and done:
            self.ask(r.Moved, offsets=tuple(move.offset for move in done))

    def not_moved(self) -> None:
        """The first target is gone."""
        if self.moves and self.moves[0].sequence not in self.targets.get(self.moves[0].target, {}):
            move, self.moves = self.moves[0], self.moves[1:]
            # What took the number there is nothing.
            self.targets.setdefault(move.target, {}).setdefault(move.sequence, move.offset)
            self.ask(r.NotMoved, offsets=(move.offset,))

    def note_disuse(self, unused_ms: int) -> None:
        wall_ms = self.instant().wall_ms
        self.ask(r.NoteDisuse, unused_ms=unused_ms, wall_ms=wall_ms, step_ms=unused_ms // 10)

    def note_use(self) -> None:
        self.ask(r.NoteUse)

    # -- time

    def pass_time(self, ms: int) -> None:
        self.clocks = [each + ms for each in self.clocks]
        self.true_ms += ms
        if self.grace_until_ms <= self.true_ms:
            for session in self.table.state.sessions.values():
                if session not in self.attached:
                    self.leave(session)
        self.tick()

    def skew(self, which: int, ms: int) -> None:
        """Set a wall clock, forwards or backwards."""
        self.skews_ms[which] = ms

    def tick(self) -> None:
        for _ in range(20):
            due_ms = self.table.next_deadline_ms()
            if due_ms is None or due_ms > self.clocks[self.leader]:
                return
            self.table.tick(self.instant())
            self.end_turn()
        raise AssertionError("there is always something to do")

    # -- followers and leaders

    def replicate(self, which: int, count: int) -> None:
        """Let a follower have some more of the leader's log, once what differs is cut off."""
        node = self.nodes[which]
        if which == self.leader:
            return
        same = self.match(node)
        if node.end_offset > same:
            node.cut(same)
        for entry in [each for each in self.node.log if each.base_offset >= same][:count]:
            node.put(entry)
        node.commit(self.node.committed)

    def match(self, node: Node) -> int:
        """Return up to where a log is the leader's."""
        others = {entry.next_offset: entry for entry in self.node.log}
        start = max(node.start_offset, self.node.start_offset)
        found = [e.next_offset for e in node.log if others.get(e.next_offset) == e]
        return max([start, node.committed, *found])

    def commit(self) -> None:
        ends = sorted(
            node.end_offset if node is self.node else self.match(node) for node in self.nodes
        )
        last = [e for e in self.node.log if e.next_offset <= ends[1]]
        if not last or last[-1].term != self.term or ends[1] <= self.node.committed:
            return
        known = self.history[-1].next_offset if self.history else 0
        for entry in [e for e in last if e.base_offset >= known]:
            self.history.append(entry)
            self.model.read(entry, self.decided_ms[entry.term, entry.base_offset])
        self.node.commit(ends[1])
        self.take_effects()
        self.compare()
        self.commits += 1
        if self.commits % 5 == 0:
            self.check_replicas()

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
            self.table.unlead()
        self.term += 1
        self.leader, self.leads = which, True
        self.begin_to_lead()

    def begin_to_lead(self) -> None:
        self.waiting.clear()
        self.attached.clear()
        self.moves.clear()
        self.grace_until_ms = self.true_ms + self.table.state.policy.grace_ms
        self.table.lead(self.instant())
        for part in self.table.snapshot_parts():
            self.log(part)
        self.end_turn()
        self.tick()

    def restart(self, which: int) -> None:
        node = self.nodes[which]
        before = state_of(node.table)
        node.restart()
        assert state_of(node.table) == before
        if which == self.leader:
            self.begin_to_lead()

    def abandon(self, count: int) -> None:
        """The append is refused: what was decided is taken back, and the replica leads anew."""
        before = state_of(self.table)
        self.tokens += 1
        take = r.Take(token=RequestToken(self.tokens), messages_max=count)
        self.table.decide(take, self.instant())
        self.table.abandon_turn()
        assert state_of(self.table) == before
        self.table.unlead()
        self.begin_to_lead()

    def trim(self, which: int, bytes_max: int) -> None:
        """Give up what no table needs, and take snapshots more or less often from now on."""
        replicated.SNAPSHOT_BYTES = bytes_max
        replicated.SNAPSHOT_FACTOR = 0 if bytes_max == 1 else 4
        node = self.nodes[which]
        held = node.table.start_held_at()
        if held is None:
            return
        start = min(node.committed, held)
        while node.log and node.log[0].next_offset <= start:
            node.start_offset = node.log.pop(0).next_offset

    # -- what must hold

    def compare(self) -> None:
        """Compare what is committed with the model, and with what snapshots give."""
        whole = self.whole
        for entry in self.history[self.read :]:
            feed(whole, entry)
        self.read = len(self.history)
        whole.commit(whole.end_offset)
        self.model.compare(whole.state)
        for target, offsets in self.model.killed.items():
            there = self.targets.get(target, {})
            assert all(offsets[number] == offset for number, offset in there.items())
        installed = QueueTable(TABLE)
        installed.install(whole.end_offset, state_of(whole), whole.lock_ms, whole.wall_ms)
        assert state_of(installed) == state_of(whole)
        self.model.compare(installed.state)
        held = self.node.table.start_held_at()
        if held is not None and self.commits % 3 == 0:
            self.compare_rest(whole, held)
            self.compare_cleaned(whole)

    def compare_rest(self, whole: QueueTable, held: int) -> None:
        """What the log has to keep is enough, also without what the newest snapshot calls dead."""
        rest = [entry for entry in self.history if entry.base_offset >= held]
        tail = QueueTable(TABLE, Offset(held))
        for entry in rest:
            feed(tail, entry)
        assert state_of(tail) == state_of(whole)
        assert held <= (whole.state.live.first() or held), "what lives is given up"
        for entry in rest:
            logged = read_logged(read_batch_header(entry.data), entry.data)
            if logged is not None and logged.kind is LoggedKind.SNAPSHOT and not logged.parts_left:
                named = set(live_in(logged.part).offsets())
                lost = [o for o in whole.state.live.offsets() if o < entry.base_offset]
                assert named.issuperset(lost), "a snapshot calls dead what lives"

    def compare_cleaned(self, whole: QueueTable) -> None:
        """A replica that gets the log while it is cleaned finds the state behind the snapshot."""
        live = self.node.table.live_before(Offset(self.node.committed))
        if live is None:
            return
        before = [entry for entry in self.history if entry.next_offset <= live.end_offset]
        given = [cleaned(entry, live) for entry in before]
        first = self.commits * 7_919 % (len(before) + 1)
        parts = [at for at, each in enumerate(given) if each and each != before[at]]
        windows = [(first, first + self.commits * 6_007 % (len(before) - first + 1))]
        windows += [(at, at + 1) for at in parts[-1:]]
        for first, end in windows:
            fresh = QueueTable(TABLE)
            for entry in (*before[:first], *given[first:end], *before[end:]):
                if entry is not None:
                    feed(fresh, entry)
            for entry in self.history[len(before) :]:
                feed(fresh, entry)
            assert state_of(fresh) == state_of(whole), "another state behind a hole"

    def check_replicas(self) -> None:
        for node in self.nodes:
            whole = [entry for entry in self.history if entry.base_offset < node.start_offset]
            fresh = QueueTable(TABLE)
            for entry in (*whole, *node.log):
                feed(fresh, entry)
            assert node.table.end_offset == node.end_offset
            assert state_of(fresh) == state_of(node.table)

    def end(self) -> None:
        replicated.SNAPSHOT_BYTES, replicated.SNAPSHOT_FACTOR = 256 * 1024, 4
