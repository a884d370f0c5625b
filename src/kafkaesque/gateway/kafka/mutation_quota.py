"""The quota on partitions that a client creates and deletes (KIP-599)."""

from kafkaesque.gateway.kafka.call import Call
from kafkaesque.model.errors import OverBound


class QuotaUsedUp(OverBound):
    """The client has to wait before it creates or deletes more."""


class MutationQuota:
    """What one request takes of its client's quota.

    One topic more may always be begun while anything is left, however many partitions it has. Who
    asks in a version that knows no such refusal is not refused, and waits all the longer.
    """

    __slots__ = ("_is_strict", "_meter")

    def __init__(self, call: Call, *, strict_from: int) -> None:
        self._meter = call.meter
        self._is_strict = call.version >= strict_from

    def take(self, partition_count: int) -> None:
        """Count partitions of one topic.

        Raises:
            QuotaUsedUp: they may not be created or deleted now.
        """
        meter = self._meter
        if meter is None or not partition_count:
            return
        if meter.refuses_mutation() and self._is_strict:
            raise QuotaUsedUp("the quota controller_mutation_rate is used up")
        meter.on_mutations(partition_count)
