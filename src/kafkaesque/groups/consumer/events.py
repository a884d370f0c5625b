"""What members of groups of the new kind ask for, and what is to be known of topics."""

from typing import NamedTuple

import msgspec

from kafkaesque.groups.consumer.topics import Partitions, TopicCatalog
from kafkaesque.tables.log_table import RequestToken


class ConsumerGroupHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A member joins, says that it lives and what it has, or leaves (KIP-848).

    None stands for "as before" throughout.
    """

    token: RequestToken
    group_id: str
    #: Empty only where the coordinator is to choose one: `new_member_id`.
    member_id: str
    #: 0 joins, -1 leaves, -2 leaves for a short while (a static member).
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: tuple[str, ...] | None = None
    topic_expression: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    #: Unique in the cluster.
    new_member_id: str = ""
    #: The client chooses its id (KIP-1082, version 1 and later).
    requires_member_id: bool = True

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, because it may have missed an answer."""
        has_subscription = self.topic_names is not None or self.topic_expression is not None
        return self.rebalance_timeout_ms is not None and has_subscription and self.owned is not None


class ConsumerGroupDescribe(msgspec.Struct, frozen=True, kw_only=True):
    """Show groups of the new kind, and their members."""

    token: RequestToken
    group_ids: tuple[str, ...]


class TopicsChanged(NamedTuple):
    """What topics there are now; nobody waits for an answer."""

    topics: TopicCatalog
