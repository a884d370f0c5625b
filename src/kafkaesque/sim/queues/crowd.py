"""Whoever uses the queues of a run: in the simulator, or with real brokers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest, SetOption
from kafkaesque.sim.queues.administrator import QueueAdministrator
from kafkaesque.sim.queues.checks import QueueChecks
from kafkaesque.sim.queues.client import TIMEOUT_MS, VHOST, QueueClient
from kafkaesque.sim.queues.drain import Drain
from kafkaesque.sim.queues.history import QueueHistory, QueueSpec
from kafkaesque.sim.queues.publisher import QueuePublisher
from kafkaesque.sim.queues.worker import AttachedWorker, QueueWorker

#: What the broker answers if the queue is there already, with these options.
DONE: Final = 0


class QueueCrowd:
    """Publishers, workers, consumers and an administrator."""

    def __init__(
        self,
        specs: Mapping[str, QueueSpec],
        env: Env,
        bootstrap: Sequence[Address],
        true_ms: Callable[[], float],
        note: Callable[[str], None],
        *,
        replicas: int,
        do_clocks_tell: bool,
    ) -> None:
        """`note` is told of what is wrong; see `QueueChecks` for `do_clocks_tell`."""
        self.history: Final = QueueHistory(specs)
        self._env: Final = env
        self._bootstrap: Final = bootstrap
        self._true_ms: Final = true_ms
        self._note: Final = note
        self._do_clocks_tell: Final = do_clocks_tell
        self._publishers: list[QueuePublisher] = []
        self._workers: list[QueueWorker] = []
        self._administrator: QueueAdministrator | None = None
        self._drain: Drain | None = None
        self._made: Final[set[str]] = set()
        for spec in self.history.specs.values():
            self._make(self._client(), spec, replicas)

    def _client(self) -> QueueClient:
        return QueueClient(self._env, self._bootstrap, self.history, self._true_ms)

    def _make(self, client: QueueClient, spec: QueueSpec, replicas: int) -> None:
        options = [SetOption(name, value) for name, value in spec.options.items()]
        request = CreateQueueRequest(VHOST, spec.name, replicas, options, TIMEOUT_MS)

        def on_answer(answer: Any) -> None:
            if answer is not None and answer.error_code == DONE:
                self._made.add(spec.name)
                client.hang_up()
            else:
                client.later(lambda: self._make(client, spec, replicas))

        client.ask(ApiKey.CREATE_QUEUE, request, on_answer)

    @property
    def is_made(self) -> bool:
        """Whether all queues are there."""
        return len(self._made) == len(self.history.specs)

    def start(self) -> None:
        """Let everybody begin."""
        self.start_publishing()
        self.start_working()

    def start_publishing(self) -> None:
        """Let messages be put."""
        for spec in self.history.specs.values():
            for number in range(spec.publishers):
                self._publishers.append(QueuePublisher(self._client(), spec, f"p{number}"))

    def start_working(self) -> None:
        """Let them be taken, and queues be changed."""
        specs = list(self.history.specs.values())
        for spec in specs:
            self._workers += [QueueWorker(self._client(), spec) for _ in range(spec.workers)]
            self._workers += [AttachedWorker(self._client(), spec) for _ in range(spec.consumers)]
        self._administrator = QueueAdministrator(self._client(), specs)

    def counts(self) -> dict[str, int]:
        """Return what went on, by name."""
        return self.history.tally()

    # -- coming to an end

    @property
    def _actors(self) -> Sequence[QueuePublisher | QueueWorker | QueueAdministrator]:
        administrator = [] if self._administrator is None else [self._administrator]
        return [*self._publishers, *self._workers, *administrator]

    def stop(self) -> None:
        """Begin nothing new."""
        for each in self._actors:
            each.is_stopped = True

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything."""
        return all(each.is_idle for each in self._actors)

    def conclude(self) -> None:
        """All is healed: empty the queues."""
        self._drain = Drain(self._client(), list(self.history.specs.values()))

    @property
    def is_drained(self) -> bool:
        """Whether all queues are empty."""
        return self._drain is not None and self._drain.is_done

    def describe(self) -> str:
        """Say what is waited for."""
        if self._drain is not None:
            return self._drain.describe()
        busy = [type(each).__name__ for each in self._actors if not each.is_idle]
        return f"busy: {busy}"

    def check(self) -> None:
        """Look at all that was seen; of queues over topics, it is known what these have."""
        checks = QueueChecks(self.history, self._note, do_clocks_tell=self._do_clocks_tell)
        checks.check()
