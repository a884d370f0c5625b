"""The options of a queue that hold: its own, and what policies of its virtual host say.

A queue's own option counts before a policy's, but for limits, of which the smallest counts. What
gives a message up somewhere is taken from one place as a whole.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kafkaesque.broker.metadata.cluster_state import ClusterState, EffectiveOptions, QueueState
from kafkaesque.broker.metadata.policy_planner import queue_arguments_of
from kafkaesque.broker.options.queue_arguments import QUEUE_TYPE, REJECTIONS, read_arguments
from kafkaesque.broker.options.queues import (
    DECLARATION,
    NOT_OF_CURSORS,
    NOT_OF_PARTITIONED,
    STREAM_TOPIC,
    make_policy,
    partition_count,
)
from kafkaesque.model.errors import ConfigError, InvalidConfig
from kafkaesque.routing.exchanges.records import PolicyPut
from kafkaesque.routing.policies import NO_POLICIES, Applied, Policies, Target

#: Options of which the smallest counts; 0 is no limit.
_LIMITS: Final = (
    "consumer.timeout.ms",
    "delivery.limit",
    "expires.ms",
    "max.length",
    "max.length.bytes",
    "message.ttl.ms",
)
_WAYS: Final = ("dead.letter.queue", "dead.letter.topic", "dead.letter.exchange")
_KEY: Final = "dead.letter.routing.key"
_OVERFLOW: Final = "overflow"
_IMPLIED_OVERFLOW: Final = "dead-letter"
_NO_POLICY: Final = Applied()

_Options = Mapping[str, str]


class _Declared(msgspec.Struct):
    arguments: dict[str, object] = {}


def effective_options(state: ClusterState, queue: QueueState) -> Mapping[str, str]:
    """Return the options that hold; the same object as long as they do."""
    policies = _policies(state, queue)
    if not policies:
        return queue.options
    known = queue.effective
    if known is not None and known.own is queue.options and known.policies is policies:
        return known.options
    applied = policies.find(target_of(queue), queue.queue.name)
    options = _merged(queue, applied)
    queue.effective = EffectiveOptions(own=queue.options, policies=policies, options=options)
    return options


def applied_to(state: ClusterState, queue: QueueState) -> Applied:
    """Return the policies that count for a queue."""
    policies = _policies(state, queue)
    return policies.find(target_of(queue), queue.queue.name) if policies else _NO_POLICY


def target_of(queue: QueueState) -> Target:
    """Return what kind of queue it is, for policies."""
    said = queue.options.get(DECLARATION)
    if said:
        try:
            kind = msgspec.json.decode(said, type=_Declared).arguments.get(QUEUE_TYPE)
        except msgspec.MsgspecError:
            kind = None
        if kind == "quorum":
            return Target.QUORUM_QUEUE
    if queue.options.get(STREAM_TOPIC):
        return Target.STREAM
    return Target.CLASSIC_QUEUE


def _policies(state: ClusterState, queue: QueueState) -> Policies:
    vhost = state.routing.vhosts.get(queue.queue.vhost)
    return NO_POLICIES if vhost is None else vhost.policies


def _merged(queue: QueueState, applied: Applied) -> _Options:
    own = queue.options
    merged = dict(own)
    useless: tuple[str, ...] = NOT_OF_CURSORS if queue.source is not None else ()
    if partition_count(own) > 1:
        useless = (*NOT_OF_PARTITIONED, "sharing")
    for policy in applied:
        said = _options_of(policy)
        for name, value in said.items():
            if name in useless:
                continue
            if name in _LIMITS:
                merged[name] = _smaller(merged.get(name), value)
            elif name not in (*_WAYS, _KEY, _OVERFLOW):
                merged.setdefault(name, value)
    _take_ways(merged, own, _options_of(applied.policy))
    try:
        make_policy(merged)
    except (ConfigError, InvalidConfig):
        # What a policy says does not go with what the queue is.
        return own
    return merged


def _options_of(policy: PolicyPut | None) -> _Options:
    if policy is None:
        return {}
    return read_arguments(queue_arguments_of(policy.definition))


def _take_ways(merged: dict[str, str], own: _Options, said: _Options) -> None:
    """Take from a policy where messages go, unless the queue says it, and what overflow does."""
    if not any(own.get(name) for name in _WAYS):
        merged.update({name: said[name] for name in (*_WAYS, _KEY) if name in said})
    overflow = said.get(_OVERFLOW)
    if overflow in REJECTIONS and own.get(_OVERFLOW, _IMPLIED_OVERFLOW) == _IMPLIED_OVERFLOW:
        merged[_OVERFLOW] = overflow
    elif overflow is not None and any(merged.get(name) for name in _WAYS):
        merged.setdefault(_OVERFLOW, overflow)


def _smaller(one: str | None, other: str) -> str:
    numbers = [int(each) for each in (one, other) if each and int(each)]
    return str(min(numbers, default=0))
