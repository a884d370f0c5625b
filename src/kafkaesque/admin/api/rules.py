"""`/rules` and `/explain`: who may do what, and because of what."""

import shlex
from collections.abc import Callable, Iterable
from typing import Any, Final

from kafkaesque.access.acl_filters import AclFilter, write_binding
from kafkaesque.access.administration import AskGrants
from kafkaesque.access.explanations import matches
from kafkaesque.access.operations import CLUSTER_NAME, ResourceType
from kafkaesque.access.principals import read_principal
from kafkaesque.access.rules import Rule
from kafkaesque.admin.api.access_values import (
    NAMES_MAX,
    ExplainQuery,
    Explanation,
    NewRule,
    RuleChange,
    RuleList,
    RuleRow,
    RulesQuery,
)
from kafkaesque.admin.api.access_words import (
    creation_words,
    deletion_words,
    read_operation,
    read_rules,
    read_type,
    resource_words,
    shown_rule,
    word_of,
)
from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, DryRun
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.paging import take_page
from kafkaesque.broker.metadata.queue_names import exchange_resource, is_own_vhost, queue_resource
from kafkaesque.broker.metadata.topic_views import all_readable
from kafkaesque.broker.requests.access_commands import AccessCommand, AddRules, RemoveRules
from kafkaesque.chassis.grants import decide_with_queue, explain_grants
from kafkaesque.model.errors import RequestRefused

_KEYS: Final[dict[str, Callable[[RuleRow], Any]]] = {
    "id": lambda each: each.id,
    "principal": lambda each: each.principal,
    "resource_type": lambda each: each.resource_type,
    "name": lambda each: each.name,
    "effect": lambda each: each.effect,
}


class RulePages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_rules(self, call: Call[RulesQuery, None]) -> None:
        """List rules."""
        query = call.query
        kind = read_type(query.resource_type) if query.resource_type else None
        wanted = query.q.lower()
        found = [
            shown_rule(each)
            for each in self._context.doors.access.state.rules.values()
            if query.principal in ("", each.principal)
            and kind in (None, each.resource_type)
            and (wanted in each.principal.lower() or wanted in each.name.lower())
        ]
        page = take_page(found, query, _KEYS, "id")
        call.answer(self._context.page_view(RuleList, page))

    def explain(self, call: Call[ExplainQuery, None]) -> None:
        """Say who may do something, and of one principal whether it may."""
        query, doors = call.query, self._context.doors
        operation, kind = read_operation(query.operation), read_type(query.resource_type)
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else query.name
        super_users = tuple(doors.configuration.file.super_users)
        question = AskGrants(operation=operation, resource_type=kind, name=name)
        decision = None
        if query.principal:
            who = read_principal(query.principal)
            host = query.host or "0.0.0.0"
            decision = decide_with_queue(doors.access, who, host, operation, kind, name)
        words = ["kafkaesque", "rule", "explain", "-o", word_of(operation)]
        found = explain_grants(doors.access, super_users, question)
        call.answer(
            Explanation(
                as_of=self._context.now(),
                seen_by=self._context.node,
                grants=list(found.grants),
                queue=found.queue,
                is_allowed=None if decision is None else decision.allowed,
                because="" if decision is None else decision.because,
                command=shlex.join([*words, *resource_words(kind, name)]),
            )
        )

    def add_rules(self, call: Call[DryRun, NewRule]) -> None:
        """Add rules, and say what there is that they are for."""
        rules = read_rules(call.body)
        told = "; ".join(str(each) for each in rules)
        command = AddRules(rules=tuple(rules))
        self._change(call, command, rules[0], ("would be added", "added"), told, 201)

    def delete_rule(self, call: Call[DryRun, None]) -> None:
        """Remove a rule."""
        text = call.params["rule"]
        number = int(text) if text.isdecimal() and len(text) < 16 else 0
        rule = self._context.doors.access.state.rules.get(number)
        if rule is None:
            call.refuse(404, "RuleUnknown", f"there is no rule {text}")
            return
        each = write_binding(rule)
        wanted = AclFilter(
            resource_type=each.resource_type,
            name=each.name,
            pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission=each.permission,
        )
        command = RemoveRules(wanted=wanted)
        self._change(call, command, rule, ("would be removed", "removed"), str(rule), 200)

    def _change(
        self,
        call: Call[DryRun, Any],
        command: AccessCommand,
        rule: Rule,
        said: tuple[str, str],
        told: str,
        status: int,
    ) -> None:
        doors = self._context.doors
        if isinstance(command, AddRules):
            words = creation_words(command.rules)
        else:
            words = deletion_words(rule)

        def answer(what: str, status: int) -> None:
            names = self._names(rule.resource_type)
            found = None
            if names is not None:
                seen = [each for each in sorted(names) if call.sees(rule.resource_type, each)]
                found = matches(rule, seen)
            view = RuleChange(
                as_of=self._context.now(),
                seen_by=self._context.node,
                is_dry_run=call.query.dry_run,
                what=what,
                command=shlex.join(words),
                matches=None if found is None else list(found[:NAMES_MAX]),
                match_total=len(found or ()),
            )
            call.answer(view, status)

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
            else:
                # What is asked next is to see it.
                doors.cluster.when_current(
                    CHANGE_MS_MAX, lambda _: answer(f"{said[1]}: {told}", status)
                )

        if call.query.dry_run:
            answer(f"{said[0]}: {told}", 200)
        else:
            doors.access.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)

    def _names(self, kind: ResourceType) -> Iterable[str] | None:
        """Return the resources of a type, as rules call them; None: they cannot be listed here."""
        doors = self._context.doors
        vhosts = [each for each in doors.exchanges.vhosts() if not is_own_vhost(each)]
        match kind:
            case ResourceType.TOPIC:
                return [each.name for each in all_readable(doors.cluster.state)]
            case ResourceType.QUEUE:
                return [queue_resource(each.queue) for each in doors.queues.all()]
            case ResourceType.VHOST:
                return vhosts
            case ResourceType.EXCHANGE:
                return [
                    exchange_resource(vhost, name)
                    for vhost in vhosts
                    for name in doors.exchanges.vhost(vhost).exchanges
                    if name
                ]
            case _:
                return None
