"""What a broker knows to be wrong: the part `findings`.

The checks have the names that `kafkaesque doctor` gives them, and docs/operations.md explains them.
Doctor looks from outside and sees more: clocks, settings, groups, transactions that hang.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.part_pages import FINDINGS, FindingsAnswer
from kafkaesque.admin.api.values import Finding
from kafkaesque.admin.health import reasons_against
from kafkaesque.admin.turns import walk
from kafkaesque.model.counted import counted, have
from kafkaesque.model.errors import DiskFailed

CRITICAL: Final = "critical"
WARNING: Final = "warning"
#: Names that a finding lists; the rest is counted in its sentence.
NAMES_MAX: Final = 100
#: Of a volume, below which a disk is nearly full.
FREE_PART_MIN: Final = 0.15


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(FINDINGS, lambda _, done: _answer(context, done))


def _answer(context: Context, on_done: OnAnswer) -> None:
    found = _Partitions(context)

    def on_walked() -> None:
        checks: Sequence[Callable[[], Iterator[Finding]]] = (
            lambda: _check_broker(context),
            lambda: _check_disk(context),
            found.findings,
        )
        on_done(FindingsAnswer(findings=[each for check in checks for each in check()]))

    walk(context.doors.clock, found.look(), on_walked)


def _check_broker(context: Context) -> Iterator[Finding]:
    condition, node = context.doors.condition, context.node
    if condition.life.failure is not None:
        yield Finding(
            check="disk-failed",
            severity=CRITICAL,
            what=f"the disk of broker {node} has failed",
            cause=str(condition.life.failure),
            command="repair or replace the disk, then start the broker again",
            names=[str(node)],
        )
        return
    reasons = reasons_against(context.doors)
    if reasons:
        yield Finding(
            check="broker-not-ready",
            severity=WARNING,
            what=f"broker {node} is not ready",
            cause="; ".join(reasons),
            command="kafkaesque doctor",
            names=[str(node)],
        )


def _check_disk(context: Context) -> Iterator[Finding]:
    condition, node = context.doors.condition, context.node
    if condition.store.refusal is not None:
        yield Finding(
            check="disk-full",
            severity=CRITICAL,
            what=f"broker {node} takes no records: its disk has too little space",
            cause=str(condition.store.refusal),
            command="free space on its volume, or shorten retention: kafkaesque topic config",
            names=[str(node)],
        )
        return
    try:
        free_bytes, total_bytes = condition.disk.free_bytes(), condition.disk.total_bytes()
    except DiskFailed:
        return
    if total_bytes and free_bytes < FREE_PART_MIN * total_bytes:
        percent = 100 * free_bytes / total_bytes
        yield Finding(
            check="disk-fills",
            severity=WARNING,
            what=f"the disk of broker {node} is nearly full: {percent:.0f}% free",
            cause="its volume fills up, with logs or with other files",
            command="free space on its volume, or shorten retention: kafkaesque topic config",
            names=[str(node)],
        )


class _Partitions:
    """What is wrong with partitions, as their leader here knows."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lagging: list[str] = []
        self._refusing: list[str] = []

    def look(self) -> Iterator[None]:
        """Look at each partition in turn."""
        for partition in list(self._context.doors.reading.all_here()):
            replica = partition.replica
            if replica is not None and partition.is_leader:
                in_sync, state = replica.in_sync(), partition.state
                if len(in_sync) < min(partition.config.min_insync_replicas, len(state.replicas)):
                    self._refusing.append(partition.name)
                elif not set(in_sync).issuperset(state.serving):
                    self._lagging.append(partition.name)
            yield

    def findings(self) -> Iterator[Finding]:
        """Say what was seen."""
        if self._refusing:
            yield _of_partitions(
                "under-min-insync",
                CRITICAL,
                self._refusing,
                "refuses acks=all" if len(self._refusing) == 1 else "refuse acks=all",
                "fewer replicas are in sync than min.insync.replicas",
            )
        if self._lagging:
            yield _of_partitions(
                "under-replicated",
                WARNING,
                self._lagging,
                f"{have(len(self._lagging))} replicas that are not in sync",
                "their brokers are down, or catching up",
            )
        yield from self._damaged()

    def _damaged(self) -> Iterator[Finding]:
        condition = self._context.doors.condition
        state = condition.partitions.recovery_state()
        damaged = {**condition.scrubber.damaged, **state.damaged}
        if damaged:
            first = next(iter(sorted(damaged.items())))
            yield Finding(
                check="damaged-replica",
                severity=CRITICAL,
                what=f"broker {self._context.node} cannot read {len(damaged)} of its replicas",
                cause=f"{first[0]}: {first[1]}",
                command="kafkaesque doctor",
                names=sorted(damaged)[:NAMES_MAX],
            )


def _of_partitions(
    check: str, severity: str, names: Sequence[str], what: str, cause: str
) -> Finding:
    return Finding(
        check=check,
        severity=severity,
        what=f"{counted(len(names), 'partition')} {what}",
        cause=cause,
        command="kafkaesque doctor",
        names=list(names[:NAMES_MAX]),
    )
