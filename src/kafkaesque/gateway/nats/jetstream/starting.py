"""Where a new consumer begins."""

from __future__ import annotations

from kafkaesque.gateway.nats.jetstream.configs import ConsumerConfig
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.times import read_time
from kafkaesque.gateway.nats.jetstream.view import View


def start_of(config: ConsumerConfig, view: View) -> int | None:
    """Return the sequence at which a consumer begins; None: at the first message.

    Raises:
        ApiError: what it says is no time.
    """
    match config.deliver_policy:
        case "by_start_sequence":
            return config.opt_start_seq
        case "by_start_time":
            return max(1, view.sequence_since(time_of(config.opt_start_time or "")))
        case "new":
            # Where the queue would begin by itself, it would find out after the answer.
            return view.last_sequence + 1
        case "last":
            lasts = [view.last_of(each) for each in config.filters or [""]]
            return max(lasts) or view.last_sequence + 1
        case "last_per_subject":
            firsts = view.last_per_subject(config.filters)
            return firsts[0] if firsts else view.last_sequence + 1
    return None


def time_of(text: str) -> int:
    """Return a time in milliseconds.

    Raises:
        ApiError: it is none.
    """
    try:
        return read_time(text)
    except (ValueError, OverflowError):
        raise ApiError(ApiCode.CONSUMER_CONFIG, f"opt_start_time {text!r} is no time") from None
