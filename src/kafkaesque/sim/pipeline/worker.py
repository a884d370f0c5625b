"""A worker: one life of a process that consumes, transforms and produces, exactly once.

Theory of operation. It joins its group, and shuts out whoever had its transactional id before. Then
it goes round: it asks for committed offsets where it does not know them (stable ones only), takes
what comes next, writes an output for each input, has the offsets committed as part of the same
transaction, and commits. Some transactions it aborts on purpose. After an abort, or when what it
owns has changed, it forgets where it was and asks again.

Between two steps it may crash, with everything it knows, or be paused for so long that others take
its place; when it goes on it does not know. What it commits then it commits as who it was when it
took its inputs. When it is shut out it ends, and is started anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.transaction_history import SimTransaction, Who
from kafkaesque.sim.clients.transactional_producer import Step
from kafkaesque.sim.pipeline.classic_member import ClassicMember
from kafkaesque.sim.pipeline.committed_offsets import CommittedOffsets
from kafkaesque.sim.pipeline.consumer_member import ConsumerMember
from kafkaesque.sim.pipeline.history import PipelineHistory, Source, transform
from kafkaesque.sim.pipeline.input_reader import InputReader, Taken
from kafkaesque.sim.pipeline.ownership import NOTHING, GroupMember
from kafkaesque.sim.pipeline.producer import ProducerKind, WorkerProducer

#: Inputs of one partition that one transaction takes.
INPUTS_MAX: Final = 12
PAUSE_MS: Final = 20
ABORT_ONE_IN: Final = 6
#: Before a step it waits, so often, and so long: then its group can change meanwhile.
SLOW_ONE_IN: Final = 8
SLOW_MS_MAX: Final = 1_000
#: After a commit it asks where it is, so often, although it could know.
ASK_ONE_IN: Final = 4


class Fate(Protocol):
    """What may befall a worker between two steps."""

    @property
    def is_calm(self) -> bool:
        """Whether nothing befalls it any more, and it aborts nothing on purpose."""

    @property
    def is_stopped(self) -> bool:
        """Whether it is to begin no transaction any more."""

    def strike(self) -> None:
        """Let the worker crash or be paused in a moment, or not."""

    def end(self) -> None:
        """End the worker: somebody else has taken its place. It is started anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the workers of a group have in common: topics, with the numbers of their partitions."""

    bootstrap: Sequence[Address]
    group_id: str
    input_topic: str
    input_partitions: int
    output_topic: str
    output_partitions: int


class Worker:
    """Consumes, transforms, produces."""

    def __init__(
        self,
        env: Env,
        job: Job,
        who: Who,
        history: PipelineHistory,
        fate: Fate,
        kind: ProducerKind,
        *,
        is_classic: bool,
    ) -> None:
        """`is_classic` says which protocol of groups it speaks."""
        self._env: Final = env
        self._job: Final = job
        self._history: Final = history
        self._fate: Final = fate
        self._is_classic: Final = is_classic
        inputs = KafkaClient(env, job.bootstrap, job.input_topic)
        # Its own connections: what others wait for does not hold up heartbeats.
        heart = KafkaClient(env, job.bootstrap, job.input_topic)
        self._member: Final[GroupMember] = (
            ClassicMember(heart, job.group_id, job.input_partitions)
            if is_classic
            else ConsumerMember(heart, job.group_id)
        )
        self._reader: Final = InputReader(inputs)
        self._offsets: Final = CommittedOffsets(inputs, job.group_id, history)
        self._producer: Final = WorkerProducer(
            KafkaClient(env, job.bootstrap, job.output_topic),
            who,
            job.group_id,
            history.transactions,
            kind,
        )
        #: Who it is, from when it takes inputs until their transaction is over.
        self._owner = NOTHING
        self._positions: dict[int, int] = {}
        #: Of its transactions.
        self._number = 0
        #: Whether it has ended what it had begun, and begins nothing any more.
        self.is_idle = False
        self._begin()

    def _begin(self) -> None:
        client = self._producer.client
        self._producer.begin(self._next, lambda: client.later(self._begin))

    # -- taking inputs

    def _later(self) -> None:
        self._env.clock.call_later(1 + self._env.dice.below(2 * PAUSE_MS), self._next)

    def _next(self) -> None:
        self.is_idle = self._fate.is_stopped
        if self.is_idle:
            return
        owner = self._member.ownership
        if owner != self._owner:
            self._owner = owner
            self._positions = {}
        if not owner.partitions:
            self._later()
        elif self._positions:
            self._reader.fetch(self._positions, self._on_taken)
        else:
            asks_as = None if self._is_classic else owner
            self._offsets.fetch(owner.partitions, asks_as, self._on_positions)

    def _on_positions(self, positions: dict[int, int] | None) -> None:
        self._positions = positions or {}
        self._later()

    def _on_taken(self, taken: Taken) -> None:
        if not taken:
            self._later()
            return
        below = self._env.dice.below
        some = {each: records[: 1 + below(INPUTS_MAX)] for each, records in taken.items()}
        self._number += 1
        transaction = self._producer.open(self._number)
        self._then(lambda: self._write(transaction, some))

    def _then(self, act: Callable[[], None]) -> None:
        """Do what comes next, now or after a while, unless fate is faster."""
        self._fate.strike()
        below = self._env.dice.below
        is_slow = not self._fate.is_calm and below(SLOW_ONE_IN) == 0
        self._env.clock.call_later(below(SLOW_MS_MAX) if is_slow else 0, act)

    # -- one transaction

    def _write(self, transaction: SimTransaction, taken: Taken) -> None:
        below = self._env.dice.below
        outputs: dict[int, list[bytes]] = {}
        number = 0
        for partition, records in taken.items():
            for offset, value in records:
                source = Source(partition, offset, value)
                values = outputs.setdefault(below(self._job.output_partitions), [])
                values.append(transform(transaction, source, number))
                number += 1
        offsets = {partition: records[-1][0] + 1 for partition, records in taken.items()}
        aborts = not self._fate.is_calm and below(ABORT_ONE_IN) == 0
        aborts_early = aborts and below(2) == 0

        def on_written(step: Step) -> None:
            if step is not Step.DONE:
                self._give_up()
            elif aborts_early:
                self._then(lambda: self._abort(transaction))
            else:
                self._then(lambda: self._commit(transaction, offsets, is_wanted=not aborts))

        self._producer.write_all(transaction, outputs, on_written)

    def _commit(
        self, transaction: SimTransaction, offsets: dict[int, int], *, is_wanted: bool
    ) -> None:
        def on_committed(step: Step) -> None:
            if step is Step.OVER:
                self._give_up()
            elif step is Step.NOT_MEMBER:
                self._history.left_count += 1
                self._abort(transaction)
            elif is_wanted:
                self._then(lambda: self._end(transaction, offsets))
            else:
                self._then(lambda: self._abort(transaction))

        self._producer.commit_offsets(
            transaction, offsets, self._job.input_topic, self._owner, on_committed
        )

    def _end(self, transaction: SimTransaction, offsets: dict[int, int]) -> None:
        def on_ended(step: Step) -> None:
            if step is not Step.DONE:
                self._give_up()
                return
            self._positions.update(offsets)
            if self._env.dice.below(ASK_ONE_IN) == 0:
                self._positions = {}
            self._then(self._next)

        self._producer.end(transaction, is_commit=True, on_step=on_ended)
        self._fate.strike()

    def _abort(self, transaction: SimTransaction) -> None:
        def on_ended(step: Step) -> None:
            if step is not Step.DONE:
                self._give_up()
                return
            self._positions = {}
            self._then(self._next)

        self._producer.end(transaction, is_commit=False, on_step=on_ended)

    def _give_up(self) -> None:
        self._history.shut_out_count += 1
        self._fate.end()
