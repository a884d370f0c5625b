"""A consumer that a queue knows, for threads."""

import threading
import time
from datetime import timedelta
from typing import Final, Self

from kafkaesque.client.attachment import Attachment
from kafkaesque.client.errors import Empty
from kafkaesque.client.queue_calls import WAIT_S_MAX
from kafkaesque.client.queue_client import GET_COUNT, QueueClient, Received
from kafkaesque.client.sync_driver import SyncDriver


class QueueConsumer:
    """Takes messages of one queue over a connection of its own; see `Client.attach`.

    Threads may share it; one of them takes at a time.
    """

    def __init__(self, client: QueueClient, attachment: Attachment, driver: SyncDriver) -> None:
        self._client: Final = client
        self._attachment: Final = attachment
        self._driver: Final = driver
        self._lock: Final = threading.Lock()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._attachment.queue

    @property
    def is_active(self) -> bool:
        """Whether the queue gave it messages when it was attached; later it may have become so."""
        return self._attachment.is_active

    def begin(self) -> None:
        """Attach, if that is not done; the first take does it, too.

        Raises:
            QueueInUse: another consumer has the queue for itself.
            QueueNotFound, NotAuthorized: as the broker refuses it.
            BrokerUnavailable, Timeout: no broker could be reached.
        """
        with self._lock:
            self._driver.run(self._attachment.begin())

    def close(self) -> None:
        """Leave: others get what was taken and not settled, and it does not count as failed.

        It waits for a take that another thread is in.
        """
        self._attachment.stop()
        with self._lock:
            self._driver.run(self._attachment.end())

    def get(
        self, timeout: float | None = None, *, lock: float | timedelta | None = None
    ) -> Received:
        """As `Client.get`.

        Raises:
            Empty: no message came in time, or another consumer is the active one.
            KafkaesqueError: as of `begin`.
        """
        found = self.get_many(1, timeout, lock=lock)
        if not found:
            raise Empty(f"no message came to queue {self.queue!r} in time")
        return found[0]

    def get_many(
        self,
        count: int = GET_COUNT,
        timeout: float | None = None,
        *,
        lock: float | timedelta | None = None,
    ) -> list[Received]:
        """As `Client.get_many`."""
        ends_s = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = None if ends_s is None else max(0.0, ends_s - time.monotonic())
            wait_s = WAIT_S_MAX if left_s is None else left_s
            found = self._take(count, lock, wait_s, left_s)
            if found or (ends_s is not None and time.monotonic() >= ends_s):
                return found

    def poll(self, *, lock: float | timedelta | None = None) -> Received | None:
        """As `Client.poll`."""
        found = self._take(1, lock, 0, None)
        return found[0] if found else None

    def _take(
        self, count: int, lock: float | timedelta | None, wait_s: float, left_s: float | None
    ) -> list[Received]:
        make = self._client._received
        with self._lock:
            return self._driver.run(self._attachment.take(count, lock, wait_s, left_s, make))
