"""`/transformations`: rules that change messages on their way, by virtual host.

A rule is written in JSON, as text: numbers beyond 53 bits come through any client so.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, Change, answer_change
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.exchange_values import ExchangeDryRun, ExchangeQuery, ExchangesQuery
from kafkaesque.admin.api.paging import take_page, wants
from kafkaesque.admin.api.values import Listing, View
from kafkaesque.broker.metadata.exchange_planner import plan_exchanges
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, is_own_vhost
from kafkaesque.broker.requests.exchange_commands import (
    ExchangeCommand,
    PutTransformation,
    RemoveTransformation,
)
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges.errors import NoSuchTransformation
from kafkaesque.routing.exchanges.topology import Vhost
from kafkaesque.routing.exchanges.transformation_planner import RULE_BYTES_MAX
from kafkaesque.routing.transformations.rules import read_rule, write_rule
from kafkaesque.routing.transformations.transformation import Transformation


class RuleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule in JSON: its steps, and `when` and `failures` if it has them."""

    rule: Annotated[str, msgspec.Meta(min_length=2, max_length=RULE_BYTES_MAX)]


class TransformationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A transformation."""

    vhost: str
    name: str
    #: In JSON.
    rule: str
    #: Bindings that name it.
    bindings: int


class TransformationList(Listing, frozen=True, kw_only=True):
    """Transformations."""

    items: list[TransformationRow]


class TransformationView(View, frozen=True, kw_only=True):
    """One transformation."""

    transformation: TransformationRow


_KEYS: Final[dict[str, Callable[[TransformationRow], Any]]] = {
    # Unique, and sorted by the name first.
    "name": lambda each: f"{each.name}\0{each.vhost}",
    "vhost": lambda each: each.vhost,
    "bindings": lambda each: each.bindings,
}


class TransformationPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_all(self, call: Call[ExchangesQuery, None]) -> None:
        """List the transformations of the virtual hosts that the client may see."""
        query, door = call.query, self._context.doors.exchanges
        sees_all = call.could(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        found = [
            _row(door.vhost(vhost), name)
            for vhost in door.vhosts()
            if query.vhost in ("", vhost)
            and not is_own_vhost(vhost)
            and (sees_all or call.sees(ResourceType.VHOST, vhost))
            for name in door.vhost(vhost).transformations
            if wants(query, name)
        ]
        page = take_page(found, query, _KEYS, "name")
        call.answer(self._context.page_view(TransformationList, page))

    def show(self, call: Call[ExchangeQuery, None]) -> None:
        """Show one."""
        find_transformation(self._context, call)
        vhost = self._context.doors.exchanges.vhost(call.query.vhost)
        call.answer(
            TransformationView(
                as_of=self._context.now(),
                seen_by=self._context.node,
                transformation=_row(vhost, _name(call)),
            )
        )

    def put(self, call: Call[ExchangeDryRun, RuleBody]) -> None:
        """Make one, or make one so; bindings that name it go by it when this is answered."""
        name, vhost = _name(call), call.query.vhost
        rule = read_rule(call.body.rule.encode(errors="replace"))
        command = PutTransformation(vhost=vhost, name=name, rule=rule)
        words = ["kafkaesque", "transformation", "create", name, "--rule", call.body.rule]
        self._change(call, command, "put", words)

    def delete(self, call: Call[ExchangeDryRun, None]) -> None:
        """Remove one that no binding names; one that is absent is as good."""
        name, vhost = _name(call), call.query.vhost
        words = ["kafkaesque", "transformation", "delete", name]
        self._change(call, RemoveTransformation(vhost=vhost, name=name), "removed", words)

    def _change(
        self,
        call: Call[ExchangeDryRun, Any],
        command: ExchangeCommand,
        done: str,
        words: list[str],
    ) -> None:
        doors, subject = self._context.doors, f"transformation {_name(call)}"
        vhost = call.query.vhost
        words = [*words, "--vhost", vhost] if vhost != DEFAULT_VHOST else words
        if call.query.dry_run:
            plan_exchanges(doors.cluster.state, command, self._context.now())
            answer_change(self._context, call, f"{subject} would be {done}", words)
            return

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
                return
            # What is asked next is to see it.
            doors.cluster.when_current(
                CHANGE_MS_MAX,
                lambda _: answer_change(self._context, call, f"{subject} is {done}", words),
            )

        doors.exchanges.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)


def transformation_routes(pages: TransformationPages) -> list[Route]:
    """Return the operations on transformations."""
    one = "/transformations/{transformation}"
    return [
        Route(
            method="GET",
            path="/transformations",
            name="listTransformations",
            summary="Rules that change messages on their way",
            handle=pages.list_all,
            query=ExchangesQuery,
            result=TransformationList,
        ),
        Route(
            method="GET",
            path=one,
            name="showTransformation",
            summary="One transformation, and how many bindings name it",
            handle=pages.show,
            query=ExchangeQuery,
            result=TransformationView,
        ),
        Route(
            method="PUT",
            path=one,
            name="putTransformation",
            summary="Make a transformation, or make one so",
            handle=pages.put,
            query=ExchangeDryRun,
            body=RuleBody,
            result=Change,
        ),
        Route(
            method="DELETE",
            path=one,
            name="deleteTransformation",
            summary="Remove a transformation that no binding names",
            handle=pages.delete,
            query=ExchangeDryRun,
            result=Change,
        ),
    ]


def find_transformation(context: Context, call: Call[ExchangeQuery, Any]) -> Transformation:
    """Return the transformation of a call's path.

    Raises:
        NoSuchVhost, NoSuchTransformation: there is none of this name.
    """
    vhost, name = context.doors.exchanges.vhost(call.query.vhost), _name(call)
    found = vhost.transformations.get(name)
    if found is None:
        raise NoSuchTransformation(f"no transformation '{name}' in vhost '{vhost.name}'")
    return found


def _name(call: Call[Any, Any]) -> str:
    return call.params["transformation"]


def _row(vhost: Vhost, name: str) -> TransformationRow:
    return TransformationRow(
        vhost=vhost.name,
        name=name,
        rule=write_rule(vhost.transformations[name].rule).decode(),
        bindings=vhost.bindings_with(name),
    )
