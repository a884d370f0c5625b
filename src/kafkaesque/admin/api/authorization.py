"""What each operation of the API needs: one table. An operation without a row stops the start."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.broker.metadata.queue_names import (
    QueueName,
    exchange_resource,
    queue_resource,
)
from kafkaesque.broker.options.queues import DEFAULT_EXCHANGE_WORD
from kafkaesque.model.errors import InvariantBroken


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What an operation needs, and where its request names the resource."""

    operation: Operation | None = None
    resource_type: ResourceType = ResourceType.CLUSTER
    #: Returns the resource's name.
    name: Callable[[Call[Any, Any]], str] = lambda _: CLUSTER_NAME
    #: Whether it is also enough to have the operation on the cluster.
    or_cluster: bool = False
    #: Whether strangers may ask: it is how they log in.
    is_for_strangers: bool = False
    #: Whether a resource that may not be seen is answered as one that does not exist.
    is_hidden: bool = False
    #: Whether it needs something on the cluster, and its topic, if it may not be seen, is hidden.
    hides_topic: bool = False
    #: The same with its queue.
    hides_queue: bool = False
    #: Whether its handler shows only what the client may see; then nothing else is needed.
    is_filtered: bool = False

    def allows(self, call: Call[Any, Any]) -> bool:
        """Whether the client may ask for this."""
        if self.operation is None:
            return True
        if self.or_cluster and call.could(self.operation, ResourceType.CLUSTER, CLUSTER_NAME):
            return True
        return call.may(self.operation, self.resource_type, self.name(call))

    def refuse(self, call: Call[Any, Any]) -> None:
        """Answer that the client may not."""
        if self.operation is None:
            raise InvariantBroken("what needs nothing is refused")
        name, kind = self.name(call), self.resource_type
        if self.hides_topic:
            topic = call.params["topic"]
            if not call.could(Operation.DESCRIBE, ResourceType.TOPIC, topic):
                refuse_unknown_topic(call, topic)
                return
        if self.hides_queue:
            queue = queue_resource(QueueName(call.query.vhost, call.params["queue"]))
            if not call.could(Operation.DESCRIBE, ResourceType.QUEUE, queue):
                refuse_unknown_queue(call)
                return
        if self.is_hidden and not call.could(Operation.DESCRIBE, kind, name):
            _UNKNOWN[kind](call, name)
            return
        call.refuse(403, "Forbidden", call.refusal(self.operation, kind, name))


def refuse_unknown_topic(call: Call[Any, Any], name: str) -> None:
    """Answer as for a topic that does not exist."""
    call.refuse(404, "UnknownTopicOrPartition", f"topic {name!r} does not exist")


def refuse_unknown_group(call: Call[Any, Any], name: str) -> None:
    """Answer as for a group that does not exist."""
    call.refuse(404, "UnknownGroup", f"there is no group {name!r}")


def refuse_unknown_queue(call: Call[Any, Any]) -> None:
    """Answer as for a queue that does not exist."""
    name = QueueName(call.query.vhost, call.params["queue"])
    call.refuse(404, "UnknownQueue", f"queue {name} does not exist")


def exchange_of(call: Call[Any, Any]) -> str:
    """Return the name of the exchange of a call's path; one has none."""
    word = call.params["exchange"]
    return "" if word == DEFAULT_EXCHANGE_WORD else word


def refuse_unknown_exchange(call: Call[Any, Any]) -> None:
    """Answer as for an exchange that does not exist."""
    name, vhost = call.params["exchange"], call.query.vhost
    call.refuse(404, "NoSuchExchange", f"there is no exchange {name!r} in vhost {vhost!r}")


def refuse_unknown_subject(call: Call[Any, Any], name: str) -> None:
    """Answer as for a subject of schemas that does not exist."""
    call.refuse(404, "SubjectNotFound", f"there is no subject {name!r}")


_UNKNOWN: Final[Mapping[ResourceType, Callable[[Call[Any, Any], str], None]]] = {
    ResourceType.TOPIC: refuse_unknown_topic,
    ResourceType.GROUP: refuse_unknown_group,
    ResourceType.QUEUE: lambda call, _: refuse_unknown_queue(call),
    ResourceType.SUBJECT: refuse_unknown_subject,
    ResourceType.EXCHANGE: lambda call, _: refuse_unknown_exchange(call),
}
_O: Final = Operation


def _topic(operation: Operation) -> Row:
    return Row(
        operation=operation,
        resource_type=ResourceType.TOPIC,
        name=lambda call: call.params["topic"],
        is_hidden=True,
    )


def _queue(operation: Operation, *, or_cluster: bool = False) -> Row:
    return Row(
        operation=operation,
        resource_type=ResourceType.QUEUE,
        name=lambda call: queue_resource(QueueName(call.query.vhost, call.params["queue"])),
        or_cluster=or_cluster,
        is_hidden=True,
    )


def _exchange(operation: Operation) -> Row:
    return Row(
        operation=operation,
        resource_type=ResourceType.EXCHANGE,
        name=lambda call: exchange_resource(call.query.vhost, exchange_of(call)),
        is_hidden=True,
    )


_SEES_CLUSTER: Final = Row(operation=_O.DESCRIBE)
_CHANGES_USERS: Final = Row(operation=_O.ALTER)
_CHANGES_KEYS: Final = Row(operation=_O.ALTER)
_CHANGES_TOPIC_KEYS: Final = Row(operation=_O.ALTER, hides_topic=True)
_CHANGES_QUEUE_KEYS: Final = Row(operation=_O.ALTER, hides_queue=True)
_TRANSFORMATION: Final = Row(
    operation=_O.DESCRIBE,
    resource_type=ResourceType.VHOST,
    name=lambda call: str(call.query.vhost),
    or_cluster=True,
)
_FILTERED: Final = Row(is_filtered=True)
_FOR_STRANGERS: Final = Row(is_for_strangers=True)

#: By the name of each operation.
ROWS: Final[Mapping[str, Row]] = {
    "logIn": _FOR_STRANGERS,
    "showSession": _FOR_STRANGERS,
    "logOut": _FOR_STRANGERS,
    "endSessions": _CHANGES_USERS,
    "listUsers": _SEES_CLUSTER,
    "listRoles": _SEES_CLUSTER,
    "listRules": _SEES_CLUSTER,
    "listCertificates": _SEES_CLUSTER,
    "explain": _SEES_CLUSTER,
    "putUser": _CHANGES_USERS,
    "changeUser": _CHANGES_USERS,
    "deleteUser": _CHANGES_USERS,
    "makeAccessKey": _CHANGES_USERS,
    "deleteAccessKey": _CHANGES_USERS,
    "putRole": _CHANGES_USERS,
    "deleteRole": _CHANGES_USERS,
    "addRules": _CHANGES_USERS,
    "deleteRule": _CHANGES_USERS,
    "addSecondFactor": _CHANGES_USERS,
    "removeSecondFactor": _CHANGES_USERS,
    # Keys are the cluster's: who may read a topic may not have it shredded.
    "listKeys": _SEES_CLUSTER,
    "rewrapKeys": _CHANGES_KEYS,
    "rotateKey": _CHANGES_TOPIC_KEYS,
    "shredKey": _CHANGES_TOPIC_KEYS,
    "rotateQueueKey": _CHANGES_QUEUE_KEYS,
    "shredQueueKey": _CHANGES_QUEUE_KEYS,
    "showCluster": _SEES_CLUSTER,
    "listBrokers": _SEES_CLUSTER,
    "showBroker": _SEES_CLUSTER,
    "showControllers": _SEES_CLUSTER,
    "showFindings": _SEES_CLUSTER,
    "listTopics": _FILTERED,
    "createTopic": Row(
        operation=_O.CREATE,
        resource_type=ResourceType.TOPIC,
        name=lambda call: str(call.body.name),
        or_cluster=True,
    ),
    "showTopic": _topic(_O.DESCRIBE),
    "deleteTopic": _topic(_O.DELETE),
    "showOptions": _topic(_O.DESCRIBE_CONFIGS),
    "changeOptions": _topic(_O.ALTER_CONFIGS),
    # And of the groups those that the client may see.
    "listTopicGroups": _topic(_O.DESCRIBE),
    "listMessages": _topic(_O.READ),
    "publish": _topic(_O.WRITE),
    "search": Row(
        operation=_O.READ,
        resource_type=ResourceType.TOPIC,
        name=lambda call: str(call.body.topic),
        is_hidden=True,
    ),
    "listQueues": _FILTERED,
    "createQueue": Row(
        operation=_O.CREATE,
        resource_type=ResourceType.QUEUE,
        name=lambda call: queue_resource(QueueName(call.body.vhost, call.body.name)),
        or_cluster=True,
    ),
    "showQueue": _queue(_O.DESCRIBE),
    "deleteQueue": _queue(_O.DELETE, or_cluster=True),
    "showQueueOptions": _queue(_O.DESCRIBE),
    "changeQueueOptions": _queue(_O.ALTER, or_cluster=True),
    "browseQueue": _queue(_O.READ),
    "purgeQueue": _queue(_O.READ),
    # And Write on the queue that messages go to.
    "redriveQueue": _queue(_O.READ),
    "listVhosts": _FILTERED,
    "listExchanges": _FILTERED,
    "declareExchange": Row(
        operation=_O.CREATE,
        resource_type=ResourceType.EXCHANGE,
        name=lambda call: exchange_resource(call.body.vhost, str(call.body.name)),
    ),
    "showExchange": _exchange(_O.DESCRIBE),
    "deleteExchange": _exchange(_O.DELETE),
    "routeMessage": _exchange(_O.DESCRIBE),
    # And Write on what they lead to.
    "bind": _exchange(_O.READ),
    "unbind": _exchange(_O.READ),
    "listTransformations": _FILTERED,
    "showTransformation": _TRANSFORMATION,
    # And Read on the queue whose message it is tried with.
    "tryTransformation": _TRANSFORMATION,
    # They reach all messages of bindings that name them.
    "putTransformation": Row(operation=_O.ALTER),
    "deleteTransformation": Row(operation=_O.ALTER),
    "listSubjects": _FILTERED,
    "showSubject": Row(
        operation=_O.DESCRIBE,
        resource_type=ResourceType.SUBJECT,
        name=lambda call: call.params["subject"],
        is_hidden=True,
    ),
    "listGroups": _FILTERED,
    # And of its topics those that the client may see.
    "showGroup": Row(
        operation=_O.DESCRIBE,
        resource_type=ResourceType.GROUP,
        name=lambda call: call.params["group"],
        is_hidden=True,
    ),
    # And Read on the topic.
    "resetOffsets": Row(
        operation=_O.READ,
        resource_type=ResourceType.GROUP,
        name=lambda call: call.params["group"],
        is_hidden=True,
    ),
    "deleteGroup": Row(
        operation=_O.DELETE,
        resource_type=ResourceType.GROUP,
        name=lambda call: call.params["group"],
        is_hidden=True,
    ),
    "abortTransaction": Row(
        operation=_O.WRITE,
        resource_type=ResourceType.TRANSACTIONAL_ID,
        name=lambda call: call.params["transaction"],
    ),
    "listOpenTransactions": _FILTERED,
    "listTraces": _FILTERED,
    "showTrace": _FILTERED,
    "listPipelines": _FILTERED,
    "showPipeline": _FILTERED,
    # What no coordinator knows is the cluster's to end, as over Kafka.
    "abortHanging": Row(operation=_O.ALTER, hides_topic=True),
    "reassign": Row(operation=_O.ALTER, hides_topic=True),
    "whyRecord": _topic(_O.DESCRIBE),
    # And of its topics those that the client may see.
    "whyGroup": Row(
        operation=_O.DESCRIBE,
        resource_type=ResourceType.GROUP,
        name=lambda call: call.params["group"],
        is_hidden=True,
    ),
    "whyProducer": _FILTERED,
    "whyRouted": _exchange(_O.DESCRIBE),
    "whyMessage": Row(
        operation=_O.DESCRIBE,
        resource_type=ResourceType.QUEUE,
        name=lambda call: queue_resource(QueueName(call.query.vhost, call.params["queue"])),
    ),
    "listConnections": _SEES_CLUSTER,
    "closeConnection": Row(operation=_O.ALTER),
    "listListeners": _SEES_CLUSTER,
    "listClientSessions": _SEES_CLUSTER,
    "showClientSession": _SEES_CLUSTER,
    "listRetained": _FILTERED,
    "listStreams": _FILTERED,
    # And of its consumers those that the client may see.
    "listStreamConsumers": Row(
        operation=_O.DESCRIBE,
        resource_type=ResourceType.TOPIC,
        name=lambda call: call.params["stream"],
        is_hidden=True,
    ),
    # And Delete on the queue of a session that is kept.
    "endClientSession": Row(operation=_O.ALTER),
    "listTransactions": _FILTERED,
    "showSeries": _SEES_CLUSTER,
    "listen": _SEES_CLUSTER,
}


def find_rows(routes: Iterable[Route]) -> Mapping[str, Row]:
    """Return the rows of operations.

    Raises:
        InvariantBroken: an operation has none, and so nobody would ask who may use it.
    """
    found = {}
    for each in routes:
        row = ROWS.get(each.name)
        if row is None:
            raise InvariantBroken(f"{each.method} {each.path} has no row that says what it needs")
        if row.operation is None and not (row.is_filtered or row.is_for_strangers):
            raise InvariantBroken(f"{each.method} {each.path} needs nothing, and does not say why")
        found[each.name] = row
    return found
