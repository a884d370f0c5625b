"""All clients of a run together, and the topics that they use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from bench.chaos.checks import Evidence
from bench.chaos.clients import Client, IdempotentProducer, Member, Reader
from bench.chaos.history import History, Outcome, Where
from bench.chaos.transactors import Candidate, Transactor

LOCK: Final = "lock"
_SEGMENT = {"segment.bytes": "1048576", "retention.ms": "-1"}
#: By topic: partitions and options. Segments are small, so that many are closed and begun.
TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "plain": (3, _SEGMENT),
    "strict": (2, {**_SEGMENT, "min.insync.replicas": "2"}),
    "table": (
        2,
        {**_SEGMENT, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
    ),
    "ledger": (3, {**_SEGMENT, "min.insync.replicas": "2"}),
    LOCK: (1, {**_SEGMENT, "min.insync.replicas": "2"}),
}
#: The partitions whose records are known by their numbers.
PLACES: Final[tuple[Where, ...]] = tuple(
    (name, number) for name, (count, _) in TOPICS.items() if name != LOCK for number in range(count)
)
CLASSIC: Final = {"session.timeout.ms": 8_000, "heartbeat.interval.ms": 1_000}
#: The classic protocol with partitions that move one by one.
COOPERATIVE: Final = {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"}
CONSUMER: Final = {"group.protocol": "consumer"}
MEMBERS: Final = 2


def _of(*topics: str) -> list[Where]:
    return [where for where in PLACES if where[0] in topics]


class QueueLoad(Protocol):
    """Those who use queues: they work until they are stopped, and empty the queues in the end."""

    name: str

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def is_alive(self) -> bool: ...

    def describe(self) -> str: ...

    def check(self) -> Sequence[str]: ...

    def progress(self) -> int: ...

    def counts(self) -> dict[str, int]: ...


class Load:
    """The clients of a run."""

    def __init__(
        self,
        bootstrap_servers: str,
        history: History,
        seed: int,
        queues: Sequence[QueueLoad],
        *,
        has_streams: bool = True,
    ) -> None:
        self._history = history
        self.queues = queues
        self._readers: list[Reader | Member] = []
        self._writers: list[Client] = []
        self._candidates: list[Candidate] = []
        if has_streams:
            self._add_writers(bootstrap_servers, seed)
            self._add_readers(bootstrap_servers)

    def _add_writers(self, bootstrap_servers: str, seed: int) -> None:
        common = (bootstrap_servers, self._history)
        streams = _of("plain", "strict")
        self._writers += [
            IdempotentProducer(
                f"producer{number}",
                *common,
                places=streams,
                per_second=60,
                seed=seed,
                options=options,
            )
            for number, options in enumerate(
                (
                    {"compression.type": "none", "linger.ms": 0},
                    {"compression.type": "zstd", "linger.ms": 40},
                )
            )
        ]
        self._writers += [
            IdempotentProducer(
                "keeper0", *common, places=_of("table"), per_second=40, seed=seed, has_keys=True
            ),
            *(
                Transactor(f"transactor{number}", *common, places=_of("ledger"), seed=seed)
                for number in range(2)
            ),
        ]
        self._candidates = [
            Candidate(f"candidate{number}", *common, topic=LOCK, seed=seed) for number in range(3)
        ]
        self._writers += self._candidates

    def _add_readers(self, bootstrap_servers: str) -> None:
        common = (bootstrap_servers, self._history)
        self._readers += [
            Reader("reader0", *common, places=_of("plain", "strict", "table"), is_committed=False),
            Reader("reader1", *common, places=_of("ledger"), is_committed=True),
        ]
        for group, options, topics, is_committed in (
            ("classic", CLASSIC, ("plain", "strict"), False),
            ("cooperative", COOPERATIVE, ("ledger",), True),
            ("consumer", CONSUMER, ("plain", "ledger"), True),
        ):
            self._readers += [
                Member(
                    f"{group}{number}",
                    *common,
                    group=group,
                    topics=topics,
                    is_committed=is_committed,
                    options=options,
                )
                for number in range(MEMBERS)
            ]

    def start(self) -> None:
        """Let all clients begin."""
        for client in self._everybody():
            client.start()

    def stop_writing(self) -> None:
        """Let writers end what they have begun, and begin nothing."""
        writers: list[Client | QueueLoad] = [*self._writers, *self.queues]
        for client in writers:
            client.stop()

    def writing(self) -> list[Client | QueueLoad]:
        """Return the writers that have not come to an end, and the clients of queues."""
        everybody: list[Client | QueueLoad] = [*self._writers, *self.queues]
        return [client for client in everybody if client.is_alive()]

    def progress(self) -> int:
        """Return a number that grows as queues are emptied."""
        return sum(each.progress() for each in self.queues)

    def read_to(self, ends: dict[Where, int]) -> None:
        """Let readers stop once they have been given everything before these offsets."""
        for client in self._readers:
            client.read_to(ends)

    def reading(self) -> list[Client]:
        """Return the readers that have not come to an end."""
        return [client for client in self._readers if client.is_alive()]

    def stop(self) -> None:
        """Let all go; whoever does not come to an end stays behind, as a daemon."""
        for client in self._everybody():
            client.stop()

    def _everybody(self) -> list[Client | QueueLoad]:
        return [*self._writers, *self._readers, *self.queues]

    def operations(self, evidence: Evidence) -> Counter[str]:
        """Return how many operations of each kind there were."""
        counts = self._operations_on_streams(evidence) if self._writers else Counter[str]()
        for each in self.queues:
            counts.update(each.counts())
        return counts

    def _operations_on_streams(self, evidence: Evidence) -> Counter[str]:
        history = self._history
        counts = Counter(
            {
                "records sent": len(history.sends),
                "records acknowledged": history.acknowledged,
                "records given": sum(len(r.offsets) for r in history.readings.values()),
                "lock: entries": len(evidence.lock),
                "lock: holders": sum(entry.token is None for entry in evidence.lock),
                "lock: refused": sum(each.refused for each in self._candidates),
            }
        )
        for outcome in Outcome:
            counts[f"transactions {outcome.name.lower()}"] = sum(
                each.outcome is outcome for each in history.transactions
            )
        return counts
