"""One request of a client: what its path and its query say, its body by type, and its answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.http import JSON, Answer, Request, Respond, write_json
from kafkaesque.admin.rabbitmq.errors import REFUSALS, REFUSED, ApiRefused, body_of, status_of
from kafkaesque.admin.rabbitmq.lists import ListQuery, shown_item, shown_list
from kafkaesque.broker.metadata.queue_names import (
    DEFAULT_VHOST,
    QueueName,
    is_own_vhost,
    queue_resource,
)
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.chassis.rights import Rights
from kafkaesque.chassis.routing_keys import ExchangesView, refusal_of_keys
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.routing.exchanges.topology import DEFAULT_EXCHANGE

BodyT = TypeVar("BodyT")
CommandT = TypeVar("CommandT", bound=ClientCommand)

#: What paths call the exchange without a name.
DEFAULT_WORD: Final = "amq.default"


class Call:
    """See the module; a handler answers it once."""

    __slots__ = ("_report", "_respond", "params", "request")

    def __init__(
        self,
        request: Request,
        params: Mapping[str, str],
        respond: Respond,
        report: Callable[[str], None],
    ) -> None:
        """`report` is told of our own defects."""
        self.request: Final = request
        self._report = report
        #: What stands in the path where the route has names.
        self.params: Final = params
        self._respond = respond

    # -- what is asked

    @property
    def vhost(self) -> str:
        """The virtual host that the path names."""
        return self.params["vhost"]

    @property
    def queue(self) -> QueueName:
        """The queue that the path names."""
        return QueueName(self.vhost, self.params["queue"])

    @property
    def exchange(self) -> str:
        """The exchange that the path names."""
        name = self.params["exchange"]
        return DEFAULT_EXCHANGE if name == DEFAULT_WORD else name

    def query(self, name: str, default: str = "") -> str:
        """Return a field of the query; of several with one name the last counts."""
        return self.request.query.get(name, (default,))[-1]

    def flag(self, name: str) -> bool:
        """Tell whether the query says so."""
        return self.query(name).lower() == "true"

    def body(self, kind: type[BodyT]) -> BodyT:
        """Return the request's body; an empty one says nothing.

        Numbers and flags may be texts, as `rabbitmqadmin` writes them: "true", "5".

        Raises:
            ApiRefused: it is none of this kind.
        """
        try:
            return msgspec.json.decode(self.request.body or b"{}", type=kind, strict=False)
        except msgspec.ValidationError as error:
            raise ApiRefused(400, f"the body is not what it should be: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ApiRefused(400, f"the body is no JSON: {error}") from None

    # -- who asks

    @property
    def user(self) -> str:
        """The name of who has logged in; on an open listener it is nobody's."""
        return self.request.visitor.user or "anonymous"

    def could(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Tell whether the client may do something; see `Rights.could`."""
        rights = self.request.visitor.rights
        return rights is None or rights.could(operation, kind, name)

    def could_cluster(self, operation: Operation) -> bool:
        """Tell the same of the cluster as a whole."""
        return self.could(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def need(self, operation: Operation, kind: ResourceType, name: str) -> None:
        """Check that the client may do what it asks for.

        Raises:
            ApiRefused: no rule allows it.
        """
        rights = self.request.visitor.rights
        if rights is None or rights.may(operation, kind, name):
            return
        what = "the cluster" if kind is ResourceType.CLUSTER else f"{kind.name.lower()} {name!r}"
        word = operation.name.replace("_", " ").title().replace(" ", "")
        raise ApiRefused(REFUSED, f"no rule allows {word} on {what}")

    def need_keys(
        self,
        exchanges: ExchangesView,
        operation: Operation,
        vhost: str,
        exchange: str,
        keys: Iterable[str],
    ) -> None:
        """Check that the client may use routing keys; see `chassis/routing_keys.py`.

        Raises:
            ApiRefused: a topic permission does not fit one.
        """
        rights = self.request.visitor.rights
        if isinstance(rights, Rights):
            refusal = refusal_of_keys(rights, exchanges, operation, vhost, exchange, keys)
            if refusal is not None:
                raise ApiRefused(REFUSED, refusal)

    def need_cluster(self, operation: Operation) -> None:
        """Check the same of the cluster as a whole; see `need`."""
        self.need(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def sees_queue(self, name: QueueName) -> bool:
        """Tell whether the client may know of a queue."""
        return self.could(Operation.DESCRIBE, ResourceType.QUEUE, queue_resource(name))

    def sees_exchange(self, vhost: str, name: str) -> bool:
        """Tell whether the client may know of an exchange; the one without a name is no secret."""
        resource = queue_resource(QueueName(vhost, name))
        return name == DEFAULT_EXCHANGE or self.could(
            Operation.DESCRIBE, ResourceType.EXCHANGE, resource
        )

    def sees_topic(self, name: str) -> bool:
        """Tell whether the client may know of a topic."""
        return self.could(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def sees_vhost(self, vhost: str) -> bool:
        """Tell whether the client may know of a virtual host."""
        return not is_own_vhost(vhost) and (
            self.could(Operation.DESCRIBE, ResourceType.VHOST, vhost)
            or self.could_cluster(Operation.DESCRIBE)
        )

    def may_know_vhost(self, vhost: str) -> bool:
        """Tell whether the client may know that there is a virtual host: it has a right there."""
        rights = self.request.visitor.rights
        return (
            vhost == DEFAULT_VHOST
            or self.sees_vhost(vhost)
            or (isinstance(rights, Rights) and rights.may_open_vhost(vhost))
        )

    def sign(self, command: CommandT) -> CommandT:
        """Return a command for the controller that says for whom it is, where that is known."""
        rights = self.request.visitor.rights
        return rights.sign(command) if isinstance(rights, Rights) else command

    @property
    def client(self) -> OnBehalfOf | None:
        """Who asks, for the audit log, where that is known."""
        rights = self.request.visitor.rights
        return rights.client if isinstance(rights, Rights) else None

    # -- answers

    def answer(self, value: object, status: int = 200) -> None:
        """Answer with a value."""
        self._respond(Answer(status=status, body=write_json(value), content_type=JSON))

    def done(self, *, is_new: bool = False) -> None:
        """Answer that it is done, and whether something has come of it."""
        self._respond(Answer(status=201 if is_new else 204, content_type=JSON))

    def refuse(self, refusal: Exception) -> None:
        """Answer why it is not done."""
        status = status_of(refusal)
        word = refusal.word if isinstance(refusal, ApiRefused) else ""
        body = body_of(status, str(refusal), word)
        self._respond(Answer(status=status, body=body, content_type=JSON))

    def guard(self, act: Callable[[], None]) -> None:
        """Do something, and answer why if it is refused; also in a later turn."""
        try:
            act()
        except REFUSALS as refusal:
            self.refuse(refusal)
        except InvariantBroken:
            raise
        except Exception as error:
            # A defect of ours, which a client has found: it costs its request, not the broker.
            self._report(f"{self.request.path} could not be answered: {error!r}")
            self.refuse(ApiRefused(500, "it could not be done: see the log"))

    def show_list(self, items: Sequence[msgspec.Struct]) -> None:
        """Answer with a list: sorted, searched, by page and with the columns that are asked for.

        Raises:
            ApiRefused: the query says what cannot be.
        """
        self.answer(shown_list(items, self._list_query()))

    def show(self, item: msgspec.Struct) -> None:
        """Answer with one thing, of which the query may name columns."""
        self.answer(shown_item(item, self._list_query().columns))

    def _list_query(self) -> ListQuery:
        query = self.query
        return ListQuery(
            name=query("name"),
            is_pattern=self.flag("use_regex"),
            sort=query("sort"),
            is_reversed=self.flag("sort_reverse"),
            columns=[each for each in query("columns").split(",") if each],
            page=query("page"),
            page_size=query("page_size"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation of the API."""

    method: str
    #: Below the root; `{name}` stands for one segment.
    path: str
    handle: Callable[[Call], None]
