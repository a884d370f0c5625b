"""One question of why something waits: asks brokers for facts, within one bound of time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import AnswerT as PartT
from kafkaesque.admin.api.fan_out import Gathered, PartPage, QuestionT
from kafkaesque.admin.api.values import Origin
from kafkaesque.admin.api.why_client_part import WHY_CLIENTS
from kafkaesque.admin.api.why_clients import WhyClientsAnswer, WhyClientsQuestion
from kafkaesque.admin.api.why_links import (
    Link,
    Placed,
    WhyPartition,
    WhyPartitionAnswer,
    WhyPartitionQuestion,
    cut_off_link,
)
from kafkaesque.admin.api.why_part import WHY_PARTITIONS
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.topic_views import find_readable, readable_partition
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId, TopicPartition

#: An answer comes within a second, whoever hangs.
INQUIRY_MS_MAX: Final = 850
#: So long one broker is waited for.
STEP_MS_MAX: Final = 350
#: What is asked late may still be answered by those that do not hang.
STEP_MS_MIN: Final = 50

OnPlaced = Callable[[Sequence[Placed], Sequence[Origin]], None]


class Inquiry:
    """What one question asks of the cluster."""

    def __init__(self, context: Context, call: Call[Any, Any]) -> None:
        self.context: Final = context
        self._call = call
        #: Whether who asks may know of other clients, and of what rules say.
        self._sees_clients = call.could(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        self._until_ms = context.doors.clock.now_ms() + INQUIRY_MS_MAX
        #: Says that this broker's metadata may be old; None: they are not.
        self.doubt: Link | None = None

    def left_ms(self) -> int:
        """Return for how long the next answer may be waited for."""
        left_ms = self._until_ms - self.context.doors.clock.now_ms()
        return max(STEP_MS_MIN, min(STEP_MS_MAX, left_ms))

    def begin(self, on_begun: Callable[[], None]) -> None:
        """Find out whether what this broker knows of the cluster is true now; then go on.

        What is refused then is answered: topics may have gone meanwhile.
        """
        cluster = self.context.doors.cluster

        def on_current(is_current: bool) -> None:
            if not is_current or cluster.is_cut_off():
                others = [node for node in cluster.state.brokers if node != cluster.node]
                silent = [int(node) for node in others if not cluster.is_alive(node)]
                self.doubt = cut_off_link(int(self.context.node), sorted(silent))
            self._call.guard(on_begun)

        cluster.when_current(STEP_MS_MAX, on_current)

    def ask(
        self,
        page: PartPage[QuestionT, PartT],
        questions: Mapping[NodeId, QuestionT],
        on_done: Callable[[Gathered[PartT]], None],
    ) -> None:
        """Ask each broker its own question."""
        self.context.fan_out.ask(page, questions, on_done, self.left_ms())

    def ask_all(
        self,
        page: PartPage[QuestionT, PartT],
        question: QuestionT,
        on_done: Callable[[Gathered[PartT]], None],
    ) -> None:
        """Ask all brokers the same."""
        self.ask(page, dict.fromkeys(self.context.fan_out.all_brokers(), question), on_done)

    # -- partitions

    def has(self, where: TopicPartition) -> bool:
        """Tell whether there is a partition."""
        topic = self.context.doors.cluster.state.topics.get(where.topic)
        return topic is not None and 0 <= where.partition < len(topic.partitions)

    def has_readable(self, where: TopicPartition) -> bool:
        """Tell the same of what can be read by the name, which may show a queue."""
        topic = find_readable(self.context.doors.cluster.state, where.topic)
        return topic is not None and 0 <= where.partition < len(topic.partitions)

    def siblings(self, name: str) -> list[TopicPartition]:
        """Return all partitions of what can be read by a name."""
        topic = find_readable(self.context.doors.cluster.state, name)
        count = 0 if topic is None else len(topic.partitions)
        return [TopicPartition(name, number) for number in range(count)]

    def place(self, wheres: Iterable[TopicPartition], on_placed: OnPlaced) -> None:
        """Find out what metadata and leaders say of partitions, all of which exist.

        Raises:
            UnknownTopicOrPartition: one does not, or not any more.
        """
        cluster = self.context.doors.cluster
        asked = list(wheres)
        leaders = {where: cluster.leaders.leader(self._state(where).group) for where in asked}
        questions: dict[NodeId, dict[str, list[int]]] = {}
        for where, leader in leaders.items():
            if leader is not None:
                topics = questions.setdefault(leader, {})
                topics.setdefault(where.topic, []).append(where.partition)

        def on_gathered(gathered: Gathered[WhyPartitionAnswer]) -> None:
            led = {
                TopicPartition(each.topic, each.partition): each
                for answer in gathered.answers.values()
                for each in answer.partitions
            }
            placed = [self._placed(each, leaders[each], led.get(each)) for each in asked]
            on_placed(placed, gathered.sources)

        self.ask(
            WHY_PARTITIONS,
            {node: WhyPartitionQuestion(partitions=each) for node, each in questions.items()},
            on_gathered,
        )

    def _placed(
        self, where: TopicPartition, leader: NodeId | None, led: WhyPartition | None
    ) -> Placed:
        cluster = self.context.doors.cluster
        state = self._state(where)
        recovery = cluster.state.recoveries.get(state.group)
        return Placed(
            topic=where.topic,
            partition=where.partition,
            replicas=state.replicas,
            lost=self.lost(state.replicas),
            leader=leader,
            is_recovering=recovery is not None and recovery.is_open,
            led=led,
        )

    def _state(self, where: TopicPartition) -> PartitionState:
        return readable_partition(self.context.doors.cluster.state, where.topic, where.partition)

    def lost(self, replicas: Iterable[NodeId]) -> dict[int, int | None]:
        """Return brokers that are not heard of, and for how many ms, if that is known."""
        cluster, now_ms = self.context.doors.cluster, self.context.doors.clock.now_ms()
        found: dict[int, int | None] = {}
        for node in replicas:
            if not cluster.is_alive(node):
                lost_ms = cluster.lost_ms(node)
                found[int(node)] = now_ms - lost_ms if lost_ms else None
        return found

    def disk_refusal(self, node: NodeId, on_done: Callable[[str | None], None]) -> None:
        """Find out why a broker's disk takes nothing; None: it does, or the broker is silent."""

        def on_gathered(gathered: Gathered[WhyPartitionAnswer]) -> None:
            answer = gathered.answers.get(node)
            on_done(None if answer is None else answer.disk_refusal)

        self.ask(WHY_PARTITIONS, {node: WhyPartitionQuestion(partitions={})}, on_gathered)

    # -- clients

    def clients(
        self,
        needs: Iterable[tuple[Operation, ResourceType, str]],
        on_done: Callable[[WhyClientsAnswer], None],
    ) -> None:
        """Find out which clients quotas hold back, and which were refused one of these needs.

        Who may not know of clients is told only of those that quotas hold back, without what they
        publish to: members of a group that it sees may be among them.
        """
        question = WhyClientsQuestion(
            needs=[(int(operation), int(kind), name) for operation, kind, name in needs]
        )

        def on_gathered(gathered: Gathered[WhyClientsAnswer]) -> None:
            answers = gathered.answers.values()
            throttled = [each for answer in answers for each in answer.throttled]
            refused = [each for answer in answers for each in answer.refused]
            if not self._sees_clients:
                throttled = [msgspec.structs.replace(each, published_to="") for each in throttled]
                refused = []
            on_done(WhyClientsAnswer(throttled=throttled, refused=refused))

        self.ask_all(WHY_CLIENTS, question, on_gathered)

    def coordinator(self, find: Callable[[], TopicPartition]) -> TopicPartition | None:
        """Return the partition that coordinates something; None: there is none yet."""
        try:
            where = find()
        except RequestRefused:
            return None
        return where if self.has(where) else None
