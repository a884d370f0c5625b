"""What of a consumer may change once it is there, as nats-server has it."""

from __future__ import annotations

from typing import Final

from kafkaesque.gateway.nats.jetstream.configs import ConsumerConfig
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError

#: By the member: what nats-server calls it.
_FIXED: Final = {
    "deliver_policy": "deliver policy",
    "opt_start_seq": "start sequence",
    "opt_start_time": "start time",
    "ack_policy": "ack policy",
    "replay_policy": "replay policy",
    "idle_heartbeat": "heart beats",
    "flow_control": "flow control",
    "mem_storage": "storage type",
}


def check_change(old: ConsumerConfig, new: ConsumerConfig, *, is_bound: bool) -> None:
    """Check that a consumer may become what is asked for.

    Args:
        is_bound: whether anybody is subscribed to the subject that it delivers to now.

    Raises:
        ApiError: something in it cannot change.
    """
    for name, shown in _FIXED.items():
        # What is left out is as good as 0 or false.
        if (getattr(old, name) or None) != (getattr(new, name) or None):
            raise ApiError(ApiCode.CONSUMER_CREATE, f"{shown} can not be updated")
    if (old.deliver_subject or "") != (new.deliver_subject or ""):
        if not old.deliver_subject:
            what = "can not update pull consumer to push based"
            raise ApiError(ApiCode.CONSUMER_CREATE, what)
        if not new.deliver_subject:
            what = "can not update push consumer to pull based"
            raise ApiError(ApiCode.CONSUMER_CREATE, what)
        if is_bound:
            raise ApiError(ApiCode.CONSUMER_NAME_IN_USE)
    if old.waiting_max != new.waiting_max:
        raise ApiError(ApiCode.CONSUMER_CREATE, "max waiting can not be updated")
