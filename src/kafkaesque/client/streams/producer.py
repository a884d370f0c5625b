"""Sends records to topics, each exactly once and in order, or says that it has not."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Library

from kafkaesque.client.config import ClientConfig
from kafkaesque.client.errors import Aborted, Closed, InvalidArgument, OutcomeUnknown, Timeout
from kafkaesque.client.message import Headers, encode_headers, wall_ms
from kafkaesque.client.serializers import Serializer
from kafkaesque.client.streams.library import error_of, settings_of
from kafkaesque.client.streams.records import Sent
from kafkaesque.client.working import log

#: Records and bytes that wait for their acknowledgement; who sends more waits, too.
BUFFERED_MAX: Final = 100_000
BUFFERED_KIB_MAX: Final = 64 * 1024
#: How long the thread that waits for acknowledgements lets nothing else happen.
_POLL_S: Final = 0.1
#: Between two looks whether there is room.
AGAIN_S: Final = 0.01
NO_ROOM: Final = "there is no room for more records: brokers are slow"
#: A commit that was not answered is asked for again so often.
_COMMITS_MAX: Final = 3


class Producer:
    """Records for topics, for any number of threads.

    A record that is acknowledged is on a majority of its replicas; a retry never doubles it
    (`enable.idempotence`). It stays in a buffer until then, of bounded size: `send` waits for room.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        key: Serializer[Any],
        value: Serializer[Any],
        transactional_id: str | None,
        settings: Mapping[str, Any],
    ) -> None:
        """See `Client.producer`."""
        own: dict[str, Any] = {
            "enable.idempotence": True,
            "acks": "all",
            "delivery.timeout.ms": int(config.timeout_s * 1000),
            "queue.buffering.max.messages": BUFFERED_MAX,
            "queue.buffering.max.kbytes": BUFFERED_KIB_MAX,
            "linger.ms": 5,
        }
        if transactional_id is not None:
            own["transactional.id"] = transactional_id
        self._timeout_s: Final = config.timeout_s
        self._key: Final = key
        self._value: Final = value
        self._is_transactional: Final = transactional_id is not None
        self._is_ready = False
        self._is_closed = threading.Event()
        try:
            self._library: Final = Library(settings_of(config, own, settings))
        except KafkaException as error:
            raise error_of(error, "making a producer") from None
        self._poller: Final = threading.Thread(
            target=self._poll, name="kafkaesque-producer", daemon=True
        )
        self._poller.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int | None = None,
    ) -> "Future[Sent]":
        """Hand a record over, and return at once what will be its place.

        The future has the place when the record is committed, or the error. Records of one
        partition keep their order. A value of None is a tombstone.

        Raises:
            InvalidArgument, MessageTooLarge: nothing was sent.
            Timeout: there was no room in the buffer; nothing was sent.
            Closed: the producer is closed.
        """
        encoded = self.encode(key, value)
        return self.send_raw(
            topic, *encoded, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )

    def send_raw(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int | None = None,
    ) -> "Future[Sent]":
        """As `send`, for a key and a value that are bytes already."""
        deadline_s = time.monotonic() + self._timeout_s
        said = encode_headers(headers or {})
        while True:
            future = self.offer(topic, key, value, said, partition, timestamp_ms)
            if future is not None:
                return future
            if time.monotonic() >= deadline_s:
                raise Timeout(NO_ROOM)
            time.sleep(AGAIN_S)

    def encode(self, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        """Return a key and a value as bytes.

        Raises:
            InvalidArgument: a serializer cannot write them.
        """
        return (
            None if key is None else self._key.encode(key),
            None if value is None else self._value.encode(value),
        )

    def offer(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        partition: int,
        timestamp_ms: int | None,
    ) -> "Future[Sent] | None":
        """As `send_raw`, but return None if there is no room in the buffer; never wait."""
        if self._is_closed.is_set():
            raise Closed("the producer is closed")
        future: Future[Sent] = Future()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if not future.set_running_or_notify_cancel():
                return
            if error is not None:
                future.set_exception(error_of(error, f"sending to topic {topic!r}"))
            else:
                future.set_result(Sent(topic, message.partition() or 0, message.offset() or 0))

        try:
            self._library.produce(
                topic,
                value,
                key,
                partition,
                on_delivery,
                timestamp=wall_ms() if timestamp_ms is None else timestamp_ms,
                headers=list(headers),
            )
        except BufferError:
            return None
        except KafkaException as error:
            raise error_of(error, f"sending to topic {topic!r}") from None
        return future

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was sent is committed, or has its error.

        Raises:
            OutcomeUnknown: some are still on their way.
        """
        left = self._library.flush(self._timeout_s if timeout is None else timeout)
        if left:
            raise OutcomeUnknown(f"{left} records have not been acknowledged in time")

    def close(self, timeout: float | None = None) -> None:
        """Send what is buffered, and end.

        Raises:
            OutcomeUnknown: as of `flush`; the producer is closed all the same.
        """
        if self._is_closed.is_set():
            return
        try:
            self.flush(timeout)
        finally:
            self._is_closed.set()
            self._poller.join(self._timeout_s)

    def _poll(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._library.poll(_POLL_S)
            except KafkaException as error:
                # Fatal, such as fenced: every record has it as its own error, too.
                log.debug("%s", error)
                self._is_closed.wait(_POLL_S)

    # -- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Send all that is sent inside, or none of it: an exception ends it, and is raised.

        Raises:
            InvalidArgument: the producer has no `transactional_id`.
            Fenced: another producer has the id now.
            Aborted: brokers have refused something of it, and none of it is sent.
            OutcomeUnknown: the commit was not answered in time: all of it or none is sent.
        """
        self.begin()
        try:
            yield
        except BaseException:
            self.abort()
            raise
        self.commit()

    def prepare(self) -> None:
        """Take over the transactional id: what an earlier holder has left open is aborted.

        Raises:
            InvalidArgument: the producer has no `transactional_id`.
        """
        if not self._is_transactional:
            raise InvalidArgument("the producer has no transactional_id")
        try:
            if not self._is_ready:
                self._library.init_transactions(self._timeout_s)
                self._is_ready = True
        except KafkaException as error:
            raise error_of(error, "taking over a transactional id") from None

    def begin(self) -> None:
        """Begin a transaction; see `transaction`."""
        self.prepare()
        try:
            self._library.begin_transaction()
        except KafkaException as error:
            raise error_of(error, "beginning a transaction") from None

    def add_offsets(self, positions: list[Any], group: Any) -> None:
        """Commit a consumer's positions together with what is sent; librdkafka's own types."""
        try:
            self._library.send_offsets_to_transaction(positions, group, self._timeout_s)
        except KafkaException as error:
            raise error_of(error, "adding offsets to a transaction") from None

    def commit(self) -> None:
        """Commit the transaction; see `transaction`."""
        for _ in range(_COMMITS_MAX):
            try:
                self._library.commit_transaction(self._timeout_s)
                return
            except KafkaException as raised:
                error = raised.args[0]
                if error.txn_requires_abort():
                    self.abort()
                    raise Aborted(f"the transaction was aborted: {error.str()}") from None
                if not error.retriable():
                    raise error_of(error, "committing a transaction") from None
                last = error.str()
        raise OutcomeUnknown(f"committing a transaction: {last}")

    def abort(self) -> None:
        """Abort the transaction; nobody who reads committed records sees any of it."""
        try:
            self._library.abort_transaction(self._timeout_s)
        except KafkaException as error:
            raise error_of(error, "aborting a transaction") from None
