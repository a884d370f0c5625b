"""What topic permissions say of routing keys, for all ports that publish to exchanges or bind.

Where nobody has a topic permission, that is one question, and no exchange is looked for.
"""

from collections.abc import Iterable
from typing import Protocol

from kafkaesque.access.operations import Operation
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.chassis.rights import Rights
from kafkaesque.routing.exchanges.kinds import Kind
from kafkaesque.routing.exchanges.topology import Exchange


class ExchangesView(Protocol):
    """The exchanges that a broker has heard of."""

    def exists(self, vhost: str, name: str) -> bool:
        """Tell whether there is an exchange of a name."""

    def find(self, vhost: str, name: str) -> Exchange:
        """Return an exchange that exists."""


def refusal_of_keys(
    rights: Rights | None,
    exchanges: ExchangesView,
    operation: Operation,
    vhost: str,
    exchange: str,
    keys: Iterable[str],
) -> str | None:
    """Return what is said of the first routing key that a client may not use; None: of none.

    To publish with it is Write, to bind with it Read.
    """
    if rights is None or not rights.limits_keys:
        return None
    limit = rights.key_limit(vhost, exchange)
    if limit is None or not _is_limited(exchanges, vhost, exchange):
        return None
    refusal = _first_refusal(limit, operation, keys)
    if refusal is not None:
        rights.tell_key(operation, limit, refusal)
    return refusal


def _is_limited(exchanges: ExchangesView, vhost: str, exchange: str) -> bool:
    """Tell whether keys of an exchange are topics; one that is not heard of may be a new one."""
    if not exchanges.exists(vhost, exchange):
        return True
    return exchanges.find(vhost, exchange).kind is Kind.TOPIC


def _first_refusal(limit: TopicPermission, operation: Operation, keys: Iterable[str]) -> str | None:
    return next(
        (limit.refusal(operation, each) for each in keys if not limit.allows(operation, each)),
        None,
    )
