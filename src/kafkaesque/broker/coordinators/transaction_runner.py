"""Runs transactions for clients that say all of one at once: queues and topics, all or none.

Theory of operation. Whatever broker a client has asked sends the whole of it to one that
coordinates transactions, best to itself. That one takes one of a few transactional ids of its own,
has the logs' leaders append in a transaction, and decides: commit if all have, else abort. So what
Kafka's transactions promise holds for queues, too (ADR 6): if this broker dies before the decision,
nothing of it is ever seen; after it, all of it. Ids are named by the coordinator's partition, so
the next leader takes them over, and ends what the dead one has left open.

A refusal says that nothing was done, and `RequestTimedOut` that nobody knows: the decision was
asked for, and there was no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.coordinators.transaction_host import Answer
from kafkaesque.broker.coordinators.transactions import TransactionCoordinators
from kafkaesque.broker.metadata.topic_names import TRANSACTIONS_TOPIC
from kafkaesque.broker.peers.link import PeerNotAsked, PeerUnreachable
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.desk import OnServed, RequestDesk
from kafkaesque.broker.requests.retries import OnOutcome, retry
from kafkaesque.broker.requests.transaction_requests import (
    JoinedTransaction,
    JoinTransaction,
    RunTransaction,
    TransactionOutcome,
    TransactionPart,
)
from kafkaesque.env.clock import Clock
from kafkaesque.model.coordinator_partition import coordinator_partition
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    OverBound,
    RequestRefused,
    RequestTimedOut,
    UnknownTopicId,
)
from kafkaesque.model.ids import NodeId, TopicId, TopicPartition
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import (
    NO_CONNECTION,
    AddedPartitions,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    Request,
)
from kafkaesque.transactions.results import AddPartitionsResult, EndResult, InitResult

#: What begins so is run by brokers.
ID_PREFIX: Final = "__kafkaesque-"
#: Transactions that one coordinator's partition runs at a time.
RUNNING_MAX: Final = 64
#: A transaction whose broker died is aborted after this, or when its id is taken over.
OPEN_MS_MAX: Final = 15_000
#: A request has so long at most; the open transaction lasts longer.
REQUEST_MS_MAX: Final = 10_000
AGAIN_MS: Final = 5
_PASSING: Final = (
    TransactionError.CONCURRENT_TRANSACTIONS,
    TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
)

Join = Callable[[JoinTransaction, Callable[[JoinedTransaction | RequestRefused], None]], None]
OnRun = Callable[[TransactionOutcome | RequestRefused], None]


@dataclass(slots=True)
class _Session:
    """One of the broker's own producers."""

    coordinator: int
    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1


class TransactionRunner:
    """See the module."""

    def __init__(
        self,
        *,
        node: NodeId,
        clock: Clock,
        caller: RemoteCaller,
        metadata: MetadataView,
        leaders: LeadersTable,
        coordinators: TransactionCoordinators,
        join: Join,
    ) -> None:
        self.node = node
        self.clock = clock
        self.caller = caller
        self.metadata = metadata
        self.leaders = leaders
        self.coordinators = coordinators
        #: Appends to a log that is led here.
        self.join = join
        #: By the coordinator's partition: those that nobody uses, and how many there are.
        self._idle: dict[int, list[_Session]] = {}
        self._made: dict[int, int] = {}

    def register(self, desk: RequestDesk) -> None:
        """Have the requests of other brokers served."""

        def join(_: NodeId, request: JoinTransaction, on_done: OnServed) -> None:
            self.join(request, on_done)

        desk.register(JoinTransaction, join)
        desk.register(RunTransaction, lambda _, request, on_done: self.serve(request, on_done))

    # -- for gateways

    def run(self, parts: list[TransactionPart], timeout_ms: int, on_done: OnRun) -> None:
        """Run a transaction somewhere; see the module for what refusals say."""
        wanted_ms = min(timeout_ms, REQUEST_MS_MAX)

        def attempt(left_ms: int, on_outcome: OnOutcome[TransactionOutcome]) -> None:
            leader, coordinator = self._coordinator()
            request = RunTransaction(coordinator=coordinator, parts=parts, timeout_ms=left_ms)
            if leader == self.node:
                self.serve(request, on_outcome)
            else:
                settle = _settled(on_outcome)
                self.caller.ask(leader, request, TransactionOutcome, left_ms, settle)

        def too_late(last: RequestRefused | None) -> RequestRefused:
            return LeaderNotAvailable(f"no coordinator has run the transaction: {last}")

        def begin() -> None:
            retry(self.clock, wanted_ms, attempt, on_done, too_late, passing=(LeaderNotAvailable,))

        # The first one waits until there is a topic to keep transactions in.
        self.coordinators.when_found((ID_PREFIX,), begin)

    def _coordinator(self) -> tuple[NodeId, int]:
        """Return a coordinator's leader and partition; this broker, if it leads one.

        Raises:
            LeaderNotAvailable: none is known.
        """
        self.coordinators.find(ID_PREFIX)
        topic = self.metadata.state.topics[TRANSACTIONS_TOPIC]
        led = [
            (leader, state.partition)
            for state in topic.partitions
            if (leader := self.leaders.leader(state.group)) is not None
        ]
        if not led:
            raise LeaderNotAvailable("no coordinator of transactions has a leader")
        return next((each for each in led if each[0] == self.node), led[0])

    # -- on the coordinator's broker

    def serve(self, request: RunTransaction, on_done: OnRun) -> None:
        """Run a transaction here; `on_done` gets refusals, too."""
        try:
            session = self._take(request.coordinator)
            _Run(self, session, request, on_done).begin()
        except RequestRefused as refusal:
            on_done(refusal)

    def _take(self, coordinator: int) -> _Session:
        topic = self.metadata.state.topics.get(TRANSACTIONS_TOPIC)
        if topic is None or not 0 <= coordinator < len(topic.partitions):
            raise LeaderNotAvailable("this broker does not know the coordinator's partition")
        idle = self._idle.setdefault(coordinator, [])
        if idle:
            return idle.pop(0)
        number = self._made.get(coordinator, 0)
        if number >= RUNNING_MAX:
            raise OverBound(f"{RUNNING_MAX} transactions are under way at one coordinator")
        self._made[coordinator] = number + 1
        return _Session(coordinator, _name_of(coordinator, number, len(topic.partitions)))

    def give_back(self, session: _Session, *, is_known: bool) -> None:
        """A session is not used any more; one of which nobody knows how it stands begins anew."""
        if not is_known:
            session.producer_id = session.producer_epoch = -1
        self._idle[session.coordinator].append(session)


class _Run:
    """One transaction."""

    __slots__ = ("_deadline_ms", "_joined", "_left", "_on_done", "_refusal", "_request", "_runner",
                 "_session")  # fmt: skip

    def __init__(
        self,
        runner: TransactionRunner,
        session: _Session,
        request: RunTransaction,
        on_done: OnRun,
    ) -> None:
        self._runner = runner
        self._session = session
        self._request = request
        self._on_done = on_done
        self._deadline_ms = runner.clock.now_ms() + min(request.timeout_ms, REQUEST_MS_MAX)
        self._joined: list[JoinedTransaction | None] = [None] * len(request.parts)
        self._left = len(request.parts)
        self._refusal: RequestRefused | None = None

    def begin(self) -> None:
        """Take the id over, if it is not this broker's yet."""
        if self._session.producer_id >= 0:
            self._add()
            return
        self._step(
            lambda: InitProducerId(
                token=self._runner.coordinators.next_token(),
                connection=NO_CONNECTION,
                transactional_id=self._session.transactional_id,
                timeout_ms=OPEN_MS_MAX,
            ),
            self._on_begun,
        )

    def _on_begun(self, result: Answer) -> None:
        if not isinstance(result, InitResult) or result.error is not TransactionError.NONE:
            self._fail(_refusal_of(result))
            return
        self._session.producer_id = result.producer_id
        self._session.producer_epoch = result.producer_epoch
        self._add()

    def _add(self) -> None:
        """Have all logs in the transaction before the first of them is asked."""
        state = self._runner.metadata.state
        places: list[TopicPartition] = []
        for part in self._request.parts:
            owner = state.owner(TopicId(part.log_id))
            if owner is None:
                self._fail(UnknownTopicId("a topic or queue does not exist any more"))
                return
            places.append(TopicPartition(owner.name, part.partition))
        session = self._session
        added = AddedPartitions(
            session.transactional_id, session.producer_id, session.producer_epoch, tuple(places)
        )
        self._step(
            lambda: AddPartitions(
                token=self._runner.coordinators.next_token(),
                connection=NO_CONNECTION,
                transactions=(added,),
            ),
            self._on_added,
        )

    def _on_added(self, result: Answer) -> None:
        if _error_of(result) is not TransactionError.NONE:
            self._fail(_refusal_of(result))
            return
        for number, part in enumerate(self._request.parts):
            self._join(number, part)

    def _join(self, number: int, part: TransactionPart) -> None:
        session, runner = self._session, self._runner
        left_ms = max(1, self._deadline_ms - runner.clock.now_ms())
        request = JoinTransaction(
            transactional_id=session.transactional_id,
            producer_id=session.producer_id,
            producer_epoch=session.producer_epoch,
            part=part,
            timeout_ms=left_ms,
        )

        def on_outcome(outcome: JoinedTransaction | RequestRefused | PeerUnreachable) -> None:
            if isinstance(outcome, JoinedTransaction):
                self._joined[number] = outcome
            elif isinstance(outcome, RequestRefused):
                self._refusal = outcome
            else:
                self._refusal = LeaderNotAvailable(f"a log's leader was not reached: {outcome}")
            self._left -= 1
            if not self._left:
                # Not within the turn of a log.
                runner.clock.call_soon(self._decide)

        owner = runner.metadata.state.owner(TopicId(part.log_id))
        group = None if owner is None else owner.partitions[part.partition].group
        leader = None if group is None else runner.leaders.leader(group)
        if leader is None:
            on_outcome(LeaderNotAvailable("a log has no leader at the moment"))
        elif leader == runner.node:
            runner.join(request, on_outcome)
        else:
            runner.caller.ask(leader, request, JoinedTransaction, left_ms, on_outcome)

    def _decide(self) -> None:
        joined = [each for each in self._joined if each is not None]
        is_good = self._refusal is None and not any(map(_is_in_vain, joined))
        session = self._session
        self._step(
            lambda: EndTransaction(
                token=self._runner.coordinators.next_token(),
                connection=NO_CONNECTION,
                transactional_id=session.transactional_id,
                producer_id=session.producer_id,
                producer_epoch=session.producer_epoch,
                is_commit=is_good,
                learns_epoch=True,
            ),
            lambda result: self._on_decided(result, joined, is_commit=is_good),
            is_decision=is_good,
        )

    def _on_decided(
        self, result: Answer, joined: list[JoinedTransaction], *, is_commit: bool
    ) -> None:
        is_done = isinstance(result, EndResult) and result.error is TransactionError.NONE
        if isinstance(result, EndResult) and is_done:
            self._session.producer_id = result.producer_id
            self._session.producer_epoch = result.producer_epoch
        self._runner.give_back(self._session, is_known=is_done)
        if self._refusal is not None:
            self._on_done(_nothing_done(self._refusal))
        elif not is_commit:
            self._on_done(TransactionOutcome(joined, is_committed=False))
        elif is_done:
            self._on_done(TransactionOutcome(joined, is_committed=True))
        elif _error_of(result) in _REFUSED:
            # It was aborted meanwhile: its time was up, or another broker has taken over.
            self._on_done(_nothing_done(_refusal_of(result)))
        else:
            self._on_done(RequestTimedOut(f"nobody knows whether it is committed: {result}"))

    def _fail(self, refusal: RequestRefused) -> None:
        """Nothing is in any log, or nothing that will be committed."""
        self._runner.give_back(self._session, is_known=False)
        self._on_done(_nothing_done(refusal))

    def _step(
        self,
        make: Callable[[], Request],
        on_result: Callable[[Answer], None],
        *,
        is_decision: bool = False,
    ) -> None:
        """Ask the coordinator, and again while something is under way there."""
        runner = self._runner

        def on_answer(result: Answer) -> None:
            may_wait = runner.clock.now_ms() + AGAIN_MS < self._deadline_ms
            if _error_of(result) in _PASSING and may_wait and not is_decision:
                runner.clock.call_later(AGAIN_MS, attempt)
            else:
                # Not within the coordinator's turn.
                runner.clock.call_soon(lambda: on_result(result))

        def attempt() -> None:
            runner.coordinators.step(self._session.transactional_id, make(), on_answer)

        attempt()


#: By these the coordinator says that it has not committed, and will not.
_REFUSED: Final = (
    TransactionError.PRODUCER_FENCED,
    TransactionError.INVALID_PRODUCER_EPOCH,
    TransactionError.INVALID_TXN_STATE,
    TransactionError.INVALID_PRODUCER_ID_MAPPING,
)


def _name_of(coordinator: int, number: int, count: int) -> str:
    """Return an id that belongs to this coordinator: the first one of this number that does."""
    attempt = 0
    while True:
        name = f"{ID_PREFIX}{coordinator}-{number}-{attempt}"
        if coordinator_partition(name, count) == coordinator:
            return name
        attempt += 1


def _is_in_vain(joined: JoinedTransaction) -> bool:
    return bool(joined.stale) or -1 in joined.offsets


def _error_of(result: Answer) -> TransactionError:
    if isinstance(result, TransactionError):
        return result
    if isinstance(result, InitResult | EndResult):
        return result.error
    if isinstance(result, AddPartitionsResult):
        errors = [each.error for one in result.transactions for each in one.partitions]
        return next((each for each in errors if each is not TransactionError.NONE), errors[0])
    return TransactionError.UNKNOWN_SERVER_ERROR


def _refusal_of(result: Answer) -> RequestRefused:
    error = _error_of(result)
    if error is TransactionError.OVER_BOUND:
        return OverBound("too much is under way at the coordinator")
    return LeaderNotAvailable(f"the coordinator of the transaction says {error.name}")


def _nothing_done(refusal: RequestRefused) -> RequestRefused:
    """Return a refusal that says that nothing was done: what a log did will be aborted."""
    if isinstance(refusal, RequestTimedOut):
        return LeaderNotAvailable(f"it was aborted: {refusal}")
    return refusal


def _settled(
    on_outcome: OnOutcome[TransactionOutcome],
) -> Callable[[TransactionOutcome | RequestRefused | PeerUnreachable], None]:
    def settle(outcome: TransactionOutcome | RequestRefused | PeerUnreachable) -> None:
        if isinstance(outcome, PeerNotAsked):
            on_outcome(LeaderNotAvailable(str(outcome)))
        elif isinstance(outcome, PeerUnreachable):
            on_outcome(RequestTimedOut(f"{outcome}; it may or may not be committed"))
        else:
            on_outcome(outcome)

    return settle
