"""Consumes, transforms and produces in transactions: each record has its effect exactly once.

Theory of operation. Some records are read, the function is called for each, and what it returns is
sent in one transaction together with the positions behind what was read. So either all of it is
there and the records are read, or nothing is and they are read again: by this process after an
abort, or by another one after a crash. Whoever reads committed records sees each result once. A
second process with the same id fences the first.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Self

from confluent_kafka import TopicPartition

from kafkaesque.client.errors import (
    Aborted,
    BrokerUnavailable,
    Fenced,
    KafkaesqueError,
    OutcomeUnknown,
    RequestRefused,
    Timeout,
)
from kafkaesque.client.streams.attempts import AttemptPolicy, dead_letter_headers
from kafkaesque.client.streams.consumer import Consumer, Undecodable
from kafkaesque.client.streams.producer import Producer
from kafkaesque.client.streams.records import Event, StreamRecord
from kafkaesque.client.working import AGAIN_S_MAX, AGAIN_S_MIN, TAKE_WAIT_S, log

#: Records of one transaction, and how long it waits for more of them.
BATCH_MAX: Final = 500
#: Transactions that fail one after the other, before the last error is raised.
FAILURES_MAX: Final = 20
#: These end a transaction, not the work.
_PASSING: Final = (Aborted, BrokerUnavailable, Timeout, RequestRefused)


class Transformer:
    """Records of topics, and the function that says which records follow from each."""

    def __init__(
        self,
        consumer: Consumer,
        function: Callable[[StreamRecord], Iterable[Event]],
        *,
        producer: Producer,
        policy: AttemptPolicy,
    ) -> None:
        self._consumer: Final = consumer
        self._function: Final = function
        self._producer: Final = producer
        self._policy: Final = policy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> None:
        """Work until somebody else calls `stop`, or until Ctrl-C.

        Raises:
            Fenced: another process has the transactional id.
            OutcomeUnknown: a commit was not answered; the next `run` of anybody finds out.
            Exception: the function's own, if there are no dead letters; nothing of it is sent.
        """
        failures, again_s = 0, AGAIN_S_MIN
        try:
            while not self._consumer.is_stopping:
                try:
                    self._step()
                except _PASSING as error:
                    failures += 1
                    if failures == FAILURES_MAX:
                        raise
                    log.warning("a transaction failed and is tried again: %s", error)
                    self._consumer.wait_for_stop(again_s)
                    again_s = min(2 * again_s, AGAIN_S_MAX)
                else:
                    failures, again_s = 0, AGAIN_S_MIN
        finally:
            self.close()

    def stop(self) -> None:
        """Begin no more transactions; `run` ends when the last one has. For any thread."""
        self._consumer.stop()

    def close(self) -> None:
        """Leave the group, and end."""
        self._consumer.close()
        self._producer.close()

    # -- one transaction

    def _step(self) -> None:
        # Before anything is read: positions that an earlier holder has left in an open transaction
        # could not be read until that has timed out.
        self._producer.prepare()
        records = self._read()
        if not records:
            return
        found: list[_Result] = []
        for record in records:
            result = self._transform(record)
            if result is None:
                return  # `stop` has come: nothing is sent, and all of it is read again
            found.append(result)
        starts, ends = _positions(records)
        try:
            self._producer.begin()
            for result in found:
                self._send(result)
            self._producer.add_offsets(ends, self._consumer.library.consumer_group_metadata())
            self._producer.commit()
        except (Fenced, OutcomeUnknown):
            raise
        except BaseException:
            with suppress(KafkaesqueError):
                self._producer.abort()
            self._consumer.rewind(starts)
            raise

    def _read(self) -> list[StreamRecord | Undecodable]:
        records: list[StreamRecord | Undecodable] = []
        while len(records) < BATCH_MAX:
            try:
                record = self._consumer.next(0 if records else TAKE_WAIT_S)
            except Undecodable as error:
                records.append(error)
            else:
                if record is None:
                    break
                records.append(record)
        return records

    def _transform(self, record: StreamRecord | Undecodable) -> "_Result | None":
        """Return what follows from a record, after all its attempts; None: `stop` has come."""
        if isinstance(record, Undecodable):
            # Trying it again changes nothing.
            self._policy.after(self._policy.attempts_max, record, record.record)
            return _DeadLetter(record.record, record, 1)
        attempt = 0
        while True:
            attempt += 1
            try:
                return list(self._function(record))
            except Exception as error:
                again_s = self._policy.after(attempt, error, record)
                if again_s is None:
                    return _DeadLetter(record, error, attempt)
                if self._consumer.wait_for_stop(again_s):
                    return None

    def _send(self, result: "_Result") -> None:
        """Send what follows; an error of sending is found by the commit."""
        if isinstance(result, _DeadLetter):
            record = result.record
            self._producer.send_raw(
                self._policy.dead_letters or "",
                record.raw_key,
                record.raw_value,
                headers=dead_letter_headers(record, result.error, result.attempts),
            )
            return
        for each in result:
            self._producer.send(each.topic, each.value, key=each.key, headers=each.headers)


class _DeadLetter(NamedTuple):
    record: StreamRecord
    error: Exception
    attempts: int


_Result = list[Event] | _DeadLetter


def _positions(
    records: Sequence[StreamRecord | Undecodable],
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return where records begin in their partitions, and where what follows them begins."""
    starts: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for each in records:
        record = each.record if isinstance(each, Undecodable) else each
        place = record.topic, record.partition
        starts.setdefault(place, record.offset)
        ends[place] = record.offset + 1
    return (
        [TopicPartition(*place, offset) for place, offset in starts.items()],
        [TopicPartition(*place, offset) for place, offset in ends.items()],
    )
