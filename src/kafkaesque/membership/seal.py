"""Frames that only members can write, and read: a packet with a head, signed or sealed.

Theory of operation. The cluster's secret and its id give a key; a frame ends with the first half of
the HMAC-SHA256 of all before it (RFC 2104, truncated as its section 5 allows). The head names the
sender, its life, the number of the frame in that life, and the receiver. So a frame cannot be made,
changed, or sent to another node or cluster by somebody without the secret.

A signed frame can be read by anybody. A sealed one has its packet as AES-256-GCM ciphertext, with
the head authenticated. Its nonce is the first 12 bytes of the HMAC-SHA256, by a third key, of head
and packet: two frames have the same one only if they are the same, whatever processes take
themselves for one node, and no randomness is needed. Both kinds are believed always; frames are
sealed from when all brokers of the cluster are known to open them (`is_sealing`).

A frame that was recorded counts once: `ReplayGuard` remembers for each sender the newest numbers of
its newest life. Who has just been started remembers nothing yet; what can be replayed to it until
the sender's next frame is old news, which outdates nothing (see `membership.entries`).

Two secrets can be known at once, so that the secret can be changed while the cluster works: the
new one is added behind the old one on every node, then put before it on every node, then the old
one is removed. All frames are signed with the first and believed with either.
"""

import hashlib
import hmac
import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from kafkaesque.membership.entries import INCARNATION_MAX, NODE_MAX
from kafkaesque.membership.errors import FrameRefused, Refusal
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.ids import NO_NODE, NodeId, read_node, write_node

PROTOCOL_VERSION: Final = 1
#: Of a frame whose packet is ciphertext.
SEALED_VERSION: Final = 2
SECRETS_MAX: Final = 2
SECRET_BYTES_MIN: Final = 16
MAC_BYTES: Final = 16
#: Frames of one sender that may overtake one another without being taken for replayed.
WINDOW_FRAMES: Final = 256

#: The receiver of a frame to an address where nobody is known yet.
ANYBODY: Final = NO_NODE

_HEAD = struct.Struct(">BHIIIQQ")
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
#: What a frame has beside its packet, at most.
SEAL_BYTES: Final = _HEAD.size + _NONCE_BYTES + _TAG_BYTES


class Envelope(NamedTuple):
    """A frame whose signature is right."""

    sender: NodeId
    receiver: NodeId
    life: int
    number: int
    packet: bytes


class _Secret(NamedTuple):
    id: int
    key: bytes
    #: Of sealed frames: what makes nonces, and what encrypts.
    nonce_key: bytes
    sealing_key: bytes


class Keyring:
    """Signs or seals frames, and tells those that were."""

    __slots__ = ("_cluster", "_secrets", "is_sealing")

    def __init__(
        self, cluster_id: str, secrets: Sequence[bytes], purpose: bytes = b"membership"
    ) -> None:
        """`secrets`: the one to sign with, and maybe another one to believe.

        What is signed for one purpose is believed for no other.

        Raises:
            ConfigError: none, too many, one that is too short, or one twice.
        """
        if not 1 <= len(secrets) <= SECRETS_MAX:
            raise ConfigError(
                f"membership: there must be one cluster secret, or {SECRETS_MAX} while it is"
                f" changed, not {len(secrets)}"
            )
        if any(len(secret) < SECRET_BYTES_MIN for secret in secrets):
            raise ConfigError(
                f"membership: a cluster secret must have at least {SECRET_BYTES_MIN} bytes:"
                " take random ones"
            )
        if len(set(secrets)) < len(secrets):
            raise ConfigError("membership: the new cluster secret is the old one")
        #: Whether frames are sealed, and not only signed.
        self.is_sealing = False
        name = cluster_id.encode()
        self._cluster: Final = int.from_bytes(hashlib.sha256(name).digest()[:4], "big")
        self._secrets: Final = tuple(_derive(purpose + b" " + name, each) for each in secrets)

    def seal(
        self, sender: NodeId, receiver: NodeId, life: int, number: int, packet: bytes
    ) -> bytes:
        """Return a frame; no two of one life may have the same number."""
        secret = self._secrets[0]
        head = _HEAD.pack(
            SEALED_VERSION if self.is_sealing else PROTOCOL_VERSION,
            secret.id,
            self._cluster,
            sender,
            write_node(receiver),
            life,
            number,
        )
        if self.is_sealing:
            return head + _encrypt(secret, head, packet)
        body = head + packet
        return body + hmac.digest(secret.key, body, "sha256")[:MAC_BYTES]

    def open(self, frame: bytes) -> Envelope:
        """Return what a frame holds.

        Raises:
            FrameRefused: no member of this cluster has written it.
        """
        if len(frame) < _HEAD.size + MAC_BYTES:
            raise FrameRefused(Refusal.MALFORMED)
        version, key_id, cluster, sender, receiver, life, number = _HEAD.unpack_from(frame)
        if version not in (PROTOCOL_VERSION, SEALED_VERSION):
            raise FrameRefused(Refusal.OTHER_VERSION)
        if cluster != self._cluster:
            raise FrameRefused(Refusal.OTHER_CLUSTER)
        read = _decrypt if version == SEALED_VERSION else _check
        is_known = False
        for secret in self._secrets:
            if secret.id == key_id:
                is_known = True
                packet = read(secret, frame)
                if packet is not None:
                    break
        else:
            raise FrameRefused(Refusal.FORGED if is_known else Refusal.UNKNOWN_KEY)
        if not (sender <= NODE_MAX and 1 <= life <= INCARNATION_MAX):
            raise FrameRefused(Refusal.UNREADABLE)
        return Envelope(NodeId(sender), read_node(receiver), life, number, packet)


def _check(secret: _Secret, frame: bytes) -> bytes | None:
    """Return a signed frame's packet; None if the signature is another one."""
    body = frame[:-MAC_BYTES]
    mac = hmac.digest(secret.key, body, "sha256")[:MAC_BYTES]
    return body[_HEAD.size :] if hmac.compare_digest(mac, frame[-MAC_BYTES:]) else None


def _encrypt(secret: _Secret, head: bytes, packet: bytes) -> bytes:
    # With the first frame: loading takes 14 ms and 6 MB.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = hmac.digest(secret.nonce_key, head + packet, "sha256")[:_NONCE_BYTES]
    return nonce + AESGCM(secret.sealing_key).encrypt(nonce, packet, head)


def _decrypt(secret: _Secret, frame: bytes) -> bytes | None:
    """Return a sealed frame's packet; None if it does not open."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(frame) < SEAL_BYTES:
        return None
    head, body_at = frame[: _HEAD.size], _HEAD.size + _NONCE_BYTES
    try:
        return AESGCM(secret.sealing_key).decrypt(
            frame[_HEAD.size : body_at], frame[body_at:], head
        )
    except InvalidTag:
        return None


def _derive(use: bytes, secret: bytes) -> _Secret:
    """Return the key for one purpose in one cluster, and the number by which frames name it."""
    key = hmac.digest(secret, b"kafkaesque " + use, "sha256")
    return _Secret(
        id=int.from_bytes(hashlib.sha256(key).digest()[:2], "big"),
        key=key,
        nonce_key=hmac.digest(secret, b"kafkaesque nonces of " + use, "sha256"),
        sealing_key=hmac.digest(secret, b"kafkaesque sealing of " + use, "sha256"),
    )


class Freshness(Enum):
    """What a frame is to who has seen others of its sender."""

    FRESH = "fresh"
    REPLAYED = "replayed"
    OUTDATED = "outdated"


class _Seen:
    """The newest frames of one sender: bit n of `bits` is frame `highest` - n."""

    __slots__ = ("bits", "highest", "life")

    def __init__(self, life: int, number: int) -> None:
        self.life = life
        self.highest = number
        self.bits = 1


class ReplayGuard:
    """Remembers which frames of its senders have come; of `senders_max`, no more."""

    __slots__ = ("_seen", "_senders_max")

    def __init__(self, senders_max: int) -> None:
        self._seen: Final[dict[NodeId, _Seen]] = {}
        self._senders_max: Final = senders_max

    def admit(self, sender: NodeId, life: int, number: int) -> Freshness:
        """Note a frame whose signature is right, and tell what it is."""
        seen = self._seen.get(sender)
        if seen is None or life > seen.life:
            if seen is None and len(self._seen) >= self._senders_max:
                del self._seen[next(iter(self._seen))]
            self._seen[sender] = _Seen(life, number)
            return Freshness.FRESH
        if life < seen.life:
            return Freshness.OUTDATED
        ahead = number - seen.highest
        if ahead > 0:
            seen.bits = (seen.bits << min(ahead, WINDOW_FRAMES) | 1) & _WINDOW_MASK
            seen.highest = number
            return Freshness.FRESH
        bit = 1 << -ahead if -ahead < WINDOW_FRAMES else 0
        if not bit or seen.bits & bit:
            return Freshness.REPLAYED
        seen.bits |= bit
        return Freshness.FRESH

    def note_life(self, sender: NodeId, life: int) -> None:
        """Let what comes of earlier lives of a sender be outdated."""
        if life > self.life_of(sender):
            self.admit(sender, life, 0)

    def life_of(self, sender: NodeId) -> int:
        """Return the newest life of a sender; 0 where none is known."""
        seen = self._seen.get(sender)
        return 0 if seen is None else seen.life


_WINDOW_MASK = (1 << WINDOW_FRAMES) - 1
