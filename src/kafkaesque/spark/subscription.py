"""Which partitions a source reads, and the offsets at which it begins and ends."""

from __future__ import annotations

import re
import sys

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.errors import DataLoss, WrongOption
from kafkaesque.spark.log_offsets import NOT_FOUND, list_offsets
from kafkaesque.spark.offsets import EARLIEST, LATEST, Offsets, Partition
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
    """Where the logs of partitions begin and end, asked once."""

    def __init__(
        self, cluster: Cluster, options: SourceOptions, partitions: list[Partition]
    ) -> None:
        self._cluster = cluster
        self._options = options
        self.partitions = partitions
        self.earliest = self._ask(dict.fromkeys(partitions, EARLIEST))
        self.latest = self._ask(dict.fromkeys(partitions, LATEST))

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

    def _resolve(self, position: Position, option: str) -> tuple[Offsets, set[Partition]]:
        """Return an offset for each partition, and those for which a time was too late."""
        if position.offsets or position.timestamps:
            self._require_all(position.offsets or position.timestamps, option)
        if position.timestamp is None and not position.timestamps:
            return {each: self._number(each, position) for each in self.partitions}, set()
        times = position.timestamps or dict.fromkeys(self.partitions, position.timestamp or 0)
        found = self._ask(times)
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
        missing = sorted(set(self.partitions) - set(named))
        unknown = sorted(set(named) - set(self.partitions))
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
