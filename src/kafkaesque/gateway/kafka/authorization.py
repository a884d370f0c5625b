"""What a client may do; without an authorizer that is everything, as Kafka says it too."""

from typing import Final

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12

#: "Not asked for."
OPERATIONS_OMITTED: Final = -(2**31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


#: The operations that exist on each kind of resource, as a bit field (KIP-430).
TOPIC_OPERATIONS: Final = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
GROUP_OPERATIONS: Final = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS: Final = _bits(
    _CREATE,
    _ALTER,
    _DESCRIBE,
    _CLUSTER_ACTION,
    _DESCRIBE_CONFIGS,
    _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
)
