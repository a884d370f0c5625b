"""Tells of batches with messages of queues that are not what was written."""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.reports import Report
from kafkaesque.env.clock import Clock
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.model.ids import Offset


class Damages:
    """Of all queues of a broker."""

    __slots__ = ("_partitions", "_report")

    def __init__(self, clock: Clock, partitions: PartitionTable, report: Report) -> None:
        self._partitions: Final = partitions
        self._report: Final = ReportLimit(report, clock.call_later)

    def note(self, state: PartitionState, offset: int) -> bool:
        """Tell who leads a log, or else people; return whether there are other copies.

        The leader's copy is the damaged one: it is what was read.
        """
        partition = self._partitions.get(state.group)
        replica = None if partition is None else partition.replica
        if partition is not None:
            state = partition.state
        if replica is not None and replica.is_leader:
            replica.on_damaged_at(Offset(offset))
        else:
            self._report.say(
                f"{state.topic_partition}: the batch at offset {offset} is damaged where the "
                "partition is led"
            )
        return len(state.settled) > 1
