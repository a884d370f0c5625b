"""Which brokers are controllers, as the cluster's leading controller says."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import check_rule, on_cluster
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from kafkaesque.protocols.kafka.messages.describe_quorum_response import ReplicaState

METADATA_TOPIC = "__cluster_metadata"
_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """A broker that has the controllers' log, or is to get it."""

    broker: int
    votes: bool
    leads: bool
    is_up: bool
    #: Records of the log that it has not, of those that are committed; None: it is not known, as of
    #: one that nobody hears.
    behind: int | None
    #: It has all that is committed, and could vote.
    has_all: bool
    #: It accepts connections and answers nothing; the one that leads cannot see that.
    hangs: bool = False

    @property
    def state(self) -> str:
        """What it is, in a word or two."""
        if self.hangs:
            return "hangs"
        if not self.is_up:
            return "down"
        return "up" if self.has_all else "behind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The controllers and those that only have their log."""

    leader: int
    term: int
    members: list[QuorumMember]

    @property
    def voters(self) -> list[int]:
        """The brokers that vote."""
        return [each.broker for each in self.members if each.votes]

    @property
    def summary(self) -> str:
        """Who votes, and how many of them may fail."""
        voters = self.voters
        spare = (len(voters) - 1) // 2
        names = ", ".join(map(str, voters))
        return f"controllers are {names}: {spare} of {len(voters)} may fail"


def read_quorum(bootstrap: str) -> Quorum:
    """Ask the cluster.

    Raises:
        CommandFailed: no broker answers, or no controller leads.
    """
    request = DescribeQuorumRequest(topics=[TopicData(METADATA_TOPIC, [PartitionData(0)])])
    answer = ask(bootstrap, ApiKey.DESCRIBE_QUORUM, _VERSION, request)
    found = answer.topics[0].partitions[0] if not answer.error_code else answer
    check_rule(found.error_code, bootstrap, on_cluster("describe"))
    if found.error_code:
        raise CommandFailed(
            f"the controllers are not known: {found.error_message}",
            hint="kafkaesque doctor",
        )

    def member(state: ReplicaState, *, votes: bool) -> QuorumMember:
        is_up = state.last_fetch_timestamp >= 0
        is_known = is_up and state.log_end_offset >= 0
        return QuorumMember(
            broker=state.replica_id,
            votes=votes,
            leads=state.replica_id == found.leader_id,
            is_up=is_up,
            behind=max(0, found.high_watermark - state.log_end_offset) if is_known else None,
            has_all=state.last_caught_up_timestamp >= 0,
        )

    members = [member(each, votes=True) for each in found.current_voters]
    members += [member(each, votes=False) for each in found.observers]
    return Quorum(leader=found.leader_id, term=found.leader_epoch, members=members)


def with_hanging(quorum: Quorum, hanging: Collection[int]) -> Quorum:
    """Return what the one that leads says, with what only who asks all brokers sees: who hangs."""
    members = [
        replace(each, hangs=True, behind=None) if each.broker in hanging else each
        for each in quorum.members
    ]
    return replace(quorum, members=members)
