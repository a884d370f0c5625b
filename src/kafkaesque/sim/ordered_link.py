"""A simulated client's connection to one broker, which answers in the order of the requests."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import Address, Connection, ListenOptions

AnswerT = TypeVar("AnswerT")


class OrderedLink(ABC, Generic[AnswerT]):
    """Whoever asks gets the answer, or None if there is none: then nobody knows what was done."""

    def __init__(self, env: Env, address: Address, options: ListenOptions) -> None:
        """Begin to connect; what is asked meanwhile is sent when the connection stands."""
        self.address: Final = address
        self.is_closed = False
        self._env: Final = env
        self._connection: Connection | None = None
        self._waiting: deque[tuple[Callable[[AnswerT | None], None], Timer]] = deque()
        self._unsent: list[bytes] = []
        env.network.connect(address, options, self, lambda _: self.close())

    def close(self) -> None:
        """Give up; whoever waits gets None."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._connection is not None:
            self._connection.abort()
        waiting, self._waiting = self._waiting, deque()
        for on_answer, timer in waiting:
            timer.cancel()
            on_answer(None)

    def _send(
        self, data: bytes, patience_ms: int, on_answer: Callable[[AnswerT | None], None]
    ) -> None:
        """Send a request; if its answer takes longer than this, give up all that are waited for."""
        timer = self._env.clock.call_later(patience_ms, self.close)
        self._waiting.append((on_answer, timer))
        if self._connection is None:
            self._unsent.append(data)
        else:
            self._connection.write([data])

    def _answer(self, answer: AnswerT) -> None:
        """Give an answer to the first that waits for one."""
        on_answer, timer = self._waiting.popleft()
        timer.cancel()
        on_answer(answer)

    # -- from the network

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        if self.is_closed:
            connection.abort()
            return
        self._connection = connection
        if self._unsent:
            connection.write(self._unsent)
            self._unsent = []

    @abstractmethod
    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self.close()
