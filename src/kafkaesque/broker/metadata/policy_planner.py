"""What the controller decides of policies: which settings there are, and what they may say."""

from collections.abc import Mapping
from typing import Final

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.options.queue_arguments import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_KEY,
    OVERFLOW,
    PREFIX,
    read_arguments,
)
from kafkaesque.broker.requests.exchange_commands import PutPolicy, RemovePolicy
from kafkaesque.routing.exchanges import policy_planner
from kafkaesque.routing.exchanges.errors import BadArgument
from kafkaesque.routing.exchanges.kinds import ALTERNATE, LOG_OF_POLICY, check_log
from kafkaesque.routing.exchanges.records import AnyRoutingRecord, PolicyPut

#: Settings that limit a queue: of two, the smaller one counts.
LIMITS: Final = (
    "consumer-timeout",
    "delivery-limit",
    "expires",
    "max-length",
    "max-length-bytes",
    "message-ttl",
)
#: Settings that say what becomes of messages.
WAYS: Final = tuple(
    each.removeprefix(PREFIX) for each in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_KEY, OVERFLOW)
)
#: Settings that RabbitMQ and its plugins know, and that say nothing here: all queues are
#: replicated, and written to the disk; streams are topics, with options of their own. Policies with
#: them are taken, so that definitions can be brought over.
WITHOUT_EFFECT: Final = (
    "consumer-disconnected-timeout",
    "dead-letter-strategy",
    "delayed-retry-type",
    "federation-upstream",
    "federation-upstream-pattern",
    "federation-upstream-set",
    "ha-mode",
    "ha-params",
    "ha-promote-on-failure",
    "ha-promote-on-shutdown",
    "ha-sync-batch-size",
    "ha-sync-mode",
    "initial-cluster-size",
    "max-age",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "queue-leader-locator",
    "queue-master-locator",
    "queue-mode",
    "queue-version",
    "routing-key",
    "shards-per-node",
    "stream-filter-size-bytes",
    "stream-max-segment-size-bytes",
    "target-group-size",
)
RETRIES: Final = ("delayed-retry-max", "delayed-retry-min")
KNOWN: Final = (ALTERNATE, LOG_OF_POLICY, *LIMITS, *WAYS, *RETRIES, *WITHOUT_EFFECT)


def plan_policy(state: ClusterState, command: PutPolicy) -> list[AnyRoutingRecord]:
    """Return the record of a policy; none if it is so already.

    Raises:
        BadArgument, InvalidConfig: a setting is unknown, or its value not allowed.
        NoSuchVhost, OverBound: see `routing.exchanges.policy_planner`.
    """
    _check_definition(command.definition, is_operator=command.is_operator)
    wanted = PolicyPut(
        vhost=command.vhost,
        name=command.name,
        pattern=command.pattern,
        apply_to=command.apply_to,
        definition=command.definition,
        priority=command.priority,
        is_operator=command.is_operator,
    )
    return policy_planner.put_policy(state.routing, wanted)


def plan_policy_removal(state: ClusterState, command: RemovePolicy) -> list[AnyRoutingRecord]:
    """Return the record of a policy's end; none if there is none of the name.

    Raises:
        NoSuchVhost: there is none of this name.
    """
    return policy_planner.remove_policy(
        state.routing, command.vhost, command.name, is_operator=command.is_operator
    )


def queue_arguments_of(definition: Mapping[str, object]) -> dict[str, object]:
    """Return a policy's settings for queues as arguments of a queue."""
    settings = (*LIMITS, *WAYS, *RETRIES)
    return {PREFIX + name: value for name, value in definition.items() if name in settings}


def _check_definition(definition: Mapping[str, object], *, is_operator: bool) -> None:
    known = LIMITS if is_operator else KNOWN
    for name in definition:
        if name not in known:
            whose = "an operator's policy" if is_operator else "a policy"
            raise BadArgument(
                f"{whose} has no setting {name[:100]!r}; there are {', '.join(known)}"
            )
    alternate = definition.get(ALTERNATE)
    if alternate is not None and not isinstance(alternate, str):
        raise BadArgument(f"{ALTERNATE} has to be a text, not {alternate!r}")
    check_log(definition.get(LOG_OF_POLICY))
    read_arguments(queue_arguments_of(definition))
