"""Operations and resource types, with Kafka's numbers (AclOperation, ResourceType), and ours.

The operations are Kafka's alone. Resource types of our own lie far above Kafka's numbers: they
are not shown to Kafka's tools, and cannot collide with a type that Kafka adds.
"""

from enum import IntEnum
from typing import Final


class Operation(IntEnum):
    """What is to be done to a resource."""

    # An enum's own hash is a Python function: the cached decision would take half as long again.
    __hash__ = int.__hash__

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What kind of thing it is done to."""

    __hash__ = int.__hash__

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    VHOST = 100
    EXCHANGE = 101
    QUEUE = 102
    SUBJECT = 103
    KEY = 104
    AUDIT = 105


#: The one resource of the type CLUSTER.
CLUSTER_NAME: Final = "kafka-cluster"
#: Types below it are Kafka's.
FIRST_OWN_TYPE: Final = 100
OWN_TYPES: Final = tuple(each for each in ResourceType if each >= FIRST_OWN_TYPE)

_O = Operation

#: What can be done to each type; what the bit field of authorized operations speaks of. A rule for
#: another operation is kept, as Kafka keeps it, and never decides anything.
SUPPORTED: Final[dict[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: frozenset(
        {
            _O.READ,
            _O.WRITE,
            _O.CREATE,
            _O.DELETE,
            _O.ALTER,
            _O.DESCRIBE,
            _O.DESCRIBE_CONFIGS,
            _O.ALTER_CONFIGS,
        }
    ),
    ResourceType.GROUP: frozenset(
        {_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}
    ),
    ResourceType.CLUSTER: frozenset(
        {
            _O.CREATE,
            _O.CLUSTER_ACTION,
            _O.DESCRIBE_CONFIGS,
            _O.ALTER_CONFIGS,
            _O.IDEMPOTENT_WRITE,
            _O.ALTER,
            _O.DESCRIBE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({_O.DESCRIBE, _O.WRITE, _O.TWO_PHASE_COMMIT}),
    ResourceType.DELEGATION_TOKEN: frozenset({_O.DESCRIBE}),
    ResourceType.USER: frozenset({_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS}),
    ResourceType.VHOST: frozenset({_O.CREATE, _O.DELETE, _O.DESCRIBE}),
    ResourceType.EXCHANGE: frozenset(
        {_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE}
    ),
    ResourceType.QUEUE: frozenset({_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE}),
    # Of messaging, and of the schema registry.
    ResourceType.SUBJECT: frozenset({_O.READ, _O.WRITE, _O.DELETE, _O.DESCRIBE, _O.ALTER_CONFIGS}),
    ResourceType.KEY: frozenset({_O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE}),
    ResourceType.AUDIT: frozenset({_O.READ, _O.DESCRIBE}),
}

#: An allowed operation of the value implies the key; a denied one implies nothing.
IMPLIED_BY: Final[dict[Operation, frozenset[Operation]]] = {
    _O.DESCRIBE: frozenset({_O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.ALTER_CONFIGS}),
}

_EVERY_BIT: Final = sum(1 << each for each in Operation)


def denied_bits(operation: Operation) -> int:
    """Return the operations that a deny of this one covers, one bit for each number."""
    return _EVERY_BIT if operation is Operation.ALL else 1 << operation


def allowed_bits(operation: Operation) -> int:
    """Return the operations that an allow of this one covers, one bit for each number."""
    bits = denied_bits(operation)
    for implied, by in IMPLIED_BY.items():
        if operation in by:
            bits |= 1 << implied
    return bits
