"""The producer of a worker: transactions that carry offsets, one step after the other.

The kind that adds partitions itself adds the group, too; the other leaves that to the brokers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkaesque.sim.clients.coordinator_link import BUSY, LOST, CoordinatorLink, KeyType
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.transaction_history import SimTransaction, TransactionHistory, Who
from kafkaesque.sim.clients.transactional_producer import OnStep, Step, TransactionalProducer
from kafkaesque.sim.pipeline.ownership import Ownership

#: Of who keeps its epoch, and of who learns the next one.
OFFSET_COMMIT_VERSIONS: Final = (3, 5)

#: The member is none any more, or of another generation.
_NOT_MEMBER: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
#: What a group answers that does not know everything yet.
_PASSING: Final = (*BUSY, *LOST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class ProducerKind(NamedTuple):
    """What tells one producer from another."""

    learns_epoch: bool
    transaction_timeout_ms: int


class WorkerProducer(TransactionalProducer):
    """Runs one transaction after the other."""

    def __init__(
        self,
        client: KafkaClient,
        who: Who,
        group_id: str,
        history: TransactionHistory,
        kind: ProducerKind,
    ) -> None:
        super().__init__(
            client,
            who,
            history,
            learns_epoch=kind.learns_epoch,
            timeout_ms=kind.transaction_timeout_ms,
        )
        self._group_id: Final = group_id
        self._group: Final = CoordinatorLink(client, group_id, KeyType.GROUP)

    # -- writing

    def write_all(
        self,
        transaction: SimTransaction,
        outputs: Mapping[int, Sequence[bytes]],
        on_step: OnStep,
    ) -> None:
        """Write values to partitions."""
        left = set(outputs)
        steps: list[Step] = []

        def receiver(partition: int) -> OnStep:
            def on_written(step: Step) -> None:
                steps.append(step)
                left.discard(partition)
                if not left:
                    is_over = Step.OVER in steps
                    if is_over:
                        self.history.note_refused(transaction, is_unsure=False)
                    on_step(Step.OVER if is_over else Step.DONE)

            return on_written

        def go_on(step: Step) -> None:
            if step is not Step.DONE:
                on_step(step)
                return
            for partition, values in outputs.items():
                self.write(transaction, partition, [*values], receiver(partition))

        self.add(transaction, sorted(outputs), go_on)

    # -- offsets

    def commit_offsets(
        self,
        transaction: SimTransaction,
        offsets: Mapping[int, int],
        topic: str,
        owner: Ownership,
        on_step: OnStep,
    ) -> None:
        """Commit offsets of a topic as part of the transaction, as the member that `owner` was."""
        commit = TxnOffsetCommitRequest(
            transactional_id=self.who.transactional_id,
            group_id=self._group_id,
            producer_id=self.session.identity.producer_id,
            producer_epoch=self.session.identity.epoch,
            generation_id=owner.generation,
            member_id=owner.member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic,
                    [
                        TxnOffsetCommitRequestPartition(
                            partition, offset, committed_metadata=str(transaction)
                        )
                        for partition, offset in offsets.items()
                    ],
                )
            ],
        )
        if self.learns_epoch:
            self._send_offsets(transaction, commit, on_step)
            return

        def go_on(step: Step) -> None:
            if step is Step.DONE:
                self._send_offsets(transaction, commit, on_step)
            else:
                on_step(step)

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            what = f"AddOffsetsToTxn of {transaction}"
            self.end_step(transaction, what, response.error_code, go_on, was_shut_out=was_shut_out)

        self.session.add_offsets(self._group_id, receive)

    def _send_offsets(
        self, transaction: SimTransaction, commit: TxnOffsetCommitRequest, on_step: OnStep
    ) -> None:
        was_shut_out = self.was_shut_out

        def receive(response: Any) -> None:
            codes = {ErrorCode.COORDINATOR_NOT_AVAILABLE}
            if response is not None:
                codes = {each.error_code for each in response.topics[0].partitions}
            code = max(codes)
            if code in _PASSING:
                if code in LOST:
                    self._group.forget()
                self.client.later(lambda: self._send_offsets(transaction, commit, on_step))
            elif code in _NOT_MEMBER:
                on_step(Step.NOT_MEMBER)
            else:
                what = f"TxnOffsetCommit of {transaction}"
                self.end_step(transaction, what, code, on_step, was_shut_out=was_shut_out)

        version = OFFSET_COMMIT_VERSIONS[self.learns_epoch]
        self._group.ask(ApiKey.TXN_OFFSET_COMMIT, version, commit, receive)
