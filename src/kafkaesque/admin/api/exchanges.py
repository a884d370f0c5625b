"""`/exchanges` and `/vhosts`: what there is, what would be routed where, and changes."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.authorization import exchange_of, refuse_unknown_exchange
from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, answer_change
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.exchange_values import (
    BINDINGS_MAX,
    BindingBody,
    BindingView,
    DestinationKind,
    ExchangeDryRun,
    ExchangeList,
    ExchangeQuery,
    ExchangeRow,
    ExchangesQuery,
    ExchangeView,
    NewExchange,
    RouteQuestion,
    RouteView,
    VhostList,
    VhostRow,
    VhostsQuery,
)
from kafkaesque.admin.api.paging import take_page, wants
from kafkaesque.broker.metadata.exchange_planner import plan_exchanges
from kafkaesque.broker.metadata.queue_names import (
    DEFAULT_VHOST,
    QueueName,
    exchange_resource,
    is_own_vhost,
    queue_resource,
)
from kafkaesque.broker.options.queues import DEFAULT_EXCHANGE_WORD
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    DeclareExchange,
    DeleteExchange,
    ExchangeCommand,
    UnbindDestination,
)
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import ExchangeNotAuthorized, InvalidRequest, RequestRefused
from kafkaesque.routing.exchanges.records import Arguments, Destination
from kafkaesque.routing.exchanges.topology import PREDECLARED, Binding, Exchange
from kafkaesque.routing.message import RoutedMessage

_arguments_decoder = msgspec.json.Decoder(dict[str, Any])
_KEYS: Final[dict[str, Callable[[ExchangeRow], Any]]] = {
    # Unique, and sorted by the name first.
    "name": lambda each: f"{each.name}\0{each.vhost}",
    "vhost": lambda each: each.vhost,
    "type": lambda each: each.type,
    "bindings": lambda each: each.bindings,
}
_VHOST_KEYS: Final[dict[str, Callable[[VhostRow], Any]]] = {
    "name": lambda each: each.name,
    "exchanges": lambda each: each.exchanges,
    "queues": lambda each: each.queues,
}


class ExchangePages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # -- what there is

    def list_vhosts(self, call: Call[VhostsQuery, None]) -> None:
        """List virtual hosts, without those that are the brokers' own."""
        door, state = self._context.doors.exchanges, self._context.doors.cluster.state
        found = [
            VhostRow(
                name=name,
                exchanges=len(door.vhost(name).exchanges),
                queues=len(state.queues_by_vhost.get(name, {})),
            )
            for name in door.vhosts()
            if not is_own_vhost(name)
            and wants(call.query, name)
            and call.sees(ResourceType.VHOST, name)
        ]
        page = take_page(found, call.query, _VHOST_KEYS, "name")
        call.answer(self._context.page_view(VhostList, page))

    def list_exchanges(self, call: Call[ExchangesQuery, None]) -> None:
        """List the exchanges that the client may see."""
        query, door = call.query, self._context.doors.exchanges
        found = [
            _row(vhost, exchange)
            for vhost in door.vhosts()
            if query.vhost in ("", vhost) and not is_own_vhost(vhost)
            for name, exchange in door.vhost(vhost).exchanges.items()
            if wants(query, shown_name(name)) and _sees(call, vhost, name)
        ]
        page = take_page(found, query, _KEYS, "name")
        call.answer(self._context.page_view(ExchangeList, page))

    def show_exchange(self, call: Call[ExchangeQuery, None]) -> None:
        """Show an exchange, the bindings that begin there, and those that lead there."""
        exchange = self._find(call)
        if exchange is None:
            return
        vhost = call.query.vhost
        begin = [
            each for each in sorted(exchange.bindings) if sees_end(call, vhost, each.destination)
        ]
        lead = [
            each
            for each in self._context.doors.exchanges.bindings(vhost)
            if each.destination == exchange.as_destination and _sees(call, vhost, each.source)
        ]
        call.answer(
            ExchangeView(
                as_of=self._context.now(),
                seen_by=self._context.node,
                exchange=_row(vhost, exchange),
                bindings_from=[_binding(each) for each in begin[:BINDINGS_MAX]],
                from_total=len(begin),
                bindings_to=[_binding(each) for each in lead[:BINDINGS_MAX]],
                to_total=len(lead),
            )
        )

    def route(self, call: Call[ExchangeQuery, RouteQuestion]) -> None:
        """Say where a message would go, as far as the client may know; nothing is published."""
        body = call.body
        message = RoutedMessage(key=body.key, headers=body.headers, body=body.body.encode())
        vhost = call.query.vhost
        found = self._context.doors.exchanges.route(vhost, exchange_of(call), message)

        def seen(names: Iterable[str], *, is_topic: bool = False) -> list[str]:
            ends = [Destination(each, False, is_topic) for each in names]
            return sorted(each.name for each in ends if sees_end(call, vhost, each))

        call.answer(
            RouteView(
                as_of=self._context.now(),
                seen_by=self._context.node,
                queues=seen(found.queues),
                topics=seen(found.topics, is_topic=True),
                delayed_queues=seen(found.delayed_queues),
                delay_ms=found.delay_ms,
            )
        )

    def _find(self, call: Call[Any, Any]) -> Exchange | None:
        try:
            return self._context.doors.exchanges.find(call.query.vhost, exchange_of(call))
        except RequestRefused:
            refuse_unknown_exchange(call)
            return None

    # -- changes

    def declare(self, call: Call[ExchangeDryRun, NewExchange]) -> None:
        """Declare an exchange; one that is there and the same is as good."""
        body = call.body
        arguments = _read_arguments(body.arguments)
        command = DeclareExchange(
            vhost=body.vhost,
            name=body.name,
            type=body.type,
            is_auto_delete=body.is_auto_delete,
            is_internal=body.is_internal,
            arguments=arguments,
        )
        words = ["kafkaesque", "exchange", "create", body.name, "--type", body.type]
        words += [*_argument_words(arguments), *_vhost_words(body.vhost)]
        words += ["--auto-delete"] if body.is_auto_delete else []
        words += ["--internal"] if body.is_internal else []
        self._change(call, command, f"exchange {body.name}", "declared", words, 201)

    def delete(self, call: Call[ExchangeDryRun, None]) -> None:
        """Delete an exchange and all its bindings."""
        exchange = self._find(call)
        if exchange is None:
            return
        vhost, name = call.query.vhost, exchange.definition.name
        command = DeleteExchange(vhost=vhost, name=name)
        words = ["kafkaesque", "exchange", "delete", shown_name(name), *_vhost_words(vhost)]
        count = len(exchange.bindings)
        begin = "begins" if count == 1 else "begin"
        done = f"deleted with the {counted(count, 'binding')} that {begin} there"
        self._change(call, command, f"exchange {shown_name(name)}", done, words)

    def bind(self, call: Call[ExchangeDryRun, BindingBody]) -> None:
        """Have an exchange pass messages on to a queue, another exchange or a topic."""
        self._alter_binding(call, BindDestination, "create", "bound")

    def unbind(self, call: Call[ExchangeDryRun, BindingBody]) -> None:
        """End a binding; one that is absent is as good."""
        self._alter_binding(call, UnbindDestination, "delete", "unbound")

    def _alter_binding(
        self,
        call: Call[ExchangeDryRun, BindingBody],
        kind: type[BindDestination] | type[UnbindDestination],
        verb: str,
        done: str,
    ) -> None:
        vhost, body = call.query.vhost, call.body
        source = exchange_of(call)
        _check_destination(call, vhost, body)
        arguments = _read_arguments(body.arguments)
        command = kind(
            vhost=vhost,
            source=source,
            destination=Destination(body.destination, body.to == "exchange", body.to == "topic"),
            key=body.key,
            arguments=arguments,
        )
        words = ["kafkaesque", "binding", verb, shown_name(source)]
        words += ["--key", body.key] if body.key else []
        words += [f"--{body.to}", body.destination]
        words += [*_argument_words(arguments), *_vhost_words(vhost)]
        self._change(call, command, f"{body.to} {body.destination}", done, words)

    def _change(
        self,
        call: Call[ExchangeDryRun, Any],
        command: ExchangeCommand,
        subject: str,
        done: str,
        words: list[str],
        status: int = 200,
    ) -> None:
        doors = self._context.doors
        if call.query.dry_run:
            plan_exchanges(doors.cluster.state, command, self._context.now())
            answer_change(self._context, call, f"{subject} would be {done}", words, 200)
            return

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
                return
            # What is asked next is to see it.
            doors.cluster.when_current(
                CHANGE_MS_MAX,
                lambda _: answer_change(self._context, call, f"{subject} is {done}", words, status),
            )

        doors.exchanges.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)


def shown_name(name: str) -> str:
    """Return what an exchange is called here."""
    return name or DEFAULT_EXCHANGE_WORD


def _sees(call: Call[Any, Any], vhost: str, name: str) -> bool:
    return call.sees(ResourceType.EXCHANGE, exchange_resource(vhost, name))


def sees_end(call: Call[Any, Any], vhost: str, to: Destination) -> bool:
    """Tell whether a client may know of what a binding leads to."""
    if to.is_topic:
        return call.sees(ResourceType.TOPIC, to.name)
    if to.is_exchange:
        return _sees(call, vhost, to.name)
    return call.sees(ResourceType.QUEUE, queue_resource(QueueName(vhost, to.name)))


def _check_destination(call: Call[Any, Any], vhost: str, body: BindingBody) -> None:
    """A binding writes where it leads; that the exchange may be read is checked before.

    Raises:
        ExchangeNotAuthorized: no rule allows it.
    """
    match body.to:
        case "exchange":
            kind, name = ResourceType.EXCHANGE, exchange_resource(vhost, body.destination)
        case "topic":
            kind, name = ResourceType.TOPIC, body.destination
        case "queue":
            kind, name = ResourceType.QUEUE, queue_resource(QueueName(vhost, body.destination))
    if not call.may(Operation.WRITE, kind, name):
        raise ExchangeNotAuthorized(call.refusal(Operation.WRITE, kind, name))


def _row(vhost: str, exchange: Exchange) -> ExchangeRow:
    said = exchange.definition
    return ExchangeRow(
        vhost=vhost,
        name=shown_name(said.name),
        type=said.type,
        is_auto_delete=said.is_auto_delete,
        is_internal=said.is_internal,
        is_built_in=said.name in PREDECLARED,
        alternate=exchange.alternate,
        arguments=_write_arguments(said.arguments),
        bindings=len(exchange.bindings),
    )


def _binding(binding: Binding) -> BindingView:
    to = binding.destination
    kind: DestinationKind = "exchange" if to.is_exchange else "topic" if to.is_topic else "queue"
    return BindingView(
        source=shown_name(binding.source),
        to=kind,
        destination=to.name,
        key=binding.key,
        arguments=_write_arguments(binding.arguments),
    )


def _write_arguments(arguments: Arguments) -> str:
    return msgspec.json.encode(arguments).decode() if arguments else ""


def _read_arguments(text: str) -> dict[str, object]:
    """Return arguments.

    Raises:
        InvalidRequest: they are no JSON object.
    """
    if not text.strip():
        return {}
    try:
        return _arguments_decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"arguments have to be a JSON object: {error}") from None


def _argument_words(arguments: Arguments) -> list[str]:
    words: list[str] = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        words += ["-a", f"{name}={text}"]
    return words


def _vhost_words(vhost: str) -> list[str]:
    return [] if vhost == DEFAULT_VHOST else ["--vhost", vhost]
