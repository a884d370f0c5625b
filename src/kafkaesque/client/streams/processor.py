"""Runs a function for each record of topics, with retries and dead letters."""

from collections.abc import Callable
from typing import Final, Literal, Self

from kafkaesque.client.errors import InvalidArgument
from kafkaesque.client.streams.attempts import AttemptPolicy, dead_letter_headers
from kafkaesque.client.streams.consumer import Consumer, Undecodable
from kafkaesque.client.streams.producer import Producer
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.client.working import TAKE_WAIT_S

Delivery = Literal["at-least-once", "at-most-once"]
_DELIVERIES: Final = ("at-least-once", "at-most-once")


def check_delivery(delivery: str) -> None:
    """Raise InvalidArgument for what is no delivery semantics of a processor."""
    if delivery not in _DELIVERIES:
        raise InvalidArgument(f"delivery is one of {', '.join(_DELIVERIES)}, not {delivery!r}")


class Processor:
    """Records of topics, and the function that works on them, one after the other.

    At least once: a record counts as read when the function has returned; after a crash it comes
    again. At most once: it counts as read before the function is called, and never comes again. A
    record that fails, or that cannot be decoded, goes to the dead letters after its attempts, and
    counts as read when it is there.
    """

    def __init__(
        self,
        consumer: Consumer,
        function: Callable[[StreamRecord], object],
        *,
        producer: Producer | None,
        policy: AttemptPolicy,
        delivery: Delivery,
    ) -> None:
        """The producer is for dead letters."""
        check_delivery(delivery)
        self._consumer: Final = consumer
        self._function: Final = function
        self._producer: Final = producer
        self._policy: Final = policy
        self._is_before: Final = delivery == "at-most-once"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Work until somebody else calls `stop`, or until Ctrl-C; then commit and leave the group.

        Raises:
            Exception: the function's own, if there are no dead letters.
            KafkaesqueError: records cannot be read any more.
        """
        try:
            while not self._consumer.is_stopping:
                self._step()
        finally:
            self.close()

    def stop(self) -> None:
        """Take no more records; `run` ends when the function has ended. For any thread."""
        self._consumer.stop()

    def close(self) -> None:
        """Commit, leave the group, and end."""
        self._consumer.close()
        if self._producer is not None:
            self._producer.close()

    def _step(self) -> None:
        try:
            record = self._consumer.next(TAKE_WAIT_S)
        except Undecodable as error:
            # Trying it again changes nothing.
            self._policy.after(self._policy.attempts_max, error, error.record)
            self._bury(error.record, error, 1)
            self._consumer.ack(error.record)
            return
        if record is None:
            return
        if self._is_before:
            self._consumer.ack(record)
            self._consumer.commit()
        if self._work_on(record) and not self._is_before:
            self._consumer.ack(record)

    def _work_on(self, record: StreamRecord) -> bool:
        """Return whether the record is done with; False: `stop` has come between two attempts."""
        attempt = 0
        while True:
            attempt += 1
            try:
                self._function(record)
            except Exception as error:
                again_s = self._policy.after(attempt, error, record)
                if again_s is None:
                    self._bury(record, error, attempt)
                    return True
                if self._consumer.wait_for_stop(again_s):
                    return False
            else:
                return True

    def _bury(self, record: StreamRecord, error: Exception, attempts: int) -> None:
        if self._producer is None or self._policy.dead_letters is None:
            raise error
        sent = self._producer.send_raw(
            self._policy.dead_letters,
            record.raw_key,
            record.raw_value,
            headers=dead_letter_headers(record, error, attempts),
        )
        sent.result()
