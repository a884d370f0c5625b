"""Decides what is asked for of policies; what their settings mean, others have checked."""

from typing import Final

import msgspec

from kafkaesque.model.errors import OverBound
from kafkaesque.routing.exchanges.errors import BadArgument
from kafkaesque.routing.exchanges.records import AnyRoutingRecord, PolicyPut, PolicyRemoved
from kafkaesque.routing.exchanges.topology import Topology
from kafkaesque.routing.policies import APPLY_TO, compile_pattern

#: Of one virtual host: each queue is held against all of them.
POLICIES_MAX: Final = 1_000
NAME_BYTES_MAX: Final = 255
DEFINITION_BYTES_MAX: Final = 16 * 1024
PRIORITY_MAX: Final = 2**31 - 1


def put_policy(topology: Topology, wanted: PolicyPut) -> list[AnyRoutingRecord]:
    """Return the record of a policy that is new or changed; none if it is so already.

    Raises:
        NoSuchVhost: there is none of this name.
        BadArgument: its name, pattern or settings cannot be.
        OverBound: there are too many.
    """
    policies = topology.vhost(wanted.vhost).policies
    if not 1 <= len(wanted.name.encode()) <= NAME_BYTES_MAX:
        raise BadArgument(f"the name of a policy has 1 to {NAME_BYTES_MAX} bytes")
    if wanted.apply_to not in APPLY_TO:
        raise BadArgument(
            f"a policy applies to one of {', '.join(APPLY_TO)}, not to {wanted.apply_to[:40]!r}"
        )
    if abs(wanted.priority) > PRIORITY_MAX:
        raise BadArgument(f"a priority is from -{PRIORITY_MAX} to {PRIORITY_MAX}")
    if not wanted.definition:
        raise BadArgument("a policy without a setting says nothing: give it a definition")
    if len(msgspec.msgpack.encode(wanted.definition)) > DEFINITION_BYTES_MAX:
        raise BadArgument(f"a definition has at most {DEFINITION_BYTES_MAX} bytes")
    compile_pattern(wanted.pattern)
    known = policies.get(wanted.name, is_operator=wanted.is_operator)
    if known == wanted:
        return []
    if known is None and len(policies) >= POLICIES_MAX:
        raise OverBound(f"vhost '{wanted.vhost}' has {POLICIES_MAX} policies already")
    return [wanted]


def remove_policy(
    topology: Topology, vhost: str, name: str, *, is_operator: bool
) -> list[AnyRoutingRecord]:
    """Return the record of a policy's end; none if there is none of the name.

    Raises:
        NoSuchVhost: there is none of this name.
    """
    if topology.vhost(vhost).policies.get(name, is_operator=is_operator) is None:
        return []
    return [PolicyRemoved(vhost=vhost, name=name, is_operator=is_operator)]
