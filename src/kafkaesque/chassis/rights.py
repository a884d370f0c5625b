"""What one client may do, as gateways ask it for each resource of a request.

Of a topic that shows a queue a client may do what rules allow both with the topic and with the
queue. That is asked here, so that no gateway can forget it.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from kafkaesque.access.audit import AuditKind, ClientOrigin
from kafkaesque.access.authorized_operations import authorized_operations
from kafkaesque.access.decisions import Decision
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.principals import Principal
from kafkaesque.access.refusal_words import refusal_words
from kafkaesque.access.rules import PatternKind
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.metadata.queue_names import exchange_resource, may_be_in_vhost
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.model.errors import InvariantBroken

CommandT = TypeVar("CommandT", bound=ClientCommand)

#: What is asked of a queue where something is asked of the topic that shows it. Making a topic is
#: nothing that is done to a queue: there is the name, and it is refused.
_OF_QUEUE: Final[Mapping[Operation, Operation]] = {
    Operation.READ: Operation.READ,
    Operation.WRITE: Operation.WRITE,
    Operation.DELETE: Operation.DELETE,
    Operation.ALTER: Operation.ALTER,
    Operation.DESCRIBE: Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.ALTER,
}
#: What can be done to such a topic at all.
_OF_VIEWS: Final = sum(
    1 << each for each in (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
)


def needed_as_well(
    access: Access, operation: Operation, resource_type: ResourceType, name: str
) -> tuple[Operation, ResourceType, str] | None:
    """Return what has to be allowed beside this, because the topic shows a queue; None: nothing."""
    if resource_type is not ResourceType.TOPIC or operation not in _OF_QUEUE:
        return None
    queue = access.queue_of_view(name)
    return None if queue is None else (_OF_QUEUE[operation], ResourceType.QUEUE, queue)


def check_rows(rows: Container[type | str], kinds: Iterable[type | str]) -> None:
    """Check that a gateway's table says for each kind of request what it needs.

    Raises:
        InvariantBroken: one has no row, and so nobody would ask who may use it.
    """
    for each in kinds:
        if each not in rows:
            name = each if isinstance(each, str) else each.__name__
            raise InvariantBroken(f"no row says what {name} needs")


class Rights:
    """Of a client that has logged in, from where it has; answers by the rules of the moment."""

    __slots__ = ("_access", "_origin", "host", "principal")

    def __init__(self, access: Access, principal: Principal, origin: ClientOrigin) -> None:
        self._access: Final = access
        self.principal: Final = principal
        self.host: Final = origin.host
        self._origin: Final = origin

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether something that was asked for may be done to a resource, which need not exist.

        That it may not is told to the audit log.
        """
        judge = self._access.judge
        decision = judge.decide(self.principal, self.host, operation, resource_type, name)
        if not decision.allowed:
            self._tell(operation, resource_type, name, decision)
            return False
        behind = self._behind(operation, resource_type, name)
        return behind is None or self.may(*behind)

    def could(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Tell the same of what nobody has asked for, or what something else may allow as well."""
        judge = self._access.judge
        if not judge.decide(self.principal, self.host, operation, resource_type, name).allowed:
            return False
        behind = self._behind(operation, resource_type, name)
        return behind is None or self.could(*behind)

    def _behind(
        self, operation: Operation, resource_type: ResourceType, name: str
    ) -> tuple[Operation, ResourceType, str] | None:
        return needed_as_well(self._access, operation, resource_type, name)

    def refusal(self, operation: Operation, resource_type: ResourceType, name: str) -> str:
        """Return what a client is told that may not do something; see `refusal_words`."""
        judge = self._access.judge
        decision = judge.decide(self.principal, self.host, operation, resource_type, name)
        behind = self._behind(operation, resource_type, name)
        if decision.allowed and behind is not None:
            return self.refusal(*behind)
        return refusal_words(decision, operation, resource_type, name)

    def may_cluster(self, operation: Operation) -> bool:
        """Whether something that was asked for may be done to the cluster as a whole; see `may`."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def could_cluster(self, operation: Operation) -> bool:
        """Tell the same of the cluster as a whole; see `could`."""
        return self.could(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    @property
    def limits_keys(self) -> bool:
        """Whether anybody has a topic permission: else no routing key has to be looked at."""
        return bool(self._access.judge.topic_permissions)

    def key_limit(self, vhost: str, exchange: str) -> TopicPermission | None:
        """Return what limits the client's routing keys at an exchange; None: nothing does."""
        return self._access.judge.topic_permission(self.principal, vhost, exchange)

    def tell_key(self, operation: Operation, limit: TopicPermission, refusal: str) -> None:
        """Tell the audit log that a routing key was refused."""
        audit = self._access.audit
        if audit.wants(AuditKind.REFUSAL):
            name = exchange_resource(limit.vhost, limit.exchange)
            kind = ResourceType.EXCHANGE
            audit.refusal(self.principal, self._origin, operation, kind, name, refusal)

    def _tell(
        self, operation: Operation, resource_type: ResourceType, name: str, decision: Decision
    ) -> None:
        self._access.note_refusal(self.principal, self.host, operation, resource_type, name)
        audit = self._access.audit
        if audit.wants(AuditKind.REFUSAL):
            because = decision.because
            audit.refusal(self.principal, self._origin, operation, resource_type, name, because)

    def may_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there is any resource to which it may be done."""
        judge = self._access.judge
        return judge.decide_some(self.principal, self.host, operation, resource_type).allowed

    def may_all_of(
        self, operation: Operation, resource_type: ResourceType, name: str, prefix: str
    ) -> bool:
        """Whether something may be done to all that a name with wildcards stands for; see `may`.

        They are names that begin with `prefix`. A rule that denies any of these is one too many,
        even if the name stands for none that it denies.
        """
        return self.may(operation, resource_type, name) and not self._access.judge.has_deny_among(
            self.principal, self.host, operation, resource_type, prefix
        )

    def may_open_vhost(self, vhost: str) -> bool:
        """Whether the client may work in a virtual host: a rule lets it do something there.

        That is one for the virtual host itself, or for a queue or an exchange in it. It is not
        audited: opening says nothing of what is to be done.
        """
        judge, who, host = self._access.judge, self.principal, self.host
        if self.could_cluster(Operation.ALTER) or judge.decide_all(
            who, host, ResourceType.VHOST, vhost
        ):
            return True

        def is_there(kind: PatternKind, name: str) -> bool:
            return may_be_in_vhost(kind, name, vhost)

        return any(
            judge.has_allow_below(who, host, kind, is_there)
            for kind in (ResourceType.QUEUE, ResourceType.EXCHANGE)
        )

    def bits(self, resource_type: ResourceType, name: str) -> int:
        """Return all that may be done to a resource, as the bit field of KIP-430."""
        judge = self._access.judge
        bits = authorized_operations(judge, self.principal, self.host, resource_type, name)
        if resource_type is not ResourceType.TOPIC or self._access.queue_of_view(name) is None:
            return bits
        both = sum(1 << each for each in _OF_QUEUE if self.could(each, resource_type, name))
        return bits & both & _OF_VIEWS

    def sign(self, command: CommandT) -> CommandT:
        """Return a command for the controller that says for whom it is: it asks its own rules."""
        return msgspec.structs.replace(command, on_behalf_of=self.client)

    @property
    def client(self) -> OnBehalfOf:
        """Who it is, for commands that are made elsewhere."""
        return OnBehalfOf(self.principal, self.host, self._origin.listener)

    @property
    def as_of(self) -> tuple[object, ...]:
        """Equal as long as all answers are the same."""
        return (self.principal, self.host, self._access.judge.rules_epoch)
