"""The synchronous client."""

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakSet

from kafkaesque.client.attachment import Attachment
from kafkaesque.client.calls import SPARE_S
from kafkaesque.client.config import ClientOptions
from kafkaesque.client.events.filters import Filter, as_filter
from kafkaesque.client.message import When
from kafkaesque.client.queue_client import QueueClient, Received
from kafkaesque.client.queue_consumer import QueueConsumer
from kafkaesque.client.serializers import JSON, TEXT, Serializer
from kafkaesque.client.streams.attempts import (
    ATTEMPTS,
    BACKOFF_S,
    log_record_error,
    make_attempt_policy,
)
from kafkaesque.client.streams.records import Event, Sent, StreamRecord
from kafkaesque.client.worker import Worker
from kafkaesque.client.working import LOCK_S, OnError, OnRecordError, make_worker_config

if TYPE_CHECKING:
    # With librdkafka, which is loaded when it is needed.
    from kafkaesque.client.events.subscription import Subscription
    from kafkaesque.client.streams.consumer import Consumer, Start
    from kafkaesque.client.streams.processor import Delivery, Processor
    from kafkaesque.client.streams.producer import Producer
    from kafkaesque.client.streams.transformer import Transformer


class Client(QueueClient):
    """A cluster's queues, for any number of threads.

        with Client("127.0.0.1:9092") as client:
            client.put("orders", {"id": 7})
            message = client.get("orders", timeout=10)
            message.ack()

    Every operation ends within the client's timeout or its own, and raises a `KafkaesqueError` if
    it is not done. `Timeout`, `BrokerUnavailable` and every refusal say that nothing was done;
    `OutcomeUnknown` says that nobody knows.
    """

    def __init__(self, bootstrap_servers: str, **options: Unpack[ClientOptions]) -> None:
        """Name some brokers as `host:port,host:port`; nothing is connected yet.

        Raises:
            InvalidArgument: an option makes no sense, or a file of TLS cannot be read.
        """
        super().__init__(bootstrap_servers, **options)
        self._workers: WeakSet[Worker] = WeakSet()
        self._consumers: WeakSet[QueueConsumer] = WeakSet()
        self._subscriptions: WeakSet[Subscription] = WeakSet()
        #: Of `publish`; made when it is first needed.
        self._publisher: Producer | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop all workers, consumers and subscriptions in order, then close all connections.

        Whatever is asked afterwards raises `Closed`. Producers and consumers of topics are
        closed by whoever made them.
        """
        for worker in list(self._workers):
            worker.stop()
        for consumer in list(self._consumers):
            consumer.close()
        for subscription in list(self._subscriptions):
            subscription.stop()
        with self._lock:
            publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.close()
        super().close()

    # -- queues

    def attach(self, queue: str) -> QueueConsumer:
        """Return a consumer that the queue knows, with a connection of its own.

        Queues with `sharing=exclusive` or `single-active` give messages only to such a one: an
        exclusive queue has one consumer and refuses others; a single-active one gives messages to
        one, and the next takes over when that is gone. What it has is ready for others when it is
        closed, or when its process or connection ends. It attaches with its first take, or as a
        context manager:

            with client.attach("jobs") as consumer:
                message = consumer.get(timeout=10)
        """
        consumer = QueueConsumer(self, Attachment(self._calls, self._queues, queue), self._driver)
        self._consumers.add(consumer)
        return consumer

    def worker(
        self,
        queue: str,
        function: Callable[[Received], object],
        *,
        concurrency: int = 1,
        lock: float | timedelta = LOCK_S,
        attach: bool = False,
        on_error: OnError | None = None,
    ) -> Worker:
        """Return a worker that runs a function for each message; see `Worker`. It does not run yet.

        Messages are locked for `lock` seconds at a time: so long another worker has to wait for
        them if this process dies. With `attach` it takes them as a consumer that the queue knows;
        see `attach`. `on_error` is told of every exception, the function's and others;
        without one they are logged.

        Raises:
            InvalidArgument: an argument makes no sense.
        """
        config = make_worker_config(queue, concurrency, lock, on_error)
        worker = Worker(self, config, function, self.attach(queue) if attach else None)
        self._workers.add(worker)
        return worker

    def notify(
        self,
        queue: str,
        callback: Callable[[Received], object],
        *,
        concurrency: int = 1,
        lock: float | timedelta = LOCK_S,
        attach: bool = False,
        on_error: OnError | None = None,
    ) -> Worker:
        """Call back for each message, on threads of the client, until `stop` of what is returned.

        Raises:
            InvalidArgument: an argument makes no sense.
        """
        worker = self.worker(
            queue, callback, concurrency=concurrency, lock=lock, attach=attach, on_error=on_error
        )
        return worker.start()

    # -- streams

    def producer(
        self,
        *,
        key: Serializer[Any] = TEXT,
        value: Serializer[Any] = JSON,
        transactional_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> "Producer":
        """Return a producer for topics; see `Producer`.

        Keys and values are written by serializers. With a `transactional_id` it has transactions,
        and is the only one with this id. `settings` are librdkafka's own.

        Raises:
            InvalidArgument: a setting makes no sense, or would break what a producer promises.
        """
        from kafkaesque.client.streams.producer import Producer

        return Producer(
            self.config,
            key=key,
            value=value,
            transactional_id=transactional_id,
            settings=settings or {},
        )

    def consumer(
        self,
        *topics: str,
        group: str,
        key: Serializer[Any] = TEXT,
        value: Serializer[Any] = JSON,
        start: "Start" = "earliest",
        settings: Mapping[str, Any] | None = None,
    ) -> "Consumer":
        """Return a consumer of topics, as a member of a group; see `Consumer`.

        `start` says where a group begins that has read nothing yet. A topic that begins with `^` is
        a regular expression. `settings` are librdkafka's own.

        Raises:
            InvalidArgument: a setting makes no sense, or would break what a consumer promises.
        """
        from kafkaesque.client.streams.consumer import Consumer

        return Consumer(
            self.config,
            topics,
            group=group,
            key=key,
            value=value,
            start=start,
            settings=settings or {},
        )

    def processor(
        self,
        *topics: str,
        group: str,
        function: Callable[[StreamRecord], object],
        key: Serializer[Any] = TEXT,
        value: Serializer[Any] = JSON,
        start: "Start" = "earliest",
        delivery: "Delivery" = "at-least-once",
        attempts: int = ATTEMPTS,
        backoff: float = BACKOFF_S,
        dead_letters: str | None = None,
        on_error: OnRecordError | None = None,
    ) -> "Processor":
        """Return what runs a function for each record; see `Processor`. It does not run yet.

        A record that fails is tried `attempts` times in all, `backoff` seconds apart and twice as
        long each time, and then sent to the topic of dead letters. Without one, the exception ends
        the run. Records behind it in its partition wait.

        Raises:
            InvalidArgument: an argument makes no sense.
        """
        from kafkaesque.client.streams.making import Source, make_processor

        policy = make_attempt_policy(attempts, backoff, dead_letters, on_error)
        source = Source(topics=topics, group=group, key=key, value=value, start=start)
        return make_processor(self.config, source, function, policy, delivery)

    def transformer(
        self,
        *topics: str,
        group: str,
        function: Callable[[StreamRecord], Iterable[Event]],
        transactional_id: str,
        key: Serializer[Any] = TEXT,
        value: Serializer[Any] = JSON,
        attempts: int = ATTEMPTS,
        backoff: float = BACKOFF_S,
        dead_letters: str | None = None,
        on_error: OnRecordError | None = None,
    ) -> "Transformer":
        """Return what consumes, transforms and produces in transactions; see `Transformer`.

        Results are written by the same serializers. Every process has a `transactional_id` of its
        own, and the same one after a restart.

        Raises:
            InvalidArgument: an argument makes no sense.
        """
        from kafkaesque.client.streams.making import Source, make_transformer

        policy = make_attempt_policy(attempts, backoff, dead_letters, on_error)
        source = Source(topics=topics, group=group, key=key, value=value)
        return make_transformer(self.config, source, function, policy, transactional_id)

    # -- events

    def publish(self, event: Event) -> Sent:
        """Publish an event, and return its place when it is committed.

        Those who have subscribed get it; it does not wait for any of them. The value is written as
        JSON; for another form, use a `producer`.

        Raises:
            KafkaesqueError: as of `Producer.send`, and what its future has.
        """
        with self._lock:
            if self._publisher is None:
                self._publisher = self.producer()
            publisher = self._publisher
        sent = publisher.send(event.topic, event.value, key=event.key, headers=event.headers)
        return sent.result(self.config.timeout_s + SPARE_S)

    def subscribe(
        self,
        wanted: Filter | str,
        callback: Callable[[StreamRecord], object],
        expiry: When | None = None,
        *,
        value: Serializer[Any] = JSON,
        on_error: OnRecordError | None = None,
    ) -> "Subscription":
        """Call back for each event from now on that a filter wants; return a handle.

        When it returns, no later event is missed. The filter is a pattern of topics, as in
        `orders.*`, or a `Filter`, which has an expression, too. It ends by `unsubscribe`, at its
        expiry (seconds from now, or a time with a zone), or with the client. The callback is called
        on a thread of the subscription, once for each event; exceptions are reported.

        The expression is evaluated in the client: events that do not match are fetched, too.

        Raises:
            InvalidArgument: the filter or the expiry makes no sense.
            TopicNotFound: it is no pattern, and there is no such topic.
            BrokerUnavailable: it could not begin in time.
        """
        from kafkaesque.client.events.listener import Listener, expiry_s
        from kafkaesque.client.events.subscription import Subscription

        listener = Listener(self.config, as_filter(wanted), value, expiry_s(expiry))
        subscription = Subscription(listener, callback, on_error or log_record_error)
        try:
            listener.begin()
        except BaseException:
            listener.close()
            raise
        subscription.start()
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, handle: "Subscription") -> None:
        """End a subscription: the callback is not called any more when this returns."""
        handle.stop()
