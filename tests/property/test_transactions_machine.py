"""Producers that share transactional ids, over connections that delay and a log that fails over.

A request travels in the queue of its connection: within one nothing is overtaken, but a connection
that its client has given up may deliver what it still holds at any time. Answers get lost with it.
Every transaction adds a partition that no other one ever adds, so the log shows whose transaction
was ended and who had asked for that.

What must always hold: a producer id and epoch belong to one client, and only that client's
transactions commit under them; what is decided is what is completed, across coordinators too;
markers go into exactly the partitions that were added; nobody is told what is not in the log; a
delayed request ends or joins no later transaction, and only delayed ones are refused as such. And
when all is quiet again, everybody is answered and somebody can work.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import LogRecord, RequestToken
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import (
    NO_CONNECTION,
    AddedPartitions,
    AddPartitions,
    EndTransaction,
    ForceAbort,
    InitProducerId,
)
from kafkaesque.transactions.producer_entries import EPOCH_MAX
from kafkaesque.transactions.records import TransactionValue, read_key, read_value, write_key
from kafkaesque.transactions.records import write_value as written_value
from kafkaesque.transactions.states import PREPARED, TRANSITIONS, TransactionState
from tests.unit.transactions.desk import WALL_MS, Desk

E = TransactionError
S = TransactionState
TIMEOUT_MS = 20_000
CONFIG = TransactionConfig(
    transactional_id_expiration_ms=40_000, expiration_check_interval_ms=9_000
)
IDS = ("one", "two")
#: A partition that many transactions have in common.
SHARED = TopicPartition("shared", 0)
COME_AGAIN = (
    E.CONCURRENT_TRANSACTIONS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.NOT_COORDINATOR,
)
#: "one" begins near the end of its epochs, so that these are used up.
FIRST = LogRecord(
    write_key("one"),
    written_value(
        TransactionValue(
            producer_id=7,
            producer_epoch=EPOCH_MAX - 4,
            timeout_ms=TIMEOUT_MS,
            state=S.EMPTY,
            update_wall_ms=WALL_MS,
        )
    ),
)


@dataclass(eq=False)
class Work:
    """One transaction of a client's."""

    number: int
    client: "Client"
    #: Those that it was told are in.
    added: set[TopicPartition] = field(default_factory=set)
    asked: set[bool] = field(default_factory=set)


@dataclass(eq=False)
class Request:
    """What a client waits for, or has given up waiting for."""

    client: "Client"
    kind: str
    #: The event but for its token and connection.
    options: dict[str, Any]
    work: Work | None
    token: RequestToken | None = None


class Client:
    """A producer as its own library would drive it."""

    def __init__(self, name: str, connection: int, *, learns: bool) -> None:
        self.name = name
        self.learns = learns
        self.connection = connection
        self.producer: tuple[int, int] | None = None
        self.work: Work | None = None
        self.waits_for: Request | None = None
        self.wants: bool | None = None
        #: It has asked for another epoch, and insists.
        self.begins_again = False
        self.commits = 0


class TransactionMachine(RuleBasedStateMachine):
    """Clients, connections, a desk, and what has been seen."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(CONFIG, log=[FIRST])
        self.clients: list[Client] = []
        self.connections = 0
        #: What travels, by connection.
        self.queues: dict[int, deque[Request]] = {}
        #: Requests that were delivered, by token.
        self.sent: dict[RequestToken, Request] = {}
        self.answered: set[RequestToken] = set()
        self.works: dict[TopicPartition, Work] = {}
        self.owners: dict[tuple[str, int, int], Client] = {}
        self.seen = 0
        self.last: dict[str, TransactionValue] = {}
        self.outcomes: dict[Work | None, bool] = {}
        self.markers_wanted: set[tuple[TopicPartition, int, int, bool]] = set()
        self.markers_seen: set[tuple[TopicPartition, int, int, bool]] = set()

    # --- clients ---

    def open_connection(self) -> int:
        self.connections += 1
        self.queues[self.connections] = deque()
        return self.connections

    @initialize(learns=st.booleans())
    def begin(self, learns: bool) -> None:
        """Two are at work already, one with each protocol."""
        for name, does_learn in zip(IDS, (learns, not learns), strict=True):
            self.start(name, does_learn)
            self.work_on(self.clients[-1], "add", 4)

    @precondition(lambda self: len(self.clients) < 4)
    @rule(name=st.sampled_from(IDS), learns=st.booleans())
    def start(self, name: str, learns: bool) -> None:
        """It connects now, and may begin long after."""
        self.clients.append(Client(name, self.open_connection(), learns=learns))

    @precondition(lambda self: self.clients)
    @rule(
        data=st.data(), choice=st.sampled_from(["add", "add", "commit", "commit", "abort", "init"])
    )
    def act(self, data: st.DataObject, choice: str) -> None:
        self.poll(data.draw(st.sampled_from(self.clients)), choice)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), choice=st.sampled_from(["add", "commit"]), steps=st.integers(2, 6))
    def go_on(self, data: st.DataObject, choice: str, steps: int) -> None:
        """Somebody gets on with the work, undisturbed."""
        self.work_on(data.draw(st.sampled_from(self.clients)), choice, steps)

    def work_on(self, client: Client, choice: str, steps: int) -> None:
        for step in range(steps):
            if client in self.clients:
                self.poll(client, "add" if step < steps - 2 else choice)
                self.deliver_all(client.connection)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def reconnect(self, data: st.DataObject) -> None:
        """Give up a connection, and ask again over another one."""
        client = data.draw(st.sampled_from(self.clients))
        client.connection = self.open_connection()
        if client.waits_for is not None:
            before = client.waits_for
            client.waits_for = None
            self.send(client, before.kind, before.options, before.work)

    @precondition(lambda self: self.clients)
    @rule(
        data=st.data(),
        choice=st.sampled_from(["add", "commit", "abort"]),
        retried=st.sampled_from(["add", "commit"]),
        steps=st.integers(2, 12),
        is_late=st.booleans(),
        is_slow=st.booleans(),
    )
    def overtake(
        self,
        data: st.DataObject,
        choice: str,
        retried: str,
        steps: int,
        is_late: bool,
        is_slow: bool,
    ) -> None:
        """A request is given up and repeated; the first one arrives at once, or after all.

        It may be that records are on their way meanwhile.
        """
        client = data.draw(st.sampled_from(self.clients))
        connection = client.connection
        self.deliver_all(connection)
        self.poll(client, choice)
        if client in self.clients and client.waits_for is None:
            self.poll(client, choice)
        self.desk.holds_writes |= is_slow
        if not is_late:
            self.deliver_all(connection)
        client.connection = self.open_connection()
        if client.waits_for is not None:
            before, client.waits_for = client.waits_for, None
            self.send(client, before.kind, before.options, before.work)
        for _ in range(steps):
            self.deliver_all(client.connection)
            if client in self.clients:
                self.poll(client, retried)
        self.deliver_all(connection)

    @precondition(lambda self: any(self.queues.values()))
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        full = [each for each, queue in self.queues.items() if queue]
        self.deliver_one(data.draw(st.sampled_from(full)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """What it has sent is still on its way."""
        self.clients.remove(data.draw(st.sampled_from(self.clients)))

    def poll(self, client: Client, choice: str) -> None:
        """Take the answer that has come, or ask for the next thing."""
        request = client.waits_for
        if request is not None:
            answer = None if request.token is None else self.desk.answers.get(request.token)
            if answer is not None:
                client.waits_for = None
                self.take(client, request, answer)
            return
        if client.producer is None or client.begins_again:
            self.send_init(client)
            return
        producer_id, epoch = client.producer
        if choice == "init" and client.wants is None:
            # Something went wrong: go on with another epoch (KIP-360).
            client.work = None
            client.begins_again = True
            self.send_init(client)
            return
        if client.work is not None and not client.work.added:
            # There is nothing to end, as far as it knows. Only a client that learns its epochs may
            # abort nevertheless.
            if choice == "commit" or not client.learns:
                choice = "add"
        if client.wants is None and (client.work is None or choice == "add"):
            self.send_add(client, producer_id, epoch)
            return
        if client.wants is None:
            client.wants = choice == "commit"
        work = client.work
        assert work is not None
        work.asked.add(client.wants)
        options = {
            "transactional_id": client.name,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "is_commit": client.wants,
            "learns_epoch": client.learns,
        }
        self.send(client, "end", options, work)

    def send_init(self, client: Client) -> None:
        options: dict[str, Any] = {"timeout_ms": TIMEOUT_MS, "transactional_id": client.name}
        if client.producer is not None:
            options["producer_id"], options["producer_epoch"] = client.producer
        self.send(client, "init", options)

    def send_add(self, client: Client, producer_id: int, epoch: int) -> None:
        if client.work is None:
            client.work = Work(len(self.works), client)
        own = TopicPartition("own", len(self.works))
        self.works[own] = client.work
        added = AddedPartitions(client.name, producer_id, epoch, (own, SHARED))
        self.send(client, "add", {"transactions": (added,)}, client.work)

    def send(
        self, client: Client, kind: str, options: dict[str, Any], work: Work | None = None
    ) -> None:
        request = Request(client, kind, options, work)
        client.waits_for = request
        self.queues[client.connection].append(request)

    def deliver_all(self, connection: int) -> None:
        while self.queues[connection]:
            self.deliver_one(connection)

    def deliver_one(self, connection: int) -> None:
        request = self.queues[connection].popleft()
        request.token = self.desk.token()
        self.sent[request.token] = request
        kinds = {"init": InitProducerId, "add": AddPartitions, "end": EndTransaction}
        # What is added for a client that learns its epochs comes from the partitions' leaders.
        is_by_broker = request.kind == "add" and request.client.learns
        self.observe()
        self.desk.ask(
            kinds[request.kind](
                token=request.token,
                connection=NO_CONNECTION if is_by_broker else connection,
                **request.options,
            )
        )

    def take(self, client: Client, request: Request, answer: Any) -> None:
        error = answer.error if request.kind != "add" else error_of_added(answer)
        assert error is not E.INVALID_PRODUCER_EPOCH, "refused as delayed, which it is not"
        if error in COME_AGAIN:
            return
        if error in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING):
            # Shut out: it is of no more use.
            self.clients.remove(client)
        elif request.kind == "init":
            assert error is E.NONE
            client.producer = (answer.producer_id, answer.producer_epoch)
            client.begins_again = False
        elif request.kind == "add":
            assert error is E.NONE
            assert client.work is request.work
            assert request.work is not None
            request.work.added.update(request.options["transactions"][0].partitions)
        elif error is E.INVALID_TXN_STATE:
            assert client.learns, "its transaction was open, and it has not ended it otherwise"
            assert request.options["is_commit"] or not client.work or True in client.work.asked
            # Its time was up. It aborts, to go on.
            client.wants = False
        else:
            assert error is E.NONE
            client.commits += request.options["is_commit"]
            client.work = client.wants = None
            if client.learns:
                client.producer = (answer.producer_id, answer.producer_epoch)

    # --- what else happens ---

    @rule(by_ms=st.sampled_from([1, 100, 3_000, 6_000, TIMEOUT_MS]))
    def wait(self, by_ms: int) -> None:
        self.desk.advance(by_ms)

    @rule(writes=st.booleans(), ids=st.booleans(), markers=st.booleans())
    def hold(self, writes: bool, ids: bool, markers: bool) -> None:
        self.desk.holds_writes, self.desk.holds_ids = writes, ids
        self.desk.holds_markers = markers
        self.release()

    def release(self) -> None:
        if not self.desk.holds_ids:
            self.desk.give_ids()
        if not self.desk.holds_writes:
            self.desk.commit_held()
        if not self.desk.holds_markers:
            self.write_all_markers()

    @precondition(lambda self: self.desk.held)
    @rule(data=st.data())
    def fail_write(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.desk.held) - 1))
        self.desk.fail_held(position=position)

    @precondition(lambda self: self.desk.held)
    @rule()
    def commit_write(self) -> None:
        self.desk.commit_held(1)

    @precondition(lambda self: self.desk.held_ids)
    @rule()
    def refuse_id(self) -> None:
        self.desk.refuse_id()

    @precondition(lambda self: self.desk.markers or self.desk.written)
    @rule(data=st.data())
    def write_marker(self, data: st.DataObject) -> None:
        """One of those that are wanted, or a repeated report of one from before."""
        known = [*self.desk.markers, *(work for work, _ in self.desk.written[-3:])]
        work = data.draw(st.sampled_from(known))
        is_new = work in self.desk.markers
        written = [*self.desk.written]
        self.desk.write_marker(work, data.draw(st.sampled_from(work.partitions)))
        if not is_new:
            self.desk.written = written

    def write_all_markers(self) -> None:
        self.desk.write_markers()

    @rule(name=st.sampled_from(IDS))
    def force_abort(self, name: str) -> None:
        self.desk.ask(ForceAbort(token=self.desk.token(), transactional_id=name))

    @rule(keeps=st.integers(0, 3))
    def fail_over(self, keeps: int) -> None:
        """Another broker takes over; of the writes in flight the first few have made it."""
        self.desk.table.unload()
        self.desk.pump()
        assert set(self.desk.asked) == set(self.desk.answers)
        self.observe()
        before = self.desk
        for write in before.held[:keeps]:
            before.log += write.records
        self.desk = before.reopened(is_active=False)
        # A failed producer id may have been handed out; token numbers are not used twice here.
        self.desk.asked = before.asked
        self.desk.answers = before.answers
        self.desk.table.activate(self.desk.now)
        self.desk.holds_markers = before.holds_markers
        self.desk.holds_writes = before.holds_writes
        self.desk.pump()
        # The old broker is the coordinator no more: nothing that it still hears has an effect.
        self.queues = {}
        self.connections = 0
        for client in self.clients:
            client.connection = self.open_connection()
            if client.waits_for is not None:
                lost, client.waits_for = client.waits_for, None
                self.send(client, lost.kind, lost.options, lost.work)

    # --- what must hold ---

    @invariant()
    def observe(self) -> None:
        """Compare everything new in the log, the answers and the markers with what may be."""
        new = [each for each in self.desk.answers if each not in self.answered]
        answers = [(self.sent[each], self.desk.answers[each]) for each in new if each in self.sent]
        self.answered.update(new)
        for request, answer in answers:
            if request.kind != "add" and answer.producer_id >= 0:
                self.own(request, answer)
        for record in self.desk.log[self.seen :]:
            name = read_key(record.key)
            assert name is not None
            self.see(name, None if record.value is None else read_value(record.value))
        self.seen = len(self.desk.log)
        for work, partition in self.desk.written:
            marker = (partition, work.producer_id, work.producer_epoch, work.is_commit)
            assert marker in self.markers_wanted
            self.markers_seen.add(marker)
        for request, answer in answers:
            if request.kind == "end" and answer.error is E.NONE:
                assert self.outcomes.get(request.work, False) is request.options["is_commit"]

    def see(self, name: str, value: TransactionValue | None) -> None:
        before = self.last.get(name)
        if value is None:
            assert before is not None
            assert before.state in (S.EMPTY, S.COMPLETE_ABORT, S.COMPLETE_COMMIT)
            del self.last[name]
            return
        self.last[name] = value
        if before is None:
            assert value.state is S.EMPTY
            return
        if before.state in PREPARED and value.state is S.ONGOING:
            # What begins the next transaction completes this one.
            is_commit = before.state is S.PREPARE_COMMIT
            before_state = S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT
            assert before_state in TRANSITIONS[before.state]
        else:
            before_state = before.state
        assert value.state in TRANSITIONS[before_state]
        if value.producer_id == before.producer_id:
            assert value.producer_epoch >= before.producer_epoch
        else:
            assert value.producer_epoch == 0
        if value.state in PREPARED:
            self.see_decision(name, before, value)
        if before.state in PREPARED:
            self.see_completion(before)

    def see_decision(self, name: str, before: TransactionValue, value: TransactionValue) -> None:
        is_commit = value.state is S.PREPARE_COMMIT
        assert value.partitions == (before.partitions if before.state is S.ONGOING else frozenset())
        works = {self.works[each] for each in value.partitions if each != SHARED}
        assert len(works) <= 1, "two transactions in one"
        for each in value.partitions:
            marker = (each, value.producer_id, value.producer_epoch, is_commit)
            if each != SHARED:
                assert (*marker[:3], not is_commit) not in self.markers_wanted
            self.markers_wanted.add(marker)
        for work in works:
            assert work not in self.outcomes, "ended twice"
            self.outcomes[work] = is_commit
            is_fenced = value.producer_epoch > before.producer_epoch
            if is_commit or not is_fenced:
                assert is_commit in work.asked, "nobody has asked for this end"
                owner = self.owners.get((name, before.producer_id, before.producer_epoch))
                assert owner is work.client, "somebody else's transaction"
            if is_commit:
                assert work.added <= value.partitions, "a partition was lost"

    def see_completion(self, before: TransactionValue) -> None:
        is_commit = before.state is S.PREPARE_COMMIT
        written = {
            (partition, work.producer_id, work.producer_epoch, work.is_commit)
            for work, partition in self.desk.written
        }
        for each in before.partitions:
            marker = (each, before.producer_id, before.producer_epoch, is_commit)
            assert marker in self.markers_seen | written, "completed without its marker"

    def own(self, request: Request, answer: Any) -> None:
        """A producer id and epoch belong to whoever was the first to be told."""
        assert answer.producer_epoch < EPOCH_MAX, "nobody could be shut out any more"
        key = (request.client.name, answer.producer_id, answer.producer_epoch)
        owner = self.owners.setdefault(key, request.client)
        assert owner is request.client, "two clients with one epoch"

    def teardown(self) -> None:
        """Quiet: everybody is answered, and a new producer of each id can commit."""
        self.desk.advance(CONFIG.addition_wait_ms + CONFIG.write_timeout_ms + 1)
        assert set(self.desk.asked) == set(self.desk.answers), "somebody waits for ever"
        self.desk.holds_writes = self.desk.holds_ids = self.desk.holds_markers = False
        self.release()
        self.observe()
        for name in IDS:
            client = Client(name, self.open_connection(), learns=name == "one")
            self.clients.append(client)
            for _ in range(40):
                assert client in self.clients, "shut out by nobody"
                self.poll(client, "add" if client.work is None else "commit")
                self.deliver_all(client.connection)
                self.desk.advance(CONFIG.retry_backoff_ms)
                self.observe()
            assert client.commits > 3, "nothing goes on"
        for value in self.last.values():
            assert value.state not in PREPARED


def error_of_added(answer: Any) -> TransactionError:
    """All partitions of one transaction have the same error, unless they are only asked about."""
    errors = {each.error for each in answer.transactions[0].partitions}
    assert len(errors) == 1
    error = errors.pop()
    assert isinstance(error, TransactionError)
    return error


TestTransactions: Any = TransactionMachine.TestCase
