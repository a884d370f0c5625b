"""Client quotas: whom they are for, what they limit, and which of several holds (KIP-546, KIP-612).

A quota belongs to an entity: a user, a client id, both together, or an address; a name that is None
stands for all who have no quota of their own. Each quota of a client is looked up by itself, from
the most particular entity to the least, as KIP-55 orders them.
"""

import ipaddress
import math
from collections.abc import Iterable, Mapping

from kafkaesque.model.errors import InvalidRequest
from kafkaesque.model.options import INT32_MAX, INT64_MAX, Option, OptionTable, OptionType

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

#: Who has not said who they are; nobody can, so far.
ANONYMOUS_USER = "ANONYMOUS"

#: Entities that have quotas; the controller refuses one more.
ENTITIES_MAX = 10_000
#: Characters of a user's name or a client id that has a quota.
NAME_LENGTH_MAX = 1_000

#: (type, name), in the order of the types' names; None is the default of the type.
QuotaEntity = tuple[tuple[str, str | None], ...]
Quotas = Mapping[str, float]

CLIENT_QUOTAS = OptionTable(
    "client quota",
    [
        Option(
            name=PRODUCER_BYTE_RATE,
            type=OptionType.LONG,
            default=INT64_MAX,
            minimum=1,
            maximum=INT64_MAX,
            doc="Bytes per second that clients may send in Produce requests to one broker.",
        ),
        Option(
            name=CONSUMER_BYTE_RATE,
            type=OptionType.LONG,
            default=INT64_MAX,
            minimum=1,
            maximum=INT64_MAX,
            doc="Bytes per second that clients may fetch from one broker.",
        ),
        Option(
            name=REQUEST_PERCENTAGE,
            type=OptionType.DOUBLE,
            default=float(INT32_MAX),
            minimum=0,
            is_open=True,
            doc="Per cent of one broker's loop that clients may keep busy. A broker has one loop, "
            "so that 100 is all of it.",
        ),
        Option(
            name=CONTROLLER_MUTATION_RATE,
            type=OptionType.DOUBLE,
            default=float(INT32_MAX),
            minimum=0,
            is_open=True,
            doc="Partitions per second that clients may create or delete through one broker.",
        ),
    ],
)
IP_QUOTAS = OptionTable(
    "address quota",
    [
        Option(
            name=CONNECTION_CREATION_RATE,
            type=OptionType.INT,
            default=INT32_MAX,
            minimum=1,
            maximum=INT32_MAX,
            doc="Connections per second that an address may open to one broker's Kafka port.",
        )
    ],
)


def make_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity that has these parts, checked.

    Raises:
        InvalidRequest: they contradict each other, or are of a type or form that does not exist.
    """
    entity: QuotaEntity = tuple(sorted(parts, key=lambda part: part[0]))
    types = [kind for kind, _ in entity]
    if not entity:
        raise InvalidRequest("the entity of a quota is empty: name a user, a client-id or an ip")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(
                f"no entity has type {kind!r}; types are {', '.join(ENTITY_TYPES)}"
            )
        if types.count(kind) > 1:
            raise InvalidRequest(f"the entity names {kind} more than once")
        if name == "":
            raise InvalidRequest(f"the name of a {kind} is empty; the default is null")
        if name is not None and len(name) > NAME_LENGTH_MAX:
            raise InvalidRequest(f"the name of a {kind} is longer than {NAME_LENGTH_MAX}")
    if IP in types and len(types) > 1:
        raise InvalidRequest("an ip is not combined with a user or client-id")
    if types == [IP] and entity[0][1] is not None:
        entity = ((IP, _checked_ip(entity[0][1])),)
    return entity


def _checked_ip(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        raise InvalidRequest(f"{name!r} is no IP address") from None


def describe_entity(entity: QuotaEntity) -> str:
    """Return the entity for people to read."""
    return ", ".join(
        f"the default {kind}" if name is None else f"{kind} {name!r}" for kind, name in entity
    )


def quota_options(entity: QuotaEntity) -> OptionTable:
    """Return what can be limited for an entity."""
    return IP_QUOTAS if entity[0][0] == IP else CLIENT_QUOTAS


def check_quota(entity: QuotaEntity, key: str, value: float | None) -> None:
    """Check one quota of an entity; no value takes the quota away.

    Raises:
        InvalidRequest: no such quota for this entity, or not such a value.
    """
    options = quota_options(entity)
    if key not in options:
        raise InvalidRequest(
            f"{key!r} is no quota of {describe_entity(entity)}; there can be: "
            f"{', '.join(options.names())}"
        )
    if value is None:
        return
    if not math.isfinite(value) or value <= 0:
        raise InvalidRequest(f"{key} = {value} is not allowed: it must be above 0")
    option = options.get(key)
    if option.type is not OptionType.DOUBLE and not value.is_integer():
        raise InvalidRequest(f"{key} = {value} is not allowed: it must be a whole number")
    if option.maximum is not None and value > option.maximum:
        raise InvalidRequest(f"{key} = {value} is not allowed: it must be {option.allowed}")


def levels_of(user: str, client_id: str) -> tuple[tuple[QuotaEntity, QuotaEntity], ...]:
    """Return the entities whose quotas may hold for a client, the most particular first (KIP-55).

    With each comes who shares what the quota allows: a quota of users is used up by all clients of
    a user together, one of client ids by all with that id.
    """
    pair: QuotaEntity = ((CLIENT_ID, client_id), (USER, user))
    of_user: QuotaEntity = ((USER, user),)
    of_client: QuotaEntity = ((CLIENT_ID, client_id),)
    return (
        (pair, pair),
        (((CLIENT_ID, None), (USER, user)), pair),
        (of_user, of_user),
        (((CLIENT_ID, client_id), (USER, None)), pair),
        (((CLIENT_ID, None), (USER, None)), pair),
        (((USER, None),), of_user),
        (of_client, of_client),
        (((CLIENT_ID, None),), of_client),
    )
