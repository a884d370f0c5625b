"""The controller asks once more whether a client may change what it wants changed.

The broker that it is connected with has asked by its own copy of the rules, which may be behind:
it was taken away from somebody, and that broker has not heard of it. The controller's copy has all
that was decided before this command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafkaesque.access.credentials import CredentialId, DelegationToken
from kafkaesque.access.decisions import Judge
from kafkaesque.access.delegation_tokens import is_party
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.refusal_words import refusal_words
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.queue_names import QueueName, exchange_resource, queue_resource
from kafkaesque.broker.options.groups import DEAD_LETTER_TOPIC
from kafkaesque.broker.options.nats import (
    CONSUMER,
    INBOX_PREFIX,
    STREAM,
    capture_of,
    captured_by,
    origins_of,
    subject_resource,
    target_of,
)
from kafkaesque.broker.options.queues import (
    DEFAULT_EXCHANGE_WORD,
    FORWARD_EXCHANGE,
    FORWARD_KEY,
    KAFKA_TOPIC,
    MOVE_TASKS,
    REDRIVE_RATE,
    STREAM_TOPIC,
)
from kafkaesque.broker.requests.access_commands import (
    AddRules,
    ExtendToken,
    OpenSession,
    PutCredential,
    PutKey,
    PutRole,
    PutTopicPermission,
    PutUser,
    RemoveCredential,
    RemoveKey,
    RemoveRole,
    RemoveRules,
    RemoveTopicPermissions,
    RemoveUser,
    UseRecoveryCode,
    UseTotpStep,
)
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.broker.requests.commands import (
    AskElection,
    AskMoves,
    ChangeConfig,
    ChangeControllers,
    ChangeGroupConfig,
    ChangeQuotas,
    CreatePartitions,
    CreateTopic,
    DecideRecovery,
    DeleteTopic,
    MoveReplicas,
    RaiseFeature,
    RemoveBroker,
)
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    DeleteExchange,
    DeleteVhost,
    PutPolicy,
    PutTransformation,
    RemovePolicy,
    RemoveTransformation,
    UnbindDestination,
)
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue, DeleteQueue
from kafkaesque.model.errors import (
    ClusterNotAuthorized,
    ExchangeNotAuthorized,
    GroupNotAuthorized,
    InvariantBroken,
    NotAuthorized,
    QueueNotAuthorized,
    TokenNotAuthorized,
    TopicNotAuthorized,
    VhostNotAuthorized,
)
from kafkaesque.model.ids import TopicId
from kafkaesque.routing.exchanges.kinds import ALTERNATE, LOG, LONGEST_MATCH, Kind


class _Case:
    """A command, whom it is for, and the rules of now."""

    def __init__(
        self, state: ClusterState, command: ClientCommand, client: OnBehalfOf, judge: Judge
    ) -> None:
        self.state: Final = state
        #: Its fields depend on its type, by which the row was found.
        self.command: Final[Any] = command
        self.client: Final = client
        self._judge: Final = judge

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        client = self.client
        return self._judge.decide(client.who, client.host, operation, kind, name).allowed

    def words(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """Return what the client is told if it may not."""
        client = self.client
        decision = self._judge.decide(client.who, client.host, operation, kind, name)
        return refusal_words(decision, operation, kind, name)

    def may_all_of(self, operation: Operation, kind: ResourceType, name: str, prefix: str) -> bool:
        """Tell whether it may be done to all names that begin with a prefix, and are meant."""
        client = self.client
        return self.may(operation, kind, name) and not self._judge.has_deny_among(
            client.who, client.host, operation, kind, prefix
        )

    def key_limit(self, vhost: str, exchange: str) -> TopicPermission | None:
        """Return what limits the client's routing keys at an exchange; None: nothing does."""
        return self._judge.topic_permission(self.client.who, vhost, exchange)

    def may_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)


#: Returns why it is refused; None where it is allowed.
_Rule = Callable[[_Case], NotAuthorized | None]


def _cluster(operation: Operation) -> _Rule:
    def rule(case: _Case) -> NotAuthorized | None:
        if case.may_cluster(operation):
            return None
        return ClusterNotAuthorized("Cluster authorization failed.")

    return rule


def _topic_refusal() -> NotAuthorized:
    return TopicNotAuthorized("Topic authorization failed.")


def _creation(case: _Case) -> NotAuthorized | None:
    operation, name = Operation.CREATE, case.command.name
    if case.may_cluster(operation) or case.may(operation, ResourceType.TOPIC, name):
        return _capture(case, name, case.command.configs.get(STREAM))
    return _topic_refusal()


def _capture(case: _Case, topic: str, stream: str | None) -> NotAuthorized | None:
    """Whoever reads a stream reads all of its subjects, and all that it copies from others."""
    if not stream:
        return None
    known = case.state.topics.get(topic)
    before = "" if known is None else known.configs.get(STREAM, "")
    for subject in captured_by(topic, stream) - captured_by(topic, before):
        capture = capture_of(subject)
        if not case.may_all_of(Operation.READ, ResourceType.SUBJECT, *capture):
            return TopicNotAuthorized(f"no rule allows to read all of subject {subject!r}")
    for origin in origins_of(stream) - origins_of(before):
        if not case.may(Operation.READ, ResourceType.TOPIC, origin):
            return TopicNotAuthorized(case.words(Operation.READ, ResourceType.TOPIC, origin))
    return None


def _deletion(case: _Case) -> NotAuthorized | None:
    name = case.command.name
    if name is None:
        topic = case.state.topics_by_id.get(TopicId(case.command.topic_id))
        if topic is None:
            return None  # It is answered that there is none.
        name = topic.name
    is_allowed = case.may(Operation.DELETE, ResourceType.TOPIC, name)
    return None if is_allowed else _topic_refusal()


def _growth(case: _Case) -> NotAuthorized | None:
    is_allowed = case.may(Operation.ALTER, ResourceType.TOPIC, case.command.name)
    return None if is_allowed else _topic_refusal()


def _queue(operation: Operation) -> _Rule:
    def rule(case: _Case) -> NotAuthorized | None:
        name = queue_resource(QueueName(case.command.vhost, case.command.name))
        if case.may(operation, ResourceType.QUEUE, name) or case.may_cluster(operation):
            return _ways(case)
        return QueueNotAuthorized(case.words(operation, ResourceType.QUEUE, name))

    return rule


def _queue_change(case: _Case) -> NotAuthorized | None:
    """Whoever may take a queue's messages may have them moved by a task, which is kept with it."""
    command = case.command
    name = queue_resource(QueueName(command.vhost, command.name))
    is_task = MOVE_TASKS in command.changes and set(command.changes) <= {MOVE_TASKS, REDRIVE_RATE}
    if is_task and case.may(Operation.READ, ResourceType.QUEUE, name):
        return None
    return _queue(Operation.ALTER)(case)


class Way(NamedTuple):
    """What is needed where an option of a queue says where messages go, or come from."""

    operation: Operation
    kind: ResourceType
    name: str


_REFUSALS: Final[Mapping[ResourceType, type[NotAuthorized]]] = {
    ResourceType.QUEUE: QueueNotAuthorized,
    ResourceType.EXCHANGE: ExchangeNotAuthorized,
    ResourceType.TOPIC: TopicNotAuthorized,
    ResourceType.SUBJECT: TopicNotAuthorized,
}


def way_refusal(way: Way, words: str) -> NotAuthorized:
    """Return the refusal for what a client may not, as `words` say."""
    return _REFUSALS[way.kind](words)


def ways_of(vhost: str, options: Mapping[str, str | None]) -> Iterator[Way]:
    """Yield what options of a queue need: writing where dead letters go, reading what is read.

    And making a topic of the name by which Kafka's clients see the queue.
    """
    queue, topic = options.get("dead.letter.queue"), options.get("dead.letter.topic")
    if queue:
        yield Way(Operation.WRITE, ResourceType.QUEUE, queue_resource(QueueName(vhost, queue)))
    for exchange_option, key_option in _EXCHANGES_AND_KEYS:
        exchange, key = options.get(exchange_option), options.get(key_option)
        if exchange:
            yield _way_through(vhost, exchange, key or "")
    if topic:
        yield Way(Operation.WRITE, ResourceType.TOPIC, topic)
    stream = options.get(STREAM_TOPIC)
    if stream:
        yield Way(Operation.READ, ResourceType.TOPIC, stream)
        yield Way(Operation.WRITE, ResourceType.TOPIC, stream)
    target = target_of(options.get(CONSUMER) or "{}")
    if target and not target.startswith(INBOX_PREFIX):
        yield Way(Operation.WRITE, ResourceType.SUBJECT, subject_resource(target))
    source = options.get("source.topic")
    if source:
        yield Way(Operation.READ, ResourceType.TOPIC, source)
    shown = options.get(KAFKA_TOPIC)
    if shown:
        yield Way(Operation.CREATE, ResourceType.TOPIC, shown)


#: Options that mean something together only: where messages go, and by which key.
_EXCHANGES_AND_KEYS: Final = (
    ("dead.letter.exchange", "dead.letter.routing.key"),
    (FORWARD_EXCHANGE, FORWARD_KEY),
)


def _way_through(vhost: str, exchange: str, key: str) -> Way:
    """Return what is needed to pass messages on to an exchange; that without a name has queues."""
    if exchange != DEFAULT_EXCHANGE_WORD:
        resource = exchange_resource(vhost, exchange)
        return Way(Operation.WRITE, ResourceType.EXCHANGE, resource)
    if key:
        # As where it is published to: whether there is such a queue is nobody's to learn.
        return Way(Operation.WRITE, ResourceType.QUEUE, queue_resource(QueueName(vhost, key)))
    return Way(Operation.WRITE, ResourceType.EXCHANGE, exchange_resource(vhost, ""))


def _options_of(case: _Case) -> Mapping[str, str | None]:
    """Return the options of a command; of a change also those that go with what is changed."""
    command = case.command
    changes: Mapping[str, str | None] | None = getattr(command, "changes", None)
    if changes is None:
        return getattr(command, "options", None) or {}
    queue = case.state.queues.get(QueueName(command.vhost, command.name))
    options = dict(changes)
    for pair in _EXCHANGES_AND_KEYS:
        if queue is not None and not changes.keys().isdisjoint(pair):
            options = {**{name: queue.options.get(name) for name in pair}, **options}
    return options


def _ways(case: _Case) -> NotAuthorized | None:
    for way in ways_of(case.command.vhost, _options_of(case)):
        is_creation = way.operation is Operation.CREATE and case.may_cluster(Operation.CREATE)
        if not is_creation and not case.may(way.operation, way.kind, way.name):
            return way_refusal(way, case.words(*way))
    return None


def _vhost(operation: Operation) -> _Rule:
    def rule(case: _Case) -> NotAuthorized | None:
        vhost = case.command.vhost
        if case.may(operation, ResourceType.VHOST, vhost) or case.may_cluster(Operation.ALTER):
            return None
        return VhostNotAuthorized(case.words(operation, ResourceType.VHOST, vhost))

    return rule


def _exchange(case: _Case, operation: Operation, name: str) -> NotAuthorized | None:
    resource = exchange_resource(case.command.vhost, name)
    if case.may(operation, ResourceType.EXCHANGE, resource):
        return None
    return ExchangeNotAuthorized(case.words(operation, ResourceType.EXCHANGE, resource))


def _declaration(case: _Case) -> NotAuthorized | None:
    """Whoever passes on to an alternate exchange what another one has, reads there, writes here.

    And whoever has publishers write to a topic, writes there.
    """
    command = case.command
    refusal = None
    if not case.may_cluster(Operation.CREATE):
        refusal = _exchange(case, Operation.CREATE, command.name)
    alternate = command.arguments.get(ALTERNATE)
    if refusal is None and isinstance(alternate, str):
        refusal = _exchange(case, Operation.READ, command.name)
        refusal = refusal or _exchange(case, Operation.WRITE, alternate)
    log = command.arguments.get(LOG)
    if (
        refusal is None
        and isinstance(log, str)
        and not case.may(Operation.WRITE, ResourceType.TOPIC, log)
    ):
        refusal = TopicNotAuthorized(case.words(Operation.WRITE, ResourceType.TOPIC, log))
    return refusal


def _exchange_deletion(case: _Case) -> NotAuthorized | None:
    return _exchange(case, Operation.DELETE, case.command.name)


def _binding(case: _Case) -> NotAuthorized | None:
    """A binding reads from where it begins, and writes where it leads.

    One that asks for the longest match keeps messages from shorter ones, which others have made.
    Whoever leads it to the exchange itself has to have the same right.
    """
    command = case.command
    to = command.destination
    if isinstance(command, BindDestination) and command.arguments.get(LONGEST_MATCH) is True:
        refusal = _exchange(case, Operation.WRITE, command.source)
        if refusal is not None:
            return refusal
    if to.is_topic and not case.may(Operation.WRITE, ResourceType.TOPIC, to.name):
        return TopicNotAuthorized(case.words(Operation.WRITE, ResourceType.TOPIC, to.name))
    if to.is_exchange:
        refusal = _exchange(case, Operation.WRITE, to.name)
    else:
        refusal = None
        name = queue_resource(QueueName(command.vhost, to.name))
        if not to.is_topic and not case.may(Operation.WRITE, ResourceType.QUEUE, name):
            words = case.words(Operation.WRITE, ResourceType.QUEUE, name)
            refusal = QueueNotAuthorized(words)
    refusal = refusal or _exchange(case, Operation.READ, command.source)
    return refusal or _bound_key(case, command)


def _bound_key(case: _Case, command: BindDestination | UnbindDestination) -> NotAuthorized | None:
    """A user with a topic permission binds and unbinds with certain keys alone."""
    limit = case.key_limit(command.vhost, command.source)
    vhost = case.state.routing.vhosts.get(command.vhost)
    exchange = None if vhost is None else vhost.exchanges.get(command.source)
    if limit is None or exchange is None or exchange.kind is not Kind.TOPIC:
        return None
    if limit.allows(Operation.READ, command.key):
        return None
    return ExchangeNotAuthorized(limit.refusal(Operation.READ, command.key))


def _config(case: _Case) -> NotAuthorized | None:
    topic = case.command.topic
    if topic is None:
        return _cluster(Operation.ALTER_CONFIGS)(case)
    if not case.may(Operation.ALTER_CONFIGS, ResourceType.TOPIC, topic):
        return _topic_refusal()
    for change in case.command.changes:
        if change.name == STREAM:
            refusal = _capture(case, topic, change.value)
            if refusal is not None:
                return refusal
    return None


def _group_config(case: _Case) -> NotAuthorized | None:
    """Whoever says where a share group's dead letters go has the brokers write there."""
    command = case.command
    if not case.may(Operation.ALTER_CONFIGS, ResourceType.GROUP, command.group):
        return GroupNotAuthorized("Group authorization failed.")
    before = case.state.group_configs.get(command.group, {}).get(DEAD_LETTER_TOPIC)
    for change in command.changes:
        topic = change.value
        if change.name != DEAD_LETTER_TOPIC or not topic or topic == before:
            continue
        if not case.may(Operation.WRITE, ResourceType.TOPIC, topic):
            return TopicNotAuthorized(case.words(Operation.WRITE, ResourceType.TOPIC, topic))
    return None


def _new_credential(case: _Case) -> NotAuthorized | None:
    """A token for oneself needs nothing; one that is there is nobody's to replace."""
    made = case.command.credential
    if not isinstance(made, DelegationToken):
        return _cluster(Operation.ALTER)(case)
    is_new = made.id not in case.state.access.credentials
    is_own = made.requester == case.client.principal == f"User:{made.user}"
    is_allowed = is_own or (
        made.requester == case.client.principal
        and case.may(Operation.CREATE_TOKENS, ResourceType.USER, made.user)
    )
    return None if is_new and is_allowed else _token_refusal()


def _token_change(case: _Case) -> NotAuthorized | None:
    """Whoever has to do with a token may end it; other credentials are the administrators'."""
    found = case.state.access.credentials.get(CredentialId(case.command.id))
    if isinstance(found, DelegationToken):
        return None if is_party(found, case.client.who) else _token_refusal()
    if isinstance(case.command, ExtendToken):
        return None  # It is answered that there is none.
    return _cluster(Operation.ALTER)(case)


def _token_refusal() -> NotAuthorized:
    return TokenNotAuthorized("Delegation token authorization failed.")


def _nothing(case: _Case) -> NotAuthorized | None:
    return None


_RULES: Final[Mapping[type[ClientCommand], _Rule]] = {
    CreateTopic: _creation,
    DeleteTopic: _deletion,
    CreatePartitions: _growth,
    ChangeConfig: _config,
    ChangeGroupConfig: _group_config,
    ChangeQuotas: _cluster(Operation.ALTER_CONFIGS),
    MoveReplicas: _cluster(Operation.ALTER),
    AskMoves: _cluster(Operation.DESCRIBE),
    # Both at an administrator's word: what it may lose is everybody's.
    AskElection: _cluster(Operation.ALTER),
    DecideRecovery: _cluster(Operation.ALTER),
    RaiseFeature: _cluster(Operation.ALTER),
    ChangeControllers: _cluster(Operation.ALTER),
    RemoveBroker: _cluster(Operation.ALTER),
    PutUser: _cluster(Operation.ALTER),
    RemoveUser: _cluster(Operation.ALTER),
    PutRole: _cluster(Operation.ALTER),
    RemoveRole: _cluster(Operation.ALTER),
    PutKey: _cluster(Operation.ALTER),
    RemoveKey: _cluster(Operation.ALTER),
    PutCredential: _new_credential,
    RemoveCredential: _token_change,
    ExtendToken: _token_change,
    AddRules: _cluster(Operation.ALTER),
    RemoveRules: _cluster(Operation.ALTER),
    PutTopicPermission: _cluster(Operation.ALTER),
    RemoveTopicPermissions: _cluster(Operation.ALTER),
    CreateQueue: _queue(Operation.CREATE),
    DeleteQueue: _queue(Operation.DELETE),
    ChangeQueue: _queue_change,
    CreateVhost: _vhost(Operation.CREATE),
    DeleteVhost: _vhost(Operation.DELETE),
    DeclareExchange: _declaration,
    DeleteExchange: _exchange_deletion,
    BindDestination: _binding,
    UnbindDestination: _binding,
    # They reach all that is in a virtual host.
    PutPolicy: _cluster(Operation.ALTER),
    RemovePolicy: _cluster(Operation.ALTER),
    PutTransformation: _cluster(Operation.ALTER),
    RemoveTransformation: _cluster(Operation.ALTER),
    # One's own code, which is used up by a log-in.
    UseTotpStep: _nothing,
    OpenSession: _nothing,
    UseRecoveryCode: _nothing,
}


def has_rule(kind: type[ClientCommand]) -> bool:
    """Tell whether it is known what a command needs."""
    return kind in _RULES


def check_rights(state: ClusterState, command: object, judge: Judge) -> None:
    """Check that whoever asked for a command may have it carried out now.

    Raises:
        NotAuthorized: no rule allows it, by the controller's copy.
    """
    if not isinstance(command, ClientCommand) or command.on_behalf_of is None:
        return
    rule = _RULES.get(type(command))
    if rule is None:
        raise InvariantBroken(f"no row says what {type(command).__name__} needs")
    refusal = rule(_Case(state, command, command.on_behalf_of, judge))
    if refusal is not None:
        raise refusal
