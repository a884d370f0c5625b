"""What clients of such a topic sent, were told and saw, by eras; and what must be there in the end.

Acknowledged in the newest era: it is there, once, at its offset, unless it was asked to be deleted.
Acknowledged before: it may be given up, whole; what the newest era began with is there. Deleted
before: it may be there again, and must not make the newest era begin any later than the log did
that it began with.

Where nobody can tell in which era something was done, what is demanded is what holds in all.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from kafkaesque.model.ids import GroupId
from kafkaesque.raft.formation import formation_of
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.observations import Observations
from kafkaesque.sim.loop import NS_PER_MS, SimLoop
from kafkaesque.sim.unclean.eras import Eras

#: A request that is not answered may be done for so long.
LATE_MS: Final = 5_000


class _Acknowledged(NamedTuple):
    """A batch, and the era in which it was acknowledged, or an earlier one."""

    partition: int
    era: int
    base_offset: int
    values: list[bytes]


@dataclass(slots=True)
class _Asked:
    """Somebody wanted the log to begin at an offset."""

    partition: int
    offset: int
    #: Of whom, and in which era that broker is at most when it does it.
    host: str
    era: int
    at_ns: int


class UncleanHistory:
    """The clients' side of the topic's history."""

    compacts: Final = False

    def __init__(self, findings: Findings, eras: Eras, loop: SimLoop, topic: str) -> None:
        self.findings: Final = findings
        self.eras: Final = eras
        self.topic: Final = topic
        self.read_count = 0
        #: Of each partition, once they are known.
        self.groups: list[GroupId] = []
        self._loop: Final = loop
        self._sent: Final[list[tuple[int, list[bytes]]]] = []
        self._acknowledged: Final[list[_Acknowledged]] = []
        self._asked: Final[list[_Asked]] = []
        #: Of them, what is not answered, and may be done yet.
        self._open: list[_Asked] = []
        #: Partition, era, and where the log begins since a deletion.
        self._promised: Final[list[tuple[int, int, int]]] = []
        #: Partition and era -> offset -> value.
        self._seen: Final[dict[tuple[int, int], dict[int, bytes]]] = defaultdict(dict)

    def note_anomaly(self, what: str) -> None:
        """Something that must never be was seen."""
        self.findings.note(f"{self.topic}: {what}")

    @property
    def sent_count(self) -> int:
        """Records that were sent."""
        return sum(len(values) for _, values in self._sent)

    @property
    def acknowledged_count(self) -> int:
        """Records that were acknowledged."""
        return sum(len(each.values) for each in self._acknowledged)

    def count_given_up(self, present: Observations) -> int:
        """Return how many acknowledged records of earlier eras are not where they were."""
        return sum(
            present.seen[each.partition].get(offset) != value
            for each in self._acknowledged
            if each.era < self.eras.latest(self.groups[each.partition])
            for offset, value in enumerate(each.values, each.base_offset)
        )

    # -- eras

    def era_at(self, host: str, partition: int) -> int:
        """Return in which era a broker is, or an earlier one."""
        return self.eras.era_at(host, self.groups[partition])

    def latest(self, partition: int) -> int:
        """Return a partition's newest era, as of now."""
        self.eras.look()
        return self.eras.latest(self.groups[partition])

    # -- what clients do

    def note_producer_id(self, name: str, producer_id: int) -> None:
        """See `Findings`."""
        self.findings.note_producer_id(name, producer_id)

    def note_sent(self, partition: int, values: list[bytes]) -> None:
        """Values are on their way."""
        self._sent.append((partition, values))

    def note_acknowledged(
        self, partition: int, base_offset: int, values: list[bytes], era: int = 0
    ) -> None:
        """A batch was acknowledged with acks=all, in this era or a later one."""
        self._acknowledged.append(_Acknowledged(partition, era, base_offset, values))

    def note_asked(self, partition: int, offset: int, host: str) -> None:
        """Somebody asks a broker that the log begin at an offset."""
        era, now_ns = self.era_at(host, partition), self._loop.now_ns
        asked = _Asked(partition, offset, host, era, now_ns)
        self._asked.append(asked)
        self._open.append(asked)

    def note_answered(self, partition: int) -> None:
        """Who was asked last has answered; what was not answered before may still be done."""
        self.look()
        newest = [asked for asked in self._open if asked.partition == partition][-1:]
        self._open = [asked for asked in self._open if asked not in newest]

    def look(self) -> None:
        """See in which eras brokers may do what they are asked."""
        late_ns = self._loop.now_ns - LATE_MS * NS_PER_MS
        for asked in self._open:
            asked.era = max(asked.era, self.era_at(asked.host, asked.partition))
        self._open = [asked for asked in self._open if asked.at_ns > late_ns]

    def note_deleted(self, partition: int, era: int, start: int) -> None:
        """It begins there, as was told in this era or a later one."""
        self._promised.append((partition, era, start))

    def note_read(self, who: str, partition: int, era: int, offset: int, value: bytes) -> None:
        """A consumer got a record in an era."""
        self.read_count += 1
        known = self._seen[partition, era].setdefault(offset, value)
        if known != value:
            self.note_anomaly(
                f"inconsistent offsets: {who} read {value!r} at {partition}@{offset}, where "
                f"{known!r} was read before, in one era"
            )

    # -- what may be

    def start_max(self, partition: int, era: int) -> int:
        """Return where a log in an era may begin at most, if nothing but requests deletes."""
        group = self.groups[partition]
        plans = [each for each in self.eras.plans(group) if each.formation <= era]
        greatest = 0
        for asked in self._asked:
            if asked.partition == partition:
                ends = [plan.end_offset for plan in plans if plan.formation > asked.era]
                greatest = max(greatest, min([asked.offset, *ends]))
        return greatest

    def end_inherited(self, partition: int) -> int:
        """Return where the log ended that the newest era began with; 0 in the first."""
        plans = self.eras.plans(self.groups[partition])
        return plans[-1].end_offset if plans else 0

    # -- the end

    def make_present(self, starts: Mapping[int, int], *, expires: bool) -> Observations:
        """Return what must be seen by who reads everything now, by where the logs begin."""
        self.eras.look()
        present = Observations(self.findings, self.topic, expires=expires)
        for partition, values in self._sent:
            present.note_sent(partition, values)
        for each in self._acknowledged:
            if each.era >= self.eras.latest(self.groups[each.partition]):
                present.note_acknowledged(each.partition, each.base_offset, each.values)
        for partition, group in enumerate(self.groups):
            latest = self.eras.latest(group)
            present.note_deletion_asked(partition, self.start_max(partition, latest))
            for offset, value in self.eras.inherited(group).items():
                if offset >= starts[partition]:
                    present.acknowledged.setdefault((partition, value), offset)
            for at, era, start in self._promised:
                if at == partition and era >= latest:
                    present.note_deleted(partition, start)
        return present

    def check_founders(self) -> None:
        """No era begins with a copy that was still incomplete in the one before."""
        for partition, group in enumerate(self.groups):
            plans = self.eras.plans(group)
            for before, plan in pairwise(plans):
                is_whole = formation_of(plan.last_term) >= before.formation
                if not is_whole and plan.leader not in before.voters:
                    self.note_anomaly(
                        f"made anew: era {plan.formation} of partition {partition} begins with "
                        f"{plan.leader}, which had no whole copy in era {before.formation}"
                    )

    def check_seen(self, present: Observations) -> None:
        """Compare what was seen in the newest era with what is there."""
        for (partition, era), records in self._seen.items():
            if era != self.eras.latest(self.groups[partition]):
                continue
            for offset, value in records.items():
                found = present.seen[partition].get(offset, value)
                if found != value:
                    self.note_anomaly(
                        f"inconsistent offsets: {value!r} was read at {partition}@{offset}, where "
                        f"{found!r} is, and no unclean election was between"
                    )
