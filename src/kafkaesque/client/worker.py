"""Runs a function for each message of a queue, on threads."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self

from kafkaesque.client.errors import Closed, KafkaesqueError, LockLost
from kafkaesque.client.queue_client import QueueClient, Received
from kafkaesque.client.queue_consumer import QueueConsumer
from kafkaesque.client.working import (
    AGAIN_S_MAX,
    AGAIN_S_MIN,
    PASSING,
    TAKE_WAIT_S,
    Reject,
    WorkerConfig,
    delay_of,
)


class Worker:
    """A queue's messages, and the function that works on them.

    A message is acknowledged when the function returns, released as failed when it raises, and
    given up when it raises `Reject`. While it runs, the message's lock is extended. If this process
    dies, the lock ends and another worker gets the message: the function may see it twice.
    """

    def __init__(
        self,
        client: QueueClient,
        config: WorkerConfig,
        function: Callable[[Received], object],
        consumer: QueueConsumer | None = None,
    ) -> None:
        self._client: Final = client
        #: Takes the messages, if the queue is to know who does.
        self._consumer: Final = consumer
        self._config: Final = config
        self._function: Final = function
        self._changed: Final = threading.Condition()
        #: Those that the function has, by identity of the object.
        self._in_hand: dict[int, Received] = {}
        self._is_stopping = False
        self._is_taking = True
        #: Whether the thread runs the function.
        self._here = threading.local()
        self._threads: list[threading.Thread] = []
        self._pool = ThreadPoolExecutor(config.concurrency, f"kafkaesque-{config.queue}")
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it takes messages."""
        return bool(self._threads) and not self._is_stopping

    def start(self) -> Self:
        """Begin to take messages, on threads of its own.

        Raises:
            Closed: it was started before.
        """
        if self._threads or self._is_stopping:
            raise Closed("a worker is started once")
        for target in (self._take, self._extend):
            thread = threading.Thread(target=target, name=f"kafkaesque-{target.__name__}")
            thread.daemon = True
            self._threads.append(thread)
            thread.start()
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """Take no more messages, and wait until the function has ended for those in hand.

        Return whether it has; False: it goes on, and its locks are still extended. It may take a
        second even if there is nothing to do. The function itself may call it; then it does not
        wait.
        """
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if getattr(self._here, "is_working", False):
            return False
        ends_s = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if ends_s is None else max(0.0, ends_s - time.monotonic()))
        is_over = not any(thread.is_alive() for thread in self._threads)
        if is_over:
            self._pool.shutdown()
            if self._consumer is not None:
                # Not before: what the function has would be ready for others.
                self._consumer.close()
        return is_over

    def run(self) -> None:
        """Start, and work until somebody else calls `stop`, or until Ctrl-C.

        Raises:
            KafkaesqueError: why messages cannot be taken any more, such as `QueueNotFound`.
        """
        self.start()
        try:
            for thread in self._threads:
                thread.join()
        finally:
            self.stop()
        if self._error is not None:
            raise self._error

    # -- taking

    def _take(self) -> None:
        try:
            self._take_all()
        finally:
            with self._changed:
                self._is_taking = False
                self._changed.notify_all()

    def _take_all(self) -> None:
        again_s = AGAIN_S_MIN
        while (room := self._room()) > 0:
            try:
                found = self._found(room)
            except PASSING as error:
                self._config.on_error(error, None)
                self._pause(again_s)
                again_s = min(2 * again_s, AGAIN_S_MAX)
                continue
            except Exception as error:
                self._end(error)
                return
            again_s = AGAIN_S_MIN
            for message in found:
                with self._changed:
                    self._in_hand[id(message)] = message
                self._pool.submit(self._work, message)

    def _found(self, count: int) -> list[Received]:
        config = self._config
        if self._consumer is not None:
            return self._consumer.get_many(count, TAKE_WAIT_S, lock=config.lock_s)
        return self._client.get_many(config.queue, count, TAKE_WAIT_S, lock=config.lock_s)

    def _room(self) -> int:
        """Wait until the function can have more messages; return how many. 0: it is to stop."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_stopping or len(self._in_hand) < self._config.concurrency
            )
            return 0 if self._is_stopping else self._config.concurrency - len(self._in_hand)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, seconds)

    def _end(self, error: Exception) -> None:
        with self._changed:
            if not (isinstance(error, Closed) and self._is_stopping):
                self._error = error
            self._is_stopping = True
            self._changed.notify_all()
        if self._error is not None:
            self._config.on_error(error, None)

    # -- working

    def _work(self, message: Received) -> None:
        self._here.is_working = True
        try:
            self._work_on(message)
        except Exception as error:
            # Nobody knows how it stands: it comes again when its lock ends.
            self._config.on_error(error, message)
        finally:
            with self._changed:
                del self._in_hand[id(message)]
                self._changed.notify_all()

    def _work_on(self, message: Received) -> None:
        try:
            self._function(message)
        except Reject as error:
            self._config.on_error(error, message)
            message.reject()
        except Exception as error:
            self._config.on_error(error, message)
            message.release(failed=True, delay=delay_of(error))
        else:
            message.ack()

    def _extend(self) -> None:
        """Extend the locks of what the function has, until the end of all."""
        while self._wait_to_extend():
            with self._changed:
                messages = list(self._in_hand.values())
            if messages:
                try:
                    self._client.extend(*messages, lock=self._config.lock_s)
                except LockLost:
                    pass  # one was settled meanwhile, or its own settlement will say so
                except KafkaesqueError as error:
                    self._config.on_error(error, None)

    def _wait_to_extend(self) -> bool:
        """Return at the next time for it; False: there is nothing in hand, and will not be."""
        with self._changed:
            return not self._changed.wait_for(
                lambda: not self._is_taking and not self._in_hand, self._config.extend_every_s
            )
