"""Which partitions a source reads, and the offsets at which it begins and ends."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.errors import DataLoss, WrongOption
from kafkaesque.spark.log_offsets import NOT_FOUND, list_offsets
from kafkaesque.spark.offsets import EARLIEST, LATEST, Offsets, Partition
from kafkaesque.spark.ranges import OffsetRange, ranges_between, ranges_within
from kafkaesque.spark.source_options import Position, SourceOptions


def tell(message: str) -> None:
    """Write a warning where Spark keeps the words of its Python processes."""
    print(f"kafkaesque: {message}", file=sys.stderr)  # noqa: T201


def find_partitions(cluster: Cluster, options: SourceOptions) -> list[Partition]:
    """Return the partitions that the options name, in their order.

    Raises:
        WrongOption: a topic or partition that is named does not exist.
    """
    if options.pattern is not None:
        pattern = re.compile(options.pattern)
        found = {name: ids for name, ids in cluster.topics().items() if pattern.fullmatch(name)}
        return [(topic, each) for topic in sorted(found) for each in found[topic]]
    names = options.topics or {topic for topic, _ in options.assigned}
    topics = cluster.topics(names)
    missing = sorted(set(names) - set(topics))
    if missing:
        raise WrongOption(f"there is no topic {', '.join(map(repr, missing))}")
    if not options.assigned:
        return [(topic, each) for topic in sorted(topics) for each in topics[topic]]
    for topic, partition in sorted(options.assigned):
        if partition not in topics[topic]:
            raise WrongOption(f"topic {topic!r} has no partition {partition}")
    return sorted(options.assigned)


class LogBounds:
    """Where the logs of the partitions that are read begin and end, asked once.

    Leaders of partitions that the option `where` leaves out are not asked: they may be away.
    """

    def __init__(
        self, cluster: Cluster, options: SourceOptions, partitions: list[Partition]
    ) -> None:
        self._cluster = cluster
        self._options = options
        #: What the options' offsets and times have to name.
        self._subscribed = partitions
        self.partitions = [each for each in partitions if each[1] in options.where.partition]
        self.earliest = self._ask(dict.fromkeys(self.partitions, EARLIEST))
        self.latest = self._ask(dict.fromkeys(self.partitions, LATEST))

    def _ask(self, wanted: dict[Partition, int]) -> Offsets:
        is_committed = self._options.is_read_committed
        return list_offsets(self._cluster, wanted, is_read_committed=is_committed)

    def starts(self) -> Offsets:
        """Return where reading begins.

        Raises:
            WrongOption: the option does not name just these partitions, or a time after their end.
            DataLoss: an offset is not in the log.
        """
        position = self._options.starting
        found, late = self._resolve(position, "startingOffsets")
        if late and not self._options.is_late_start_latest:
            topic, partition = min(late)
            raise WrongOption(
                f"partition {topic}-{partition} has no record as late as the starting time;"
                " startingOffsetsByTimestampStrategy=latest would begin at its end"
            )
        return {each: self._within(each, found[each], position) for each in self.partitions}

    def ends(self) -> Offsets:
        """Return where reading ends; raises as `starts`."""
        position = self._options.ending
        found, _ = self._resolve(position, "endingOffsets")
        return {each: self._within(each, found[each], position) for each in self.partitions}

    def ranges(self) -> list[OffsetRange]:
        """Return the offsets that can have records which the options want; raises as `starts`.

        A leader answers for a time with the first offset that is as late. Timestamps need not
        ascend, so what is after it may be earlier; what is before it is, and is left out.
        """
        where = self._options.where
        starts, ends = self.starts(), self.ends()
        found = ranges_within(ranges_between(starts, ends), where.offset)
        if not where.timestamp.parts:
            return []
        earliest_ms = where.earliest_ms
        if earliest_ms is None:
            return found
        firsts = self._ask({(each.topic, each.partition): earliest_ms for each in found})
        late = {each: offset for each, offset in firsts.items() if offset != NOT_FOUND}
        return [
            replace(each, start=max(each.start, late[each.topic, each.partition]))
            for each in found
            if each.end > late.get((each.topic, each.partition), each.end)
        ]

    def _resolve(self, position: Position, option: str) -> tuple[Offsets, set[Partition]]:
        """Return an offset for each partition, and those for which a time was too late."""
        if position.offsets:
            self._require_all(position.offsets, option)
        if position.timestamps:
            self._require_all(position.timestamps, f"{option}ByTimestamp")
        if position.timestamp is None and not position.timestamps:
            return {each: self._number(each, position) for each in self.partitions}, set()
        found = self._ask(
            {
                each: position.timestamps.get(each, position.timestamp or 0)
                for each in self.partitions
            }
        )
        late = {each for each, offset in found.items() if offset == NOT_FOUND}
        # A record that is not committed yet may have the time; reading ends before it.
        return {
            each: self.latest[each] if each in late else min(offset, self.latest[each])
            for each, offset in found.items()
        }, late

    def _number(self, each: Partition, position: Position) -> int:
        number = position.offsets.get(each, position.everywhere)
        if number == EARLIEST:
            return self.earliest[each]
        return self.latest[each] if number == LATEST else number

    def _require_all(self, named: Offsets, option: str) -> None:
        missing = sorted(set(self._subscribed) - set(named))
        unknown = sorted(set(named) - set(self._subscribed))
        if missing or unknown:
            topic, partition = (missing or unknown)[0]
            word = "does not name" if missing else "names"
            is_read = "which is read" if missing else "which is not read"
            raise WrongOption(
                f"the option {option} {word} partition {topic}-{partition}, {is_read}"
            )

    def _within(self, each: Partition, offset: int, position: Position) -> int:
        """Return an offset that the log has; the user may have named another."""
        first, end = self.earliest[each], self.latest[each]
        if first <= offset <= end or each not in position.offsets:
            return offset
        topic, partition = each
        message = f"partition {topic}-{partition} has offsets {first} to {end}, not {offset}"
        if self._options.fails_on_data_loss:
            raise DataLoss(f"{message}; failOnDataLoss=false would read what is there")
        tell(message)
        return max(first, min(offset, end))
