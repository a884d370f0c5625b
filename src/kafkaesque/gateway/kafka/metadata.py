"""ApiVersions and Metadata: what a client asks first, and again and again."""

import re
from typing import Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.cluster_state import PartitionState, TopicState
from kafkaesque.broker.metadata.features import KNOWN
from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS
from kafkaesque.broker.metadata.topic_views import (
    all_readable,
    find_readable,
    find_readable_by_id,
)
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.cluster_view import ClusterView, error_of_missing
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.guards.cluster import cluster_bits
from kafkaesque.gateway.kafka.operation_bits import (
    CLUSTER_OPERATIONS,
    OPERATIONS_OMITTED,
    TOPIC_OPERATIONS,
)
from kafkaesque.model.ids import NO_NODE, ZERO_TOPIC_ID, TopicId
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import (
    CachedResponse,
    api_versions_response,
    read_request,
)
from kafkaesque.protocols.kafka.messages.api_versions_response import (
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.protocols.kafka.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

#: From this version on clients say their name, and Metadata may name topics by their ids.
_VERSION_WITH_SOFTWARE_NAME = 3
_VERSION_WITH_TOPIC_IDS = 12

#: Features by which clients tell what a cluster can do (KIP-584), with their levels, which do not
#: change while a cluster runs. Others are in `kafkaesque.broker.metadata.features`.
#: group.version 1: consumer groups of the new kind (KIP-848). transaction.version 2: an epoch for
#: each transaction, and leaders that add partitions themselves (KIP-890, part 2).
_FEATURES: Final = (("group.version", 1), ("transaction.version", 2))
#: Clients of earlier versions take a feature that can have level 0 for a mistake (KIP-1022).
_VERSION_WITH_LEVEL_0: Final = 4

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def on_api_versions(context: Context, call: Call) -> None:
    """Say which APIs there are, in which versions."""
    request = call.read()
    if call.version >= _VERSION_WITH_SOFTWARE_NAME and not (
        _SOFTWARE_NAME.fullmatch(request.client_software_name)
        and _SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        call.answer(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
    else:
        answer = api_versions_response(context.advertised)
        lowest = 0 if call.version >= _VERSION_WITH_LEVEL_0 else 1
        state = context.doors.cluster.state
        levels = [*_FEATURES, *((name, state.level(name)) for name in KNOWN)]
        answer.supported_features = [
            *(SupportedFeatureKey(name, lowest, level) for name, level in _FEATURES),
            *(SupportedFeatureKey(name, low, high) for name, (low, high) in KNOWN.items()),
        ]
        answer.finalized_features = [
            FinalizedFeatureKey(name, level, level) for name, level in levels
        ]
        answer.finalized_features_epoch = state.features_epoch
        call.answer(answer)


# -- Metadata


def on_metadata(context: Context, call: Call) -> None:
    """Describe topics, all or those asked for; begin to create those that are missing.

    Not before the turn's end: whoever has just lost its connection to a broker asks at once who
    leads now, and the same news is among what has come to this broker in this turn. With an answer
    of before that, librdkafka is content for a second.
    """
    frame = memoryview(bytes(call.frame))
    body = frame[call.header.body_offset :]
    known = context.metadata_cache.get(call.version, body, _asker(call.connection.rights))
    request = None if known is not None else read_request(call.header, frame)
    context.clock.call_soon(lambda: _answer_metadata(context, call, frame, request))


def _asker(rights: Rights | None) -> object:
    return None if rights is None else rights.as_of


def _answer_metadata(
    context: Context, call: Call, frame: memoryview, request: MetadataRequest | None
) -> None:
    doors = context.doors
    view = ClusterView(doors, call.connection.listener)
    cache = context.metadata_cache
    body = frame[call.header.body_offset :]
    cache.refresh(doors.cluster.state, view.as_of())
    rights = call.connection.rights
    asker = _asker(rights)
    cached = cache.get(call.version, body, asker)
    if cached is not None and not view.is_cut_off:
        call.answer_parts(cached.parts(call.header.correlation_id))
        return
    if request is None:
        request = read_request(call.header, frame)  # was well-formed when it was first asked
    if _is_invalid(request, call.version):
        call.answer(_refused(request))
        return
    answer = _MetadataAnswer(context, view, request, call.version, rights)
    if view.is_cut_off:
        call.is_in_vain = answer.is_leaderless
        if not request.topics and not answer.message.topics:
            # Whoever connects asks this, and may need nothing else; whoever asks again does.
            call.is_in_vain = call.connection.has_sought_brokers
            call.connection.has_sought_brokers = True
    encoded = CachedResponse(ApiKey.METADATA, call.version, answer.message)
    if answer.is_complete:
        cache.put(call.version, body, encoded, asker)
    call.answer_parts(encoded.parts(call.header.correlation_id))


def _is_invalid(request: MetadataRequest, version: int) -> bool:
    by_id_allowed = version >= _VERSION_WITH_TOPIC_IDS
    for topic in request.topics or ():
        has_id = bytes(topic.topic_id) != ZERO_TOPIC_ID
        if (has_id and not by_id_allowed) or (topic.name is None and not has_id):
            return True
    return False


def _refused(request: MetadataRequest) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST,
            name=topic.name or "",
            topic_id=bytes(topic.topic_id),
        )
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=ErrorCode.INVALID_REQUEST)


class _MetadataAnswer:
    """The answer to one request."""

    __slots__ = ("_context", "_request", "_rights", "_version", "_view", "is_complete", "message")

    def __init__(
        self,
        context: Context,
        view: ClusterView,
        request: MetadataRequest,
        version: int,
        rights: Rights | None,
    ) -> None:
        self._context = context
        self._view = view
        self._request = request
        self._version = version
        self._rights = rights
        #: Whether every topic that was asked for exists: only then may the answer be kept.
        self.is_complete = True
        operations = OPERATIONS_OMITTED
        if request.include_cluster_authorized_operations:
            operations = CLUSTER_OPERATIONS if rights is None else cluster_bits(rights)
        self.message = MetadataResponse(
            brokers=[
                MetadataResponseBroker(found.node, *view.address(found), found.rack)
                for found in view.brokers
            ],
            cluster_id=view.doors.cluster.cluster_id,
            controller_id=view.way_to_controller,
            topics=self._topics(),
            cluster_authorized_operations=operations,
        )

    @property
    def is_leaderless(self) -> bool:
        """Whether topics were asked for by name, and none of their partitions has a leader."""
        partitions = [each for topic in self.message.topics for each in topic.partitions]
        return bool(self._request.topics and partitions) and all(
            each.leader_id == NO_NODE for each in partitions
        )

    def _topics(self) -> list[MetadataResponseTopic]:
        request, state = self._request, self._view.doors.cluster.state
        if request.topics is None or (not request.topics and self._version == 0):
            return [
                self._describe(topic)
                for topic in all_readable(state)
                if self._rights is None
                or self._rights.could(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
            ]
        described: list[MetadataResponseTopic] = []
        missing: list[str] = []
        asked = dict.fromkeys((topic.name, bytes(topic.topic_id)) for topic in request.topics)
        for name, topic_id in asked:
            if topic_id != ZERO_TOPIC_ID:
                described.append(self._describe_by_id(TopicId(topic_id)))
            elif name is not None and not self._may(Operation.DESCRIBE, name):
                described.append(self._forbidden(name))
            elif name is not None:
                topic = find_readable(state, name)
                if topic is None:
                    missing.append(name)
                else:
                    described.append(self._describe(topic))
        if missing:
            self.is_complete = False
            described.extend(self._describe_missing(missing))
        return described

    def _may(self, operation: Operation, name: str) -> bool:
        rights = self._rights
        return rights is None or rights.may(operation, ResourceType.TOPIC, name)

    def _forbidden(
        self, name: str | None, topic_id: bytes = ZERO_TOPIC_ID
    ) -> MetadataResponseTopic:
        """Return the answer for a name that may not be described, whether there is one or not."""
        return MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id
        )

    def _describe(self, topic: TopicState) -> MetadataResponseTopic:
        operations, rights = OPERATIONS_OMITTED, self._rights
        if self._request.include_topic_authorized_operations:
            operations = TOPIC_OPERATIONS
            if rights is not None:
                operations = rights.bits(ResourceType.TOPIC, topic.name)
        return MetadataResponseTopic(
            error_code=0,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=[self._describe_partition(partition) for partition in topic.partitions],
            topic_authorized_operations=operations,
        )

    def _describe_partition(self, partition: PartitionState) -> MetadataResponsePartition:
        placement = self._view.place(partition)
        replicas, in_sync, error_code = partition.replicas, placement.in_sync, placement.error_code
        if self._version == 0:
            # Clients of that time cannot take replicas on brokers that are not listed.
            find = self._view.find_broker
            replicas = tuple(node for node in replicas if find(node) is not None)
            in_sync = tuple(node for node in in_sync if find(node) is not None)
            if not error_code and len(replicas) < len(partition.replicas):
                error_code = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code,
            partition.partition,
            placement.leader,
            placement.leader_epoch,
            replicas,
            in_sync,
            placement.offline,
        )

    def _describe_by_id(self, topic_id: TopicId) -> MetadataResponseTopic:
        topic = find_readable_by_id(self._view.doors.cluster.state, topic_id)
        if topic is not None:
            if not self._may(Operation.DESCRIBE, topic.name):
                return self._forbidden(None, topic_id)
            return self._describe(topic)
        self.is_complete = False
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
        )

    def _describe_missing(self, names: list[str]) -> list[MetadataResponseTopic]:
        codes = {name: error_of_missing(name) for name in names}
        if self._request.allow_auto_topic_creation:
            legal = [
                name for name, code in codes.items() if code != ErrorCode.INVALID_TOPIC_EXCEPTION
            ]
            if self._rights is not None:
                legal, forbidden = self._creatable(legal, self._rights)
                codes.update(dict.fromkeys(forbidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            self._context.topic_creator.maybe_create(legal, self._rights)
        return [
            MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)
            for name, code in codes.items()
        ]

    def _creatable(self, names: list[str], rights: Rights) -> tuple[list[str], list[str]]:
        """Return which of the names the client may create, and, where it could, which not."""
        if not self._view.doors.configuration.get("auto.create.topics.enable"):
            return [], []
        may_all = rights.could_cluster(Operation.CREATE)
        allowed = [each for each in names if may_all or self._may(Operation.CREATE, each)]
        return allowed, [each for each in names if each not in allowed]
