"""What becomes of a record that a function fails at: again, then a dead letter, or the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafkaesque.client.errors import InvalidArgument
from kafkaesque.client.message import milliseconds
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.client.working import OnRecordError, Reject, Retry, log

#: What a record is given, if nobody says more.
ATTEMPTS: Final = 3
BACKOFF_S: Final = 0.5
BACKOFF_S_MAX: Final = 30.0
ATTEMPTS_MAX: Final = 1_000
#: Characters of an error that a dead letter tells.
_ERROR_LENGTH_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPolicy:
    """How often a record is tried, and where it goes then."""

    #: The first one counts.
    attempts_max: int
    backoff_s: float
    #: A topic; None: the error ends the work, and the record is read again by whoever comes next.
    dead_letters: str | None
    on_error: OnRecordError

    def after(self, attempt: int, error: Exception, record: StreamRecord) -> float | None:
        """Return after how many seconds to try again; None: never. Raise if that is the end."""
        self.on_error(error, record)
        if not isinstance(error, Reject) and attempt < self.attempts_max:
            if isinstance(error, Retry) and error.delay is not None:
                return milliseconds(error.delay) / 1000
            return float(min(BACKOFF_S_MAX, self.backoff_s * 2 ** min(attempt - 1, 30)))
        if self.dead_letters is None:
            raise error
        return None


def make_attempt_policy(
    attempts: int, backoff: float, dead_letters: str | None, on_error: OnRecordError | None
) -> AttemptPolicy:
    """Check how often and how a record is tried.

    Raises:
        InvalidArgument: it makes no sense.
    """
    if not 1 <= attempts <= ATTEMPTS_MAX:
        raise InvalidArgument(f"there are 1 to {ATTEMPTS_MAX} attempts, not {attempts}")
    return AttemptPolicy(
        attempts_max=attempts,
        backoff_s=milliseconds(backoff) / 1000,
        dead_letters=dead_letters,
        on_error=log_record_error if on_error is None else on_error,
    )


def log_record_error(error: Exception, record: StreamRecord) -> None:
    """Report an error where nobody has said how."""
    log.error("record %s of %s-%s", record.offset, record.topic, record.partition, exc_info=error)


def dead_letter_headers(
    record: StreamRecord, error: Exception, attempts: int
) -> Mapping[str, str | bytes | None]:
    """Return the headers of a dead letter: the record's own, and why it is one."""
    own = {
        name: each for name, each in record.headers.items() if not name.startswith("kafkaesque.")
    }
    return {
        **own,
        "dead-letter.topic": record.topic,
        "dead-letter.partition": str(record.partition),
        "dead-letter.offset": str(record.offset),
        "dead-letter.attempts": str(attempts),
        "dead-letter.error": repr(error)[:_ERROR_LENGTH_MAX],
    }
