"""TxnOffsetCommit: a group's offsets that count when a transaction is committed."""

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_views import readable_partition
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.confirmation import PASSING, Confirmation
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import (
    code_of,
    code_of_group_error,
    code_of_transaction_error,
)
from kafkaesque.gateway.kafka.groups import error_of
from kafkaesque.groups import events
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import CommitResult, Result
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    NotLeader,
    RequestRefused,
    StorageFailed,
    TransactionUnverified,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)
from kafkaesque.protocols.kafka.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkaesque.transactions.errors import TransactionError

#: From this version on, the coordinator has the group's partition added to the transaction, and
#: clients can be told that aborting is the way on (KIP-890 part 2).
_WITH_ADDING = 5


def on_txn_offset_commit(context: Context, call: Call) -> None:
    """Store offsets within a transaction; answered when they are in the log."""
    commit = _Commit(context.doors, call, call.read())
    if commit.is_empty:
        commit.answer()
    else:
        group_ids = (commit.request.group_id,)
        context.doors.groups.when_found(group_ids, commit.start)


class _Commit:
    """A TxnOffsetCommit under way: where the answer of each partition belongs."""

    __slots__ = ("_call", "_doors", "_offsets", "_places", "_topics", "request")

    def __init__(self, doors: Doors, call: Call, request: TxnOffsetCommitRequest) -> None:
        self._doors = doors
        self._call = call
        self.request = request
        self._topics: list[TxnOffsetCommitResponseTopic] = []
        #: What exists, and the answers that are left open, in the same order.
        self._offsets: list[events.OffsetToCommit] = []
        self._places: list[TxnOffsetCommitResponsePartition] = []
        for topic in request.topics:
            answers = [self._sort_out(topic.name, each) for each in topic.partitions]
            self._topics.append(TxnOffsetCommitResponseTopic(topic.name, answers))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to bring to the coordinator."""
        return not self._offsets

    def _sort_out(
        self, name: str, each: TxnOffsetCommitRequestPartition
    ) -> TxnOffsetCommitResponsePartition:
        answer = TxnOffsetCommitResponsePartition(each.partition_index)
        try:
            state = readable_partition(self._doors.cluster.state, name, each.partition_index)
        except RequestRefused as refusal:
            answer.error_code = code_of(refusal)
            return answer
        self._offsets.append(
            events.OffsetToCommit(
                partition=TopicPartition(name, each.partition_index),
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata or "",
                topic_id=state.topic_id,
                is_by_name=True,
            )
        )
        self._places.append(answer)
        return answer

    def start(self, before: Confirmation | None = None) -> None:
        """See to it that the transaction is open in the group's partition, then commit."""
        request = self.request
        code = _impossible(request)
        if code is not ErrorCode.NONE:
            self._refuse(code)
            return
        try:
            where = self._doors.groups.find(request.group_id)
            partition = self._doors.reading.partition(where)
            partition.check_leader()
            connection = self._call.connection.number
            partition.producers.expect_transaction(request.producer_id, request.transactional_id)
            partition.producers.check_transaction(
                request.producer_id, request.producer_epoch, connection
            )
        except LeaderNotAvailable:
            self._refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except (NotLeader, StorageFailed):
            # Where the disk failed, another broker takes over; nothing else passes for clients.
            self._refuse(ErrorCode.NOT_COORDINATOR)
        except TransactionUnverified as unverified:
            self._confirm(where, unverified, before)
        except RequestRefused as refusal:
            self._refuse(code_of(refusal))
        else:
            self._commit()

    def _confirm(
        self,
        where: TopicPartition,
        unverified: TransactionUnverified,
        before: Confirmation | None,
    ) -> None:
        connection = self._call.connection
        confirmation = Confirmation(
            self._doors,
            where,
            self.request.transactional_id,
            unverified,
            is_adding=self._call.version >= _WITH_ADDING,
            before=before,
        )

        def go_on() -> None:
            if not connection.is_open:
                return
            connection.release()
            if confirmation.error is TransactionError.NONE:
                self.start(confirmation)
            else:
                self._refuse(self._transaction_code(confirmation.error))

        # Nothing of this connection may overtake it.
        connection.hold()
        confirmation.run(go_on)

    def _transaction_code(self, error: TransactionError) -> ErrorCode:
        if error in PASSING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        is_new = self._call.version >= _WITH_ADDING
        if error is TransactionError.TRANSACTION_ABORTABLE and not is_new:
            return ErrorCode.INVALID_TXN_STATE
        return code_of_transaction_error(error, is_fenced_known=False)

    def _commit(self) -> None:
        request = self.request
        coordinators = self._doors.groups
        commit = events.CommitOffsets(
            token=coordinators.next_token(),
            group_id=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            offsets=tuple(self._offsets),
        )
        event = events.CommitOffsetsInTransaction(
            commit=commit, producer_id=request.producer_id, producer_epoch=request.producer_epoch
        )
        coordinators.step(request.group_id, event, self._on_result)

    def _on_result(self, result: Result | GroupError) -> None:
        if not isinstance(result, CommitResult):
            self._refuse(code_of_group_error(error_of(result)))
            return
        for place, partition in zip(self._places, result.partitions, strict=True):
            place.error_code = code_of_group_error(partition.error)
        self.answer()

    def _refuse(self, code: ErrorCode) -> None:
        for place in self._places:
            place.error_code = code
        self.answer()

    def answer(self) -> None:
        """Say how it went for each partition."""
        self._call.answer(TxnOffsetCommitResponse(topics=self._topics))


def _impossible(request: TxnOffsetCommitRequest) -> ErrorCode:
    """Return why nobody can be the producer that the request names; NONE if somebody may be."""
    if request.producer_id < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch < 0:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NONE
