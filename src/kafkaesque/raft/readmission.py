"""How a leader brings its group to the voters that it should have, lost disks or not.

Theory of operation. A peer that has lost its log and its votes (`amnesia` in `follower_log`) gets
the log and counts for nothing. Two quorums may have met only in what it has forgotten, so it is
made a learner first, by a change that goes without it. It is *readmitted* when that is committed,
and something too that was appended after it told of its loss. Then no leader of a later term was
elected before (a majority would not have taken the entry), so this one has all that is committed;
and every later leader has this entry. From there on the learner is like one that has never voted.
If it is among the wanted voters it becomes one when it has caught up.

The number of the loss keeps apart what was said of an earlier one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkaesque.model.ids import NodeId
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.progress import PeerProgress, ProgressState


class Readmissions(NamedTuple):
    """What can be done for peers that have lost everything, where the configuration is settled."""

    #: Those that are to be told now, and up to which index they must have the log.
    ready: list[tuple[PeerProgress, int]]
    #: One waits for an entry that nobody may append for long.
    wants_entry: bool
    #: Somebody should be a voter and is none, or waits to be readmitted.
    is_astray: bool


def next_voters(
    configuration: Configuration,
    peers: Mapping[NodeId, PeerProgress],
    wanted: Sequence[NodeId],
    floor_index: int,
) -> tuple[NodeId, ...]:
    """Return the voters that should be next, as far as that can be had now.

    A wanted learner needs the log up to `floor_index`. `peers` are all members but the leader.
    """
    voters = configuration.voters
    sound = tuple(node for node in voters if node not in peers or not peers[node].amnesia)
    if len(sound) < len(voters):
        # Without a majority of them nothing can be changed.
        return sound if len(sound) > len(voters) // 2 else voters
    ready = [
        node
        for node in wanted
        if node not in voters and node in peers and _may_vote(peers[node], floor_index)
    ]
    return (*voters, *ready)


def _may_vote(peer: PeerProgress, floor_index: int) -> bool:
    return (
        peer.is_alive
        and not peer.is_absent
        and not peer.amnesia
        and peer.state is ProgressState.REPLICATE
        and peer.synced_index >= floor_index
    )


def find_readmissions(
    configuration: Configuration,
    configuration_index: int,
    peers: Mapping[NodeId, PeerProgress],
    wanted: Sequence[NodeId],
    *,
    last_index: int,
    commit_index: int,
) -> Readmissions:
    """Return what can be done; the configuration is committed, and the leader has an entry so."""
    ready = []
    wants_entry = is_astray = False
    for peer in peers.values():
        is_voter = configuration.is_voter(peer.node)
        if not peer.is_alive:
            continue
        if not peer.amnesia:
            is_astray |= not is_voter and peer.node in wanted
            continue
        is_astray = True
        if is_voter:
            continue
        index = max(peer.readmit_index, configuration_index)
        wants_entry |= last_index < index
        if peer.is_readmit_due and min(commit_index, peer.synced_index) >= index:
            ready.append((peer, index))
    return Readmissions(ready, wants_entry, is_astray)
