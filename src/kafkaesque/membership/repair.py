"""Anti-entropy: two members compare themselves, and one or both learn what they have missed.

Theory of operation. Rumours may miss somebody; this does not, in the long run (Demers et al. 1987,
section 1.3). Who begins sends the checksum of all it has. Who has another one answers with the
checksums of its buckets; the first sends keys and versions of what it has in those that differ, and
the second answers with what it has newer (pull), asks for what is newer there (push), or both
(push-pull). Each step fits into a bounded number of frames, and no step needs to remember another:
what does not fit, or gets lost, is found again the next time. Buckets are taken from a random one
on, so that each has its turn.
"""

from typing import Final

from kafkaesque.env.dice import Dice
from kafkaesque.env.network import Address
from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.entries import Entry, Key
from kafkaesque.membership.messages import (
    Digest,
    Sync,
    SyncBuckets,
    SyncDelta,
    SyncDigest,
    SyncMode,
    SyncWant,
)
from kafkaesque.membership.post import Post
from kafkaesque.membership.view import ClusterView
from kafkaesque.membership.wire import (
    DIGEST_HEAD_BYTES,
    WANT_HEAD_BYTES,
    digest_bytes,
    key_bytes,
)
from kafkaesque.model.ids import NodeId


class Repair:
    """One member's part in comparisons."""

    __slots__ = ("_config", "_dice", "_post", "_view")

    def __init__(
        self, *, config: MembershipConfig, dice: Dice, view: ClusterView, post: Post
    ) -> None:
        self._config: Final = config
        self._dice: Final = dice
        self._view: Final = view
        self._post: Final = post

    def begin(self, node: NodeId, address: Address, mode: SyncMode, *first: Entry) -> None:
        """Compare with a node; `first` rides along."""
        self._post.send(node, address, Sync(mode, self._view.digests.root), first)

    def on_sync(self, sender: NodeId, source: Address, sync: Sync) -> None:
        """Somebody begins."""
        if sync.root != self._view.digests.root:
            answer = SyncBuckets(sync.mode, self._view.digests.checksums())
            self._post.send(sender, source, answer)

    def on_buckets(self, sender: NodeId, source: Address, buckets: SyncBuckets) -> None:
        """Whoever was asked has something else."""
        digests = self._view.digests
        differing = digests.differing(buckets.checksums)
        if not differing:
            return
        turn = self._dice.below(len(differing))
        room = self._post.room_after(DIGEST_HEAD_BYTES)
        covered: list[int] = []
        chosen: list[Digest] = []
        for number in differing[turn:] + differing[:turn]:
            theirs = [Digest(key, version) for key, version in digests.versions(number).items()]
            size = sum(map(digest_bytes, theirs))
            if size > room and covered:
                break
            if size > room:
                theirs = self._part(theirs, room)
            room -= size
            covered.append(number)
            chosen += theirs
        covered.sort()
        self._post.send(sender, source, SyncDigest(buckets.mode, tuple(covered), chosen))

    def _part(self, digests: list[Digest], room: int) -> list[Digest]:
        """Return as many as fit, from a random one on."""
        turn = self._dice.below(len(digests))
        part = []
        for digest in digests[turn:] + digests[:turn]:
            room -= digest_bytes(digest)
            if room < 0:
                break
            part.append(digest)
        return part

    def on_digest(self, sender: NodeId, source: Address, digest: SyncDigest) -> None:
        """Whoever began tells what it has in some buckets."""
        theirs = dict(digest.digests)
        ours, wanted = self._view.digests.newer(digest.buckets, theirs)
        if digest.mode & SyncMode.PULL:
            self._give(sender, source, ours)
        if wanted and digest.mode & SyncMode.PUSH:
            room = self._post.room_after(WANT_HEAD_BYTES)
            keys = []
            for key in wanted:
                room -= key_bytes(key)
                if room < 0:
                    break
                keys.append(key)
            self._post.send(sender, source, SyncWant(keys))

    def on_want(self, sender: NodeId, source: Address, want: SyncWant) -> None:
        """Somebody asks for entries."""
        self._give(sender, source, list(want.keys))

    def _give(self, node: NodeId, address: Address, keys: list[Key]) -> None:
        """Send entries; standings first, for a fact of nobody is not taken in."""
        keys.sort(key=lambda key: (key[1] != "", key))
        found = (self._view.entry(key) for key in keys)
        entries = [entry for entry in found if entry is not None]
        self._post.send_entries(node, address, SyncDelta(), entries, self._config.sync_frames_max)
