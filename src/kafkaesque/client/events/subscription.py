"""A subscription whose callback is called on a thread."""

import threading
from collections.abc import Callable
from typing import Final

from kafkaesque.client.events.listener import Listener
from kafkaesque.client.streams.consumer import Undecodable
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.client.working import OnRecordError, log

Callback = Callable[[StreamRecord], object]


class Subscription:
    """What `subscribe` returns: the handle by which a subscription is ended.

    Events are handed over one after the other, at most once: an exception of the callback is
    reported, and the next event follows.
    """

    def __init__(self, listener: Listener, callback: Callback, on_error: OnRecordError) -> None:
        self._listener: Final = listener
        self._callback: Final = callback
        self._on_error: Final = on_error
        self._thread: Final = threading.Thread(
            target=self._run, name="kafkaesque-subscription", daemon=True
        )
        #: Why it has ended by itself, if it has.
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin to call back."""
        self._thread.start()

    @property
    def is_active(self) -> bool:
        """Whether events are handed over: not after its end or its expiry."""
        return self._thread.is_alive() and not self._listener.is_over

    def stop(self) -> None:
        """Call back no more, and wait for a callback that runs; it may call this itself."""
        self._listener.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._listener.is_over:
                self._hand_over()
        except Exception as error:
            self.error = error
            log.error("a subscription has ended", exc_info=error)
        finally:
            self._listener.close()

    def _hand_over(self) -> None:
        try:
            record = self._listener.next()
        except Undecodable as error:
            self._on_error(error, error.record)
            return
        if record is None:
            return
        try:
            self._callback(record)
        except Exception as error:
            self._on_error(error, record)
