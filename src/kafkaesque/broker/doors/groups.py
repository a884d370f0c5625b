"""Consumer groups and committed offsets, at the coordinators on this broker or elsewhere."""

from kafkaesque.broker.coordinators.group_offsets import GroupOffsetsClient
from kafkaesque.broker.coordinators.groups import GroupCoordinators
from kafkaesque.broker.coordinators.share_groups import ShareGroups


class Groups:
    """`step` needs a group's coordinator to be here; `commit` and `fetch` find it."""

    __slots__ = (
        "commit",
        "coordinators",
        "fetch",
        "find",
        "list_groups",
        "next_token",
        "share",
        "step",
        "when_found",
    )

    def __init__(
        self,
        *,
        coordinators: GroupCoordinators,
        offsets: GroupOffsetsClient,
        share: ShareGroups,
    ) -> None:
        #: The tables on this broker, for those who count them.
        self.coordinators = coordinators
        #: Share groups whose coordinator is on this broker.
        self.share = share
        #: Brings a request to the group's coordinator on this broker, or says that it is elsewhere.
        self.step = coordinators.step
        self.next_token = coordinators.next_token
        #: Where a group's coordinator is: the partition whose leader it is.
        self.find = coordinators.find
        self.when_found = coordinators.when_found
        self.list_groups = coordinators.list_groups
        #: Commits and reads offsets wherever the coordinator is; see `GroupOffsetsClient`.
        self.commit = offsets.commit
        self.fetch = offsets.fetch
