"""What workers with threads and workers with asyncio have in common."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kafkaesque.client.delivery import Delivery
from kafkaesque.client.errors import (
    BrokerUnavailable,
    InvalidArgument,
    OutcomeUnknown,
    Timeout,
)
from kafkaesque.client.message import milliseconds
from kafkaesque.client.streams.records import StreamRecord

#: A worker that is told to stop is told so by its next answer, which comes after so long.
TAKE_WAIT_S: Final = 1.0
#: After an error that passes a worker waits so long, and twice as long each time.
AGAIN_S_MIN: Final = 0.1
AGAIN_S_MAX: Final = 5.0
LOCK_S: Final = 30.0
#: Locks are extended so often in their time: two attempts may fail.
EXTENSIONS: Final = 3
CONCURRENCY_MAX: Final = 1_000
#: These pass: the worker goes on. All other errors of taking end it.
PASSING: Final = (BrokerUnavailable, Timeout, OutcomeUnknown)

log: Final = logging.getLogger("kafkaesque.client")

#: Is told of each error: the message it was with, if there was one.
OnError = Callable[[Exception, Delivery | None], None]
#: The same for records of topics.
OnRecordError = Callable[[Exception, StreamRecord], None]


class Reject(Exception):
    """Raised by a worker's function: give the message up at once; trying again will not help."""


class Retry(Exception):
    """Raised by a worker's function: try the message again, after a delay; the attempt failed."""

    def __init__(self, text: str = "", *, delay: float | timedelta | None = None) -> None:
        super().__init__(text)
        self.delay = delay


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """How a worker works."""

    queue: str
    #: Messages that are worked on at a time.
    concurrency: int
    #: Messages are locked for so long, and again and again while the function runs.
    lock_s: float
    on_error: OnError

    @property
    def extend_every_s(self) -> float:
        """How often locks are extended."""
        return self.lock_s / EXTENSIONS


def make_worker_config(
    queue: str, concurrency: int, lock: float | timedelta, on_error: OnError | None
) -> WorkerConfig:
    """Check how a worker is to work.

    Raises:
        InvalidArgument: it makes no sense.
    """
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise InvalidArgument(f"concurrency is 1 to {CONCURRENCY_MAX}, not {concurrency}")
    lock_ms = milliseconds(lock)
    if not lock_ms:
        raise InvalidArgument("a worker's lock is more than 0 seconds")
    return WorkerConfig(
        queue=queue,
        concurrency=concurrency,
        lock_s=lock_ms / 1000,
        on_error=_log_error if on_error is None else on_error,
    )


def _log_error(error: Exception, message: Delivery | None) -> None:
    log.error("%s", message or "worker", exc_info=error)


def delay_of(error: Exception) -> float | timedelta | None:
    """Return how long a message waits whose function raised this; None: as the queue has it."""
    return error.delay if isinstance(error, Retry) else None
