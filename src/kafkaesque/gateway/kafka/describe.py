"""DescribeCluster and DescribeTopicPartitions: metadata for administrators, in pages."""

from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS
from kafkaesque.broker.metadata.topic_views import all_readable, find_readable
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.cluster_view import ClusterView, error_of_missing
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of
from kafkaesque.gateway.kafka.operation_bits import (
    CLUSTER_OPERATIONS,
    OPERATIONS_OMITTED,
    TOPIC_OPERATIONS,
)
from kafkaesque.model.errors import InvalidRequest
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_cluster_request import DescribeClusterRequest
from kafkaesque.protocols.kafka.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from kafkaesque.protocols.kafka.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_BROKER_ENDPOINT, _CONTROLLER_ENDPOINT = 1, 2


def on_describe_cluster(context: Context, call: Call) -> None:
    """Say which brokers there are."""
    request: DescribeClusterRequest = call.read()
    if request.endpoint_type != _BROKER_ENDPOINT:
        call.answer(_wrong_endpoint(request.endpoint_type))
        return
    view = ClusterView(context.doors, call.connection.listener)
    brokers = [
        DescribeClusterBroker(
            broker_id=found.node,
            host=view.address(found).host,
            port=view.address(found).port,
            rack=found.rack,
            is_fenced=view.find_broker(found.node) is None,
        )
        for found in view.registered
        if request.include_fenced_brokers or view.find_broker(found.node) is not None
    ]
    wants_operations = request.include_cluster_authorized_operations
    call.answer(
        DescribeClusterResponse(
            cluster_id=context.doors.cluster.cluster_id,
            controller_id=view.controller,
            brokers=brokers,
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if wants_operations else OPERATIONS_OMITTED
            ),
        )
    )


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    known = endpoint_type == _CONTROLLER_ENDPOINT
    return DescribeClusterResponse(
        error_code=(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        ),
        error_message=(
            f"this port is a broker's (endpoint type {_BROKER_ENDPOINT}), "
            f"the request is for endpoint type {endpoint_type}"
        ),
    )


def on_describe_topic_partitions(context: Context, call: Call) -> None:
    """Describe topics in the order of their names, from where the last page ended."""
    request: DescribeTopicPartitionsRequest = call.read()
    try:
        page = _Page(ClusterView(context.doors, call.connection.listener), request)
    except InvalidRequest as refusal:
        topics = [
            DescribeTopicPartitionsResponseTopic(error_code=code_of(refusal), name=topic.name)
            for topic in request.topics
        ]
        call.answer(DescribeTopicPartitionsResponse(topics=topics))
        return
    page.fill()
    call.answer(page.message)


class _Page:
    """One answer, which holds a bounded number of partitions.

    Raises:
        InvalidRequest: the cursor does not fit the request.
    """

    __slots__ = ("_begin", "_left", "_names", "_skips_missing", "_view", "message")

    def __init__(self, view: ClusterView, request: DescribeTopicPartitionsRequest) -> None:
        self._view = view
        self._skips_missing = not request.topics
        self._begin = ("", 0)
        asked = [topic.name for topic in request.topics] or [
            topic.name for topic in all_readable(view.doors.cluster.state)
        ]
        cursor = request.cursor
        if cursor is not None:
            if request.topics and cursor.topic_name not in asked:
                raise InvalidRequest(f"the cursor's topic {cursor.topic_name!r} is not asked for")
            if cursor.partition_index < 0:
                raise InvalidRequest(f"the cursor's partition {cursor.partition_index} is negative")
            self._begin = (cursor.topic_name, cursor.partition_index)
        self._names = sorted({name for name in asked if name >= self._begin[0]})
        most = int(view.doors.configuration.get("max.request.partition.size.limit"))
        self._left = max(1, min(request.response_partition_limit, most))
        self.message = DescribeTopicPartitionsResponse()

    def fill(self) -> None:
        """Take topics until the page is full."""
        topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.message.topics = topics
        for name in self._names:
            topic = find_readable(self._view.doors.cluster.state, name)
            if self._left == 0:
                self.message.next_cursor = Cursor(name, 0)
                return
            if topic is not None:
                first = self._begin[1] if name == self._begin[0] else 0
                topics.append(self._describe(topic, first))
                if self.message.next_cursor is not None:
                    return
            elif not self._skips_missing:
                topics.append(
                    DescribeTopicPartitionsResponseTopic(
                        error_code=error_of_missing(name),
                        name=name,
                        is_internal=name in INTERNAL_TOPICS,
                        topic_authorized_operations=TOPIC_OPERATIONS,
                    )
                )

    def _describe(self, topic: TopicState, first: int) -> DescribeTopicPartitionsResponseTopic:
        described = []
        for partition in topic.partitions[first : first + self._left]:
            placement = self._view.place(partition)
            described.append(
                DescribeTopicPartitionsResponsePartition(
                    error_code=placement.error_code,
                    partition_index=partition.partition,
                    leader_id=placement.leader,
                    leader_epoch=placement.leader_epoch,
                    replica_nodes=partition.replicas,
                    isr_nodes=placement.in_sync,
                    eligible_leader_replicas=(),
                    last_known_elr=(),
                    offline_replicas=placement.offline,
                )
            )
        self._left -= len(described)
        following = first + len(described)
        if following < len(topic.partitions):
            self.message.next_cursor = Cursor(topic.name, following)
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=described,
            topic_authorized_operations=TOPIC_OPERATIONS,
        )
