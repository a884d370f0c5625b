"""Paired runs: ours and the peer take turns in one invocation, and the ratio is of each pair."""

from __future__ import annotations

import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.load import LoadError
from bench.processes import BrokerNotReadyError, BrokerProcess, ask_end_offset, ask_metadata

ADMIN_TIMEOUT_S = 30.0
LEADERS_TIMEOUT_S = 30.0

# What a measurement of one side may end with without ending the run.
FAILURES = (LoadError, BrokerNotReadyError, KafkaException, OSError, TimeoutError)


class Side(Protocol):
    """A cluster that can be measured."""

    name: str
    brokers: list[BrokerProcess]

    @property
    def bootstrap_servers(self) -> str: ...

    @staticmethod
    def topic_options(*, sync: bool) -> Mapping[str, str]: ...

    def prepare(self) -> None: ...

    def start(self) -> None: ...

    def wait_until_ready(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class SideMaker(Protocol):
    """Makes a cluster, stopped, of so many brokers; its data goes below `directory`."""

    def __call__(self, brokers: int, *, directory: Path | None) -> Side: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long and how often to measure, and what."""

    rounds: int
    seconds: float
    quick: bool
    recovery_bytes: int
    bytes_max: int
    directory: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One figure: its measure, what was varied, its unit, and which direction is the better one."""

    measure: str
    detail: str
    unit: str
    higher_is_better: bool


@dataclass(slots=True)
class Outcome:
    """The figures of one case, side by side, one per round."""

    case: Case
    figures: dict[str, list[float]] = field(default_factory=dict)

    def median(self, side: str) -> float | None:
        figures = self.figures.get(side)
        return statistics.median(figures) if figures else None

    def ratio(self, ours: str, peer: str) -> float | None:
        """Return the median over the rounds of ours divided by the peer's."""
        pairs = zip(self.figures.get(ours, ()), self.figures.get(peer, ()), strict=False)
        ratios = [mine / theirs for mine, theirs in pairs if theirs]
        return statistics.median(ratios) if ratios else None


Figures = Mapping[Case, float]


class Contest:
    """The sides, the settings, and the outcomes so far."""

    def __init__(self, makers: Mapping[str, SideMaker], settings: Settings) -> None:
        self.settings = settings
        self.outcomes: dict[Case, Outcome] = {}
        self.problems: list[str] = []
        self._makers = dict(makers)

    @property
    def side_names(self) -> list[str]:
        return list(self._makers)

    def make(self, name: str, brokers: int) -> Side:
        return self._makers[name](brokers, directory=self.settings.directory)

    @contextmanager
    def clusters(self, brokers: int) -> Iterator[list[Side]]:
        """Keep a cluster of each side running, so that short runs can take turns."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.make(name, brokers)) for name in self._makers]

    def take_turns(self, sides: Sequence[Side], measure: Callable[[Side], Figures]) -> None:
        """Measure each side in each round; who goes first changes from round to round."""
        for number in range(self.settings.rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                self._record(side, measure)

    def take_turns_anew(self, brokers: int, measure: Callable[[Side], Figures]) -> None:
        """Measure as `take_turns` does, each time a new cluster that is prepared, not started."""
        names = self.side_names
        for number in range(self.settings.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                side = self.make(name, brokers)
                try:
                    side.prepare()
                    self._record(side, measure)
                finally:
                    side.close()

    def _record(self, side: Side, measure: Callable[[Side], Figures]) -> None:
        try:
            figures = measure(side)
        except FAILURES as error:
            # One side that fails is a result too, and the rest of a long run is kept.
            self.note(f"{side.name}: {error}")
            return
        for case, figure in figures.items():
            outcome = self.outcomes.setdefault(case, Outcome(case))
            outcome.figures.setdefault(side.name, []).append(figure)
            line = f"{case.measure}, {case.detail}: {side.name} {figure:,.2f} {case.unit}"
            print(line, file=sys.stderr, flush=True)

    def note(self, problem: str) -> None:
        """Keep something that went wrong beside the figures, without ending the run."""
        self.problems.append(problem)
        print(f"PROBLEM: {problem}", file=sys.stderr, flush=True)


@contextmanager
def topic_of(
    side: Side, *, partitions: int, sync: bool | None, options: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Create a topic, of as many replicas as there are brokers up to 3, for the time of a run.

    With `sync` None, acknowledgements wait for the disk if that is the side's own default.
    """
    name = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": side.bootstrap_servers, "log_level": 0})
    durability = {} if sync is None else side.topic_options(sync=sync)
    config = {**durability, **(options or {})}
    new = NewTopic(name, partitions, min(3, len(side.brokers)), config=config)
    admin.create_topics([new], request_timeout=ADMIN_TIMEOUT_S)[name].result()
    wait_for_leaders(side, name, partitions)
    wait_until_served(side.brokers[0].port, name, partitions)
    try:
        yield name
    finally:
        admin.delete_topics([name], request_timeout=ADMIN_TIMEOUT_S)[name].result()


def wait_for_leaders(side: Side, topic: str, partitions: int) -> dict[tuple[str, int], int]:
    """Wait until each broker that runs names a leader for each partition; return the leaders."""
    deadline = time.monotonic() + LEADERS_TIMEOUT_S
    leaders: dict[tuple[str, int], int] = {}
    for broker in side.brokers:
        while broker.is_running():
            leaders = ask_metadata(broker.port, [topic]).leaders
            if len(leaders) == partitions and min(leaders.values()) >= 0:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has no leaders after {LEADERS_TIMEOUT_S:.0f} s")
            time.sleep(0.02)
    return leaders


def wait_until_served(
    port: int, topic: str, partitions: int, timeout_s: float = LEADERS_TIMEOUT_S
) -> None:
    """Wait until each partition's leader answers for it; the broker at `port` says who that is.

    For some milliseconds a leader may be named that does not know of it yet, and a client that asks
    it would fail, or pause before it asks again, which would be measured.

    Raises:
        TimeoutError: one does not answer in time; says why.
    """
    deadline = time.monotonic() + timeout_s
    partition = 0
    while partition < partitions:
        try:
            view = ask_metadata(port, [topic])
            while partition < partitions:
                leader = view.brokers[view.leaders[topic, partition]]
                ask_end_offset(int(leader.rpartition(":")[2]), topic, partition)
                partition += 1
        except (OSError, KeyError) as error:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{topic}-{partition} is not served after {timeout_s:.0f} s: {error}"
                ) from error
            time.sleep(0.02)
