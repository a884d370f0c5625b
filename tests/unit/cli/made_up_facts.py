"""Clusters as the doctor could see them, made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkaesque.cli.doctor.checks import diagnose
from kafkaesque.cli.doctor.facts import (
    AdminFacts,
    BrokerFacts,
    Disk,
    Facts,
    PartitionFacts,
    PartitionName,
    View,
)
from kafkaesque.cli.doctor.findings import Finding, Limits
from kafkaesque.cli.quorum import Quorum, QuorumMember
from kafkaesque.cli.recoveries import Recovery

GB = 10**9
METRICS = {"process_max_fds": 20_000.0, "process_open_fds": 30.0}


def partition(
    leader: int = 1,
    in_sync: Sequence[int] = (1, 2, 3),
    replicas: Sequence[int] = (1, 2, 3),
    offline: Sequence[int] = (),
) -> PartitionFacts:
    return PartitionFacts(
        leader=leader, epoch=1, replicas=replicas, in_sync=in_sync, offline=offline
    )


def view(partitions: Mapping[str, PartitionFacts] | None = None, controller: int = 1) -> View:
    found = {"orders-0": partition(), **(partitions or {})}
    return View(
        cluster_id="c",
        controller=controller,
        brokers={n: f"h:{n}" for n in (1, 2, 3)},
        partitions={
            PartitionName(name.rpartition("-")[0], int(name.rpartition("-")[2])): each
            for name, each in found.items()
        },
    )


def admin(ahead_s: float = 0.0, error_s: float = 0.001, **values: float) -> AdminFacts:
    return AdminFacts(
        metrics={**METRICS, **values},
        version="1",
        reasons=(),
        clock_ahead_s=ahead_s,
        clock_error_s=error_s,
    )


def broker(number: int, seen: View | None = None) -> BrokerFacts:
    return BrokerFacts(
        id=number,
        address=f"h:{number}",
        view=seen or view(),
        disk=Disk(
            directory="/srv/data", total_bytes=100 * GB, free_bytes=50 * GB, has_failed=False
        ),
        admin=admin(),
    )


def facts(seen: View | None = None) -> Facts:
    seen = seen or view()
    return Facts(view=seen, brokers=[broker(n, seen) for n in (1, 2, 3)])


def with_broker(found: Facts, number: int, **changes: object) -> Facts:
    brokers = [
        replace(each, **changes) if each.id == number else each  # type: ignore[arg-type]
        for each in found.brokers
    ]
    return replace(found, brokers=brokers)


def disk(free_bytes: int, *, has_failed: bool = False, directory: str = "/srv/data") -> Disk:
    return Disk(
        directory=directory, total_bytes=100 * GB, free_bytes=free_bytes, has_failed=has_failed
    )


def checks_of(found: Facts, limits: Limits | None = None) -> dict[str, Finding]:
    return {each.check: each for each in diagnose(found, limits or Limits())}


def recovery(open_ms: int = 0, told: Sequence[int] = ()) -> Recovery:
    return Recovery(
        topic="orders",
        partition=0,
        formation=2,
        is_open=open_ms > 0,
        open_ms=open_ms,
        replicas=[1, 2, 3],
        told=list(told),
        at_ms=1_795_000_000_000,
        is_clean=False,
        voters=[1],
        unclean_at_ms=1_795_000_000_000,
        unclean_offset=100,
        given_up=7,
    )


def quorum(count: int, *missing: int) -> Quorum:
    members = [
        QuorumMember(
            broker=node,
            votes=True,
            leads=node == 1,
            is_up=node not in missing,
            behind=7 if node in missing else 0,
            has_all=node not in missing,
        )
        for node in range(1, count + 1)
    ]
    return Quorum(leader=1, term=3, members=members)


def without_controller(*numbers: int, of: Facts | None = None) -> Facts:
    """Have these brokers know no controller: they name themselves to clients."""
    found = of or facts()
    for number in numbers:
        knows_none = replace(
            admin(kafkaesque_controller_node=-1),
            controllers=(1, 2, 3),
            reasons=[f"broker {number} knows no controller: perhaps none is elected"],
        )
        found = with_broker(found, number, view=view(controller=number), admin=knows_none)
    return found


FAILED = replace(
    admin(kafkaesque_broker_failed=1), reasons=["the disk of broker 3 failed: No space left"]
)


def closed(found: Facts, number: int, **changes: object) -> Facts:
    """Have a broker's Kafka port be closed."""
    nothing = {"problem": "connection refused", "view": None, "disk": None, "admin": None}
    return with_broker(found, number, **{**nothing, **changes})


def leaderless(replicas: Sequence[int]) -> Facts:
    return facts(view({"orders-1": partition(leader=-1, in_sync=[], replicas=replicas)}))


def with_copy_anew(found: Facts, *numbers: int) -> Facts:
    for number in numbers:
        found = with_broker(found, number, admin=replace(admin(), copied=["orders-1"]))
    return found


def reformed(found: Facts, voters: Sequence[int], told: Sequence[int] | None = None) -> Facts:
    """Have orders-1 been recovered with some; with `told` it is again, and waits."""
    (replicas,) = [each.replicas for name, each in found.view.partitions.items() if name.number]
    known = replace(
        recovery(0 if told is None else 24_000, told or ()),
        partition=1,
        voters=list(voters),
        replicas=list(replicas),
    )
    return replace(found, recoveries=[known])
