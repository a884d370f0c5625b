"""Whether what was seen is about to change: for a moment brokers go on naming who has just gone.

A broker that is killed or stopped is noticed by the others within a second or two, and a leader
that has lost its majority steps down after that. Who looks before sees leaders that are none.
"""

from collections.abc import Set

from kafkaesque.cli.doctor.facts import Facts, PartitionFacts


def is_out_of_date(facts: Facts) -> bool:
    """Tell whether somebody is said to lead who does not answer, or cannot go on leading.

    It may stay so: brokers that can be reached by all others, and not from here, do lead.
    """
    gone = {each.id for each in facts.brokers if each.problem is not None and each.admin is None}
    if not gone:
        return False
    return _has_stale_controller(facts, gone) or any(
        _is_stale(each, gone) for each in facts.view.partitions.values()
    )


def _has_stale_controller(facts: Facts, gone: Set[int]) -> bool:
    if facts.has_no_controller:
        return False
    voters = set(facts.controllers)
    return facts.controller in gone or len(voters & gone) * 2 > len(voters)


def _is_stale(partition: PartitionFacts, gone: Set[int]) -> bool:
    if partition.leader < 0:
        return False
    replicas = set(partition.replicas)
    has_majority = len(replicas - gone) * 2 > len(replicas)
    # One that goes on alone, or with few others, has taken those that are gone out of sync.
    is_settled = has_majority or gone.isdisjoint(partition.in_sync)
    return partition.leader in gone or not is_settled
