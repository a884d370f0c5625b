"""The synchronous client."""

from collections.abc import Callable
from datetime import timedelta
from typing import Unpack
from weakref import WeakSet

from kafkaesque.client.config import ClientOptions
from kafkaesque.client.queue_client import QueueClient, Received
from kafkaesque.client.worker import Worker
from kafkaesque.client.working import LOCK_S, OnError, make_worker_config


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

    def close(self) -> None:
        """Stop all workers in order, then close all connections.

        Whatever is asked afterwards raises `Closed`.
        """
        for worker in list(self._workers):
            worker.stop()
        super().close()

    def worker(
        self,
        queue: str,
        function: Callable[[Received], object],
        *,
        concurrency: int = 1,
        lock: float | timedelta = LOCK_S,
        on_error: OnError | None = None,
    ) -> Worker:
        """Return a worker that runs a function for each message; see `Worker`. It does not run yet.

        Messages are locked for `lock` seconds at a time: so long another worker has to wait for
        them if this process dies. `on_error` is told of every exception, the function's and others;
        without one they are logged.

        Raises:
            InvalidArgument: an argument makes no sense.
        """
        worker = Worker(self, make_worker_config(queue, concurrency, lock, on_error), function)
        self._workers.add(worker)
        return worker

    def notify(
        self,
        queue: str,
        callback: Callable[[Received], object],
        *,
        concurrency: int = 1,
        lock: float | timedelta = LOCK_S,
        on_error: OnError | None = None,
    ) -> Worker:
        """Call back for each message, on threads of the client, until `stop` of what is returned.

        Raises:
            InvalidArgument: an argument makes no sense.
        """
        worker = self.worker(queue, callback, concurrency=concurrency, lock=lock, on_error=on_error)
        return worker.start()
