"""CreateTopics, DeleteTopics and CreatePartitions: carried out by the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.metadata.topic_names import METADATA_TOPIC
from kafkaesque.broker.requests.commands import (
    ControllerCommand,
    ControllerResult,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    TopicResult,
)
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.config_entries import topic_entries
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.mutation_quota import MutationQuota, QuotaUsedUp
from kafkaesque.model.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    RequestRefused,
    TopicDeletionDisabled,
)
from kafkaesque.model.ids import ZERO_TOPIC_ID, TopicId
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkaesque.protocols.kafka.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.protocols.kafka.messages.delete_topics_response import (
    DeletableTopicResult,
    DeleteTopicsResponse,
)

#: However long a client is ready to wait.
TIMEOUT_MS_MAX = 10 * 60 * 1000
#: Partitions that one request may create, in all its topics; Kafka's controller has the same bound.
CREATED_PARTITIONS_MAX = 10_000

_DEFAULT = -1
_VERSION_WITH_TOPIC_STATES = 6
#: First versions whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_CREATION_STRICT_FROM = 6
_DELETION_STRICT_FROM = 5
_GROWTH_STRICT_FROM = 3

Piece = Callable[[Callable[[], None]], None]
OnOutcome = Callable[[ControllerResult | RequestRefused], None]


def command_piece(
    doors: Doors,
    command: ControllerCommand,
    timeout_ms: int,
    on_outcome: OnOutcome,
) -> Piece:
    """Return a piece of a request that has the controller carry out a command."""

    def run(on_done: Callable[[], None]) -> None:
        def on_result(outcome: ControllerResult | RequestRefused) -> None:
            on_outcome(outcome)
            if isinstance(outcome, TopicResult) and isinstance(command, CreateTopic):
                doors.topics.when_led(
                    outcome.name, 0 if command.validate_only else timeout_ms, on_done
                )
            else:
                on_done()

        doors.cluster.submit(command, max(0, min(timeout_ms, TIMEOUT_MS_MAX)), on_result)

    return run


# -- CreateTopics


def on_create_topics(context: Context, call: Call) -> None:
    """Create topics; each succeeds or fails by itself."""
    request: CreateTopicsRequest = call.read()
    doors = context.doors
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    results = {name: CreatableTopicResult(name=name) for name in counts}
    if _partition_count(doors, request) > CREATED_PARTITIONS_MAX:
        _refuse_all(results.values())
        call.answer(CreateTopicsResponse(topics=list(results.values())))
        return
    pieces: list[Piece] = []
    quota = MutationQuota(call, strict_from=_CREATION_STRICT_FROM)
    default_count = int(doors.configuration.get("num.partitions"))
    for topic in request.topics:
        result = results[topic.name]
        try:
            if counts[topic.name] > 1:
                raise InvalidRequest(f"topic {topic.name!r} is named more than once")
            command = _creation(topic, validate_only=request.validate_only)
            if not request.validate_only:
                quota.take(_wanted(topic, default_count))
        except RequestRefused as refusal:
            _refuse(result, refusal)
        else:
            on_outcome = _on_created(doors, result, validate_only=request.validate_only)
            pieces.append(
                command_piece(doors, call.on_behalf(command), request.timeout_ms, on_outcome)
            )
    Queue(
        doors.clock,
        pieces,
        lambda: call.answer(CreateTopicsResponse(topics=list(results.values()))),
    ).start()


def _refuse_all(results: Iterable[CreatableTopicResult | CreatePartitionsTopicResult]) -> None:
    for result in results:
        result.error_code = ErrorCode.POLICY_VIOLATION
        result.error_message = f"a request creates at most {CREATED_PARTITIONS_MAX} partitions"


def _partition_count(doors: Doors, request: CreateTopicsRequest) -> int:
    """Return how many partitions a request wants together."""
    default = int(doors.configuration.get("num.partitions"))
    count = 0
    for topic in request.topics:
        count += _wanted(topic, default)
    return count


def _wanted(topic: CreatableTopic, default: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return default if topic.num_partitions == _DEFAULT else max(0, topic.num_partitions)


def _refuse(
    result: CreatableTopicResult | DeletableTopicResult | CreatePartitionsTopicResult,
    refusal: RequestRefused,
) -> None:
    result.error_code = code_of(refusal)
    result.error_message = message_of(refusal)


def _creation(topic: CreatableTopic, *, validate_only: bool) -> CreateTopic:
    """Return the command, or raise what is wrong in the request itself."""
    if topic.name == METADATA_TOPIC:
        raise InvalidRequest(f"{METADATA_TOPIC} is the controller's own log, not a topic")
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise InvalidConfig(f"option {config.name!r} has no value")
        configs[config.name] = config.value
    if topic.num_partitions < 1 and topic.num_partitions != _DEFAULT:
        raise InvalidPartitions(
            f"{topic.num_partitions} partitions are not possible: "
            "give 1 or more, or -1 for the broker's default"
        )
    if topic.replication_factor < 1 and topic.replication_factor != _DEFAULT:
        raise InvalidReplicationFactor(
            f"a replication factor of {topic.replication_factor} is not possible: "
            "give 1 or more, or -1 for the broker's default"
        )
    return CreateTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=_assignments(topic),
        configs=configs,
        validate_only=validate_only,
    )


def _assignments(topic: CreatableTopic) -> list[list[int]] | None:
    if not topic.assignments:
        return None
    by_index: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in by_index:
            raise InvalidReplicaAssignment(
                f"partition {assignment.partition_index} is assigned more than once"
            )
        by_index[assignment.partition_index] = list(assignment.broker_ids)
    if sorted(by_index) != list(range(len(by_index))):
        raise InvalidReplicaAssignment(
            f"{len(by_index)} assigned partitions must be numbered 0 to {len(by_index) - 1}"
        )
    return [by_index[index] for index in range(len(by_index))]


def _on_created(doors: Doors, result: CreatableTopicResult, *, validate_only: bool) -> OnOutcome:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            _refuse(result, outcome)
        elif isinstance(outcome, TopicResult):
            result.error_message = None
            # A topic that was only thought through has no id.
            result.topic_id = ZERO_TOPIC_ID if validate_only else outcome.topic_id
            result.num_partitions = outcome.partition_count
            result.replication_factor = outcome.replication_factor
            result.configs = [
                CreatableTopicConfigs(
                    entry.name, entry.value, entry.read_only, entry.source, is_sensitive=False
                )
                for entry in topic_entries(doors, outcome.configs)
            ]

    return on_outcome


# -- DeleteTopics


def on_delete_topics(context: Context, call: Call) -> None:
    """Delete topics with all they hold; each succeeds or fails by itself."""
    request: DeleteTopicsRequest = call.read()
    if call.version >= _VERSION_WITH_TOPIC_STATES:
        asked = request.topics
    else:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    quota = MutationQuota(call, strict_from=_DELETION_STRICT_FROM)
    deletion = _Deletion(context.doors, asked, quota)
    pieces = [
        command_piece(context.doors, call.on_behalf(command), request.timeout_ms, on_outcome)
        for command, on_outcome in deletion.commands
    ]
    Queue(
        context.doors.clock,
        pieces,
        lambda: call.answer(DeleteTopicsResponse(responses=deletion.results)),
    ).start()


class _Deletion:
    """What a request wants to be deleted: commands, and a result for each."""

    __slots__ = ("_doors", "_quota", "commands", "results")

    def __init__(
        self, doors: Doors, asked: Sequence[DeleteTopicState], quota: MutationQuota
    ) -> None:
        self._doors = doors
        self._quota = quota
        self.commands: list[tuple[DeleteTopic, OnOutcome]] = []
        self.results: list[DeletableTopicResult] = []
        found = [self._find(wanted) for wanted in asked]
        counts: dict[bytes | str, int] = {}
        for wanted, topic in zip(asked, found, strict=True):
            key = _key(wanted, topic)
            counts[key] = counts.get(key, 0) + 1
        refused: dict[bytes | str, None] = {}
        for wanted, topic in zip(asked, found, strict=True):
            key = _key(wanted, topic)
            if counts[key] > 1:
                # Once for each topic, however often it is named.
                if key not in refused:
                    refused[key] = None
                    self._refuse(wanted, InvalidRequest("the topic is named more than once"))
            else:
                self._take(wanted, topic)

    def _find(self, wanted: DeleteTopicState) -> TopicState | None:
        state = self._doors.cluster.state
        if wanted.name is None:
            return state.topics_by_id.get(TopicId(bytes(wanted.topic_id)))
        return state.topics.get(wanted.name)

    def _refuse(self, wanted: DeleteTopicState, refusal: RequestRefused) -> None:
        result = DeletableTopicResult(name=wanted.name, topic_id=bytes(wanted.topic_id))
        _refuse(result, refusal)
        self.results.append(result)

    def _take(self, wanted: DeleteTopicState, topic: TopicState | None) -> None:
        has_id = bytes(wanted.topic_id) != ZERO_TOPIC_ID
        if has_id == (wanted.name is not None):
            message = "give a topic's name or its id, not both" if has_id else "no topic is named"
            self._refuse(wanted, InvalidRequest(message))
            return
        if not self._doors.configuration.get("delete.topic.enable"):
            self._refuse(wanted, TopicDeletionDisabled("delete.topic.enable is false"))
            return
        try:
            self._quota.take(len(topic.partitions) if topic is not None else 0)
        except QuotaUsedUp as refusal:
            self._refuse(wanted, refusal)
            return
        result = DeletableTopicResult(name=wanted.name, topic_id=bytes(wanted.topic_id))
        self.results.append(result)

        def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                _refuse(result, outcome)
            elif isinstance(outcome, TopicResult):
                result.name, result.topic_id = outcome.name, outcome.topic_id

        command = DeleteTopic(name=wanted.name, topic_id=bytes(wanted.topic_id))
        self.commands.append((command, on_outcome))


def _key(wanted: DeleteTopicState, topic: TopicState | None) -> bytes | str:
    if topic is not None:
        return topic.topic_id
    return bytes(wanted.topic_id) if wanted.name is None else wanted.name


# -- CreatePartitions


def on_create_partitions(context: Context, call: Call) -> None:
    """Give topics more partitions; each succeeds or fails by itself."""
    request: CreatePartitionsRequest = call.read()
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    results = {name: CreatePartitionsTopicResult(name=name) for name in counts}
    known = context.doors.cluster.state.topics
    growth = [
        topic.count - len(known[topic.name].partitions)
        for topic in request.topics
        if topic.name in known
    ]
    if sum(max(0, added) for added in growth) > CREATED_PARTITIONS_MAX:
        _refuse_all(results.values())
        call.answer(CreatePartitionsResponse(results=list(results.values())))
        return
    pieces: list[Piece] = []
    quota = MutationQuota(call, strict_from=_GROWTH_STRICT_FROM)
    for topic in request.topics:
        result = results[topic.name]
        if counts[topic.name] > 1:
            _refuse(result, InvalidRequest(f"topic {topic.name!r} is named more than once"))
            continue
        if topic.name in known and not request.validate_only:
            try:
                quota.take(max(0, topic.count - len(known[topic.name].partitions)))
            except QuotaUsedUp as refusal:
                _refuse(result, refusal)
                continue
        command = call.on_behalf(_growth(topic, validate_only=request.validate_only))
        on_outcome = _on_grown(result)
        pieces.append(command_piece(context.doors, command, request.timeout_ms, on_outcome))
    Queue(
        context.doors.clock,
        pieces,
        lambda: call.answer(CreatePartitionsResponse(results=list(results.values()))),
    ).start()


def _growth(topic: CreatePartitionsTopic, *, validate_only: bool) -> CreatePartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = [list(assignment.broker_ids) for assignment in topic.assignments]
    return CreatePartitions(
        name=topic.name,
        count=topic.count,
        assignments=assignments,
        validate_only=validate_only,
    )


def _on_grown(result: CreatePartitionsTopicResult) -> OnOutcome:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            _refuse(result, outcome)

    return on_outcome
