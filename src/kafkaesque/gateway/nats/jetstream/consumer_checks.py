"""What a consumer may be asked to be, and what it may not."""

from __future__ import annotations

from typing import Final

from kafkaesque.gateway.nats.jetstream.configs import (
    NS_PER_MS,
    SUBJECTS_MAX,
    ConsumerConfig,
    StreamConfig,
    check_one_of,
    is_filter,
    overlap,
)
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.filter_sets import overlapping
from kafkaesque.gateway.nats.jetstream.starting import time_of
from kafkaesque.protocols.nats.subjects import is_literal

BACKOFF_STEPS_MAX: Final = 100
HEARTBEAT_NS_MIN: Final = 100 * NS_PER_MS


def check_consumer(config: ConsumerConfig, stream: StreamConfig) -> None:
    """Check a consumer's configuration.

    Raises:
        ApiError: it is not supported, or says nothing that could be done.
    """
    check_one_of("ack_policy", config.ack_policy, ("none", "all", "explicit"))
    check_one_of(
        "deliver_policy",
        config.deliver_policy,
        ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"),
    )
    check_one_of("replay_policy", config.replay_policy, ("instant", "original"))
    if config.replay_policy != "instant":
        raise ApiError(ApiCode.CONSUMER_CONFIG, "replay_policy is instant")
    _check_start(config)
    _check_filters(config)
    _check_attempts(config)
    if config.deliver_subject:
        _check_pushed(config, config.deliver_subject, stream)
    else:
        _check_pulled(config)
    if stream.retention == "workqueue" and config.ack_policy != "explicit":
        raise ApiError(ApiCode.WORK_PUSHED if config.deliver_subject else ApiCode.WORK_PULLED)


def _check_start(config: ConsumerConfig) -> None:
    policy, sequence, time = config.deliver_policy, config.opt_start_seq, config.opt_start_time
    if (sequence or 0) < 0:
        raise ApiError(ApiCode.CONSUMER_CONFIG, "opt_start_seq is below 0")
    wants_sequence, wants_time = policy == "by_start_sequence", policy == "by_start_time"
    for name, is_wanted, is_said in (
        ("opt_start_seq", wants_sequence, bool(sequence)),
        ("opt_start_time", wants_time, bool(time)),
    ):
        if is_wanted != is_said:
            what = f"consumer delivery policy is {policy}, but {name} is "
            raise ApiError(ApiCode.DELIVER_POLICY, what + ("not set" if is_wanted else "set"))
    if time:
        # Whoever begins would find out when the consumer is there.
        time_of(time)


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise ApiError(ApiCode.FILTERS_TWICE)
    filters = config.filters
    if "" in filters and len(filters) > 1:
        raise ApiError(ApiCode.FILTER_EMPTY)
    if len(filters) > SUBJECTS_MAX:
        raise ApiError(ApiCode.CONSUMER_CONFIG, f"a consumer has at most {SUBJECTS_MAX} filters")
    for subject in filters:
        if not is_filter(subject):
            raise ApiError(ApiCode.CONSUMER_CONFIG, f"{subject!r} is not a subject")
    if overlapping(filters):
        raise ApiError(ApiCode.FILTERS_OVERLAP)


def _check_attempts(config: ConsumerConfig) -> None:
    steps = config.backoff or []
    if len(steps) > BACKOFF_STEPS_MAX or any(each <= 0 for each in steps):
        what = f"backoff has at most {BACKOFF_STEPS_MAX} steps, each of them more than 0"
        raise ApiError(ApiCode.CONSUMER_CONFIG, what)
    if steps and 0 < (config.max_deliver or 0) <= len(steps):
        raise ApiError(ApiCode.MAX_DELIVER_BACKOFF)


def _check_pushed(config: ConsumerConfig, subject: str, stream: StreamConfig) -> None:
    if not is_literal(subject):
        raise ApiError(ApiCode.DELIVER_WILDCARD)
    if any(overlap(subject, each) for each in stream.filters):
        raise ApiError(ApiCode.DELIVER_CYCLE)
    if config.max_waiting:
        raise ApiError(ApiCode.PUSH_MAX_WAITING)
    heartbeat = config.idle_heartbeat or 0
    if 0 < heartbeat < HEARTBEAT_NS_MIN:
        raise ApiError(ApiCode.HEARTBEAT_SHORT)
    if config.flow_control and heartbeat <= 0:
        raise ApiError(ApiCode.FLOW_WITHOUT_HEARTBEAT)


def _check_pulled(config: ConsumerConfig) -> None:
    if config.idle_heartbeat:
        raise ApiError(ApiCode.HEARTBEAT_PULLED)
    if config.flow_control:
        raise ApiError(ApiCode.FLOW_PULLED)
