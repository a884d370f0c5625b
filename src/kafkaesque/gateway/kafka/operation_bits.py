"""What may be done to a resource, as bit fields (KIP-430), where nobody asks who."""

from typing import Final

from kafkaesque.access.operations import SUPPORTED, ResourceType

#: "Not asked for."
OPERATIONS_OMITTED: Final = -(2**31)


def _bits(resource_type: ResourceType) -> int:
    return sum(1 << operation for operation in SUPPORTED[resource_type])


#: The operations that exist on each kind of resource, as a bit field (KIP-430).
TOPIC_OPERATIONS: Final = _bits(ResourceType.TOPIC)
GROUP_OPERATIONS: Final = _bits(ResourceType.GROUP)
CLUSTER_OPERATIONS: Final = _bits(ResourceType.CLUSTER)
