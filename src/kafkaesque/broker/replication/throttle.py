"""How fast replicas that have no vote yet get their copies from this broker.

Two buckets fill with what is sent and drain at their rates: one for all that this broker sends, one
for each broker that it sends to. Nothing more is sent while one of them is not empty. So a rate
holds on average over what is sent at once, and a rate that is changed counts from then on.
"""

from collections.abc import Mapping

from kafkaesque.env.clock import Clock
from kafkaesque.model.ids import NodeId

#: Whoever waits looks again after this long at the latest: the rate may have been raised.
WAIT_MS_MAX = 1_000
#: What is sent at once at least, however slow: one batch is never sent in parts anyway.
CHUNK_BYTES_MIN = 16 * 1024


class _Bucket:
    """What was sent and has not drained yet."""

    __slots__ = ("bytes", "seen_ms")

    def __init__(self, now_ms: int) -> None:
        self.bytes = 0.0
        self.seen_ms = now_ms

    def drain(self, rate: int, now_ms: int) -> None:
        self.bytes = max(0.0, self.bytes - rate * (now_ms - self.seen_ms) / 1000)
        self.seen_ms = now_ms


class ReplicationThrottle:
    """The rates of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leader_rate: int | None = None
        self._follower_rates: Mapping[NodeId, int] = {}
        self._sent = _Bucket(clock.now_ms())
        self._sent_to: dict[NodeId, _Bucket] = {}

    @property
    def is_active(self) -> bool:
        """Whether there is any rate."""
        return self._leader_rate is not None or bool(self._follower_rates)

    @property
    def bytes_max(self) -> int:
        """How much may be sent at once: a second's worth."""
        rates = list(self._follower_rates.values())
        if self._leader_rate is not None:
            rates.append(self._leader_rate)
        return max(CHUNK_BYTES_MIN, min(rates)) if rates else CHUNK_BYTES_MIN

    def set_rates(self, leader: int | None, followers: Mapping[NodeId, int]) -> None:
        """Send no more bytes per second, in all and to each broker; None and absence: unlimited."""
        if leader != self._leader_rate or followers != self._follower_rates:
            now_ms = self._clock.now_ms()
            self._drain(now_ms)
            self._leader_rate = leader
            self._follower_rates = dict(followers)
            self._sent_to = {
                node: self._sent_to.get(node, _Bucket(now_ms)) for node in self._follower_rates
            }
            if leader is None:
                self._sent = _Bucket(now_ms)

    def _drain(self, now_ms: int) -> None:
        if self._leader_rate is not None:
            self._sent.drain(self._leader_rate, now_ms)
        for node, bucket in self._sent_to.items():
            bucket.drain(self._follower_rates[node], now_ms)

    def wait_ms(self, node: NodeId) -> int:
        """Return how long to wait before a broker is sent more, or looked after again; 0: now."""
        self._drain(self._clock.now_ms())
        seconds = 0.0
        if self._leader_rate is not None:
            seconds = self._sent.bytes / self._leader_rate
        if node in self._sent_to:
            seconds = max(seconds, self._sent_to[node].bytes / self._follower_rates[node])
        return min(WAIT_MS_MAX, int(seconds * 1000) + 1) if seconds > 0 else 0

    def on_sent(self, node: NodeId, size_bytes: int) -> None:
        """Count what is sent."""
        self._sent.bytes += size_bytes
        if node in self._sent_to:
            self._sent_to[node].bytes += size_bytes
