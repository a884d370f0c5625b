"""What `cluster status` shows of each broker beside its address: its state, release and disk."""

from dataclasses import dataclass

from kafkaesque.cli.doctor.facts import BrokerFacts, Facts
from kafkaesque.cli.screen import size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDetails:
    """One broker, up or not; None is what could not be seen."""

    id: int
    #: `up`, `not ready`, `disk failed`, `hangs` (its port is open and says nothing) or `down`.
    state: str
    leads: int
    version: str | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None

    @property
    def disk_free(self) -> str | None:
        """How much of the disk is free, for people."""
        if self.disk_free_bytes is None or not self.disk_total_bytes:
            return None
        percent = 100 * self.disk_free_bytes / self.disk_total_bytes
        return f"{size_text(self.disk_free_bytes)} ({percent:.0f}%)"


def details_of(facts: Facts) -> list[BrokerDetails]:
    """Return what each broker says; those that are only known to hold replicas are named, too."""
    seen = {each.id: each for each in facts.brokers}
    return [_details(number, seen.get(number), facts) for number in facts.known_brokers]


def _details(number: int, broker: BrokerFacts | None, facts: Facts) -> BrokerDetails:
    disk = None if broker is None else broker.disk
    admin = None if broker is None else broker.admin
    return BrokerDetails(
        id=number,
        state=_state(broker),
        leads=sum(each.leader == number for each in facts.view.partitions.values()),
        version=None if admin is None else admin.version,
        disk_free_bytes=None if disk is None else disk.free_bytes,
        disk_total_bytes=None if disk is None else disk.total_bytes,
    )


def _state(broker: BrokerFacts | None) -> str:
    if broker is None:
        return "down"
    if broker.has_failed:
        return "disk failed"
    if broker.hangs:
        return "hangs"
    if broker.problem is not None and broker.admin is None:
        return "down"
    return "not ready" if broker.admin is not None and broker.admin.reasons else "up"
