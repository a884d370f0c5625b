"""How much of their quotas clients have used, and how long they have to wait for having used more.

Theory of operation. Whoever shares a quota has one bucket for it. It fills with the quota's rate,
up to what the rate gives in Kafka's ten full windows of a second, and each use takes what it takes
out of it, also more than there is. Who leaves less than nothing has to wait until the rate has
filled that up again. So over any time nobody gets more than the rate, the ten seconds of a start
and the last use; who stays below the rate never waits. A wait has a bound, but what is owed is not
forgotten: the next use waits for it again.

Kafka measures a rate over windows that move by a second, which comes to the same for who goes on
for long. A bucket is two numbers where Kafka keeps eleven windows.

The table knows no clock: every use comes with its time.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from kafkaesque.broker.metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    NAME_LENGTH_MAX,
    REQUEST_PERCENTAGE,
    QuotaEntity,
    Quotas,
    levels_of,
)

#: Kafka's `quota.window.num` and `quota.window.size.seconds`: the window that has begun last is not
#: full, so that ten seconds' worth may come at once.
WINDOWS: Final = 11
WINDOW_MS: Final = 1000
BURST_S: Final = (WINDOWS - 1) * WINDOW_MS / 1000
#: The longest wait for bytes: with more, what is under way would run into the client's timeouts.
WAIT_MS_MAX: Final = WINDOWS * WINDOW_MS
#: The longest wait for the loop's time and for new connections, as in Kafka: one window.
SHORT_WAIT_MS_MAX: Final = WINDOW_MS
#: Buckets that are kept; the one that was not used for the longest time goes first.
BUCKETS_MAX: Final = 10_000
#: Clients whose quotas have been looked up.
CLIENTS_MAX: Final = 10_000

_SHORT: Final = (REQUEST_PERCENTAGE, CONNECTION_CREATION_RATE)
#: KIP-599 lets a burst of creations be as long as all windows, the last as well.
_BURSTS_S: Final = {CONTROLLER_MUTATION_RATE: WINDOWS * WINDOW_MS / 1000}

#: A quota's name, and who shares it.
_BucketKey = tuple[str, QuotaEntity]


class Limit:
    """A quota that holds for a client: its rate per second, and who shares it."""

    __slots__ = ("burst", "key", "rate", "wait_ms_max")

    def __init__(self, name: str, shared_by: QuotaEntity, rate: float) -> None:
        self.key: Final[_BucketKey] = (name, shared_by)
        self.rate: Final = rate
        self.burst: Final = rate * _BURSTS_S.get(name, BURST_S)
        self.wait_ms_max: Final = SHORT_WAIT_MS_MAX if name in _SHORT else WAIT_MS_MAX


class _Bucket:
    __slots__ = ("at_ms", "left")

    def __init__(self, left: float, at_ms: float) -> None:
        self.left = left
        self.at_ms = at_ms


class QuotaTable:
    """The quotas of one broker's clients."""

    def __init__(self) -> None:
        self._quotas: Mapping[QuotaEntity, Quotas] = {}
        self._limits: dict[tuple[str, str], dict[str, Limit]] = {}
        self._buckets: OrderedDict[_BucketKey, _Bucket] = OrderedDict()

    def load(self, quotas: Mapping[QuotaEntity, Quotas]) -> None:
        """Take the quotas that hold from now on; what was used stays used."""
        self._quotas = quotas
        self._limits.clear()
        if not quotas:
            self._buckets.clear()

    def limits(self, user: str, client_id: str) -> Mapping[str, Limit]:
        """Return what holds for a client, by the quota's name.

        Client ids that are longer than any that has a quota, and begin alike, are one.
        """
        client_id = client_id[: NAME_LENGTH_MAX + 1]
        found = self._limits.get((user, client_id))
        if found is None:
            found = {}
            for entity, shared_by in levels_of(user, client_id):
                for name, rate in self._quotas.get(entity, {}).items():
                    if name not in found:
                        found[name] = Limit(name, shared_by, rate)
            if len(self._limits) >= CLIENTS_MAX:
                self._limits.clear()
            self._limits[user, client_id] = found
        return found

    def ip_limit(self, ip: str) -> Limit | None:
        """Return the limit on an address's new connections."""
        for name in (ip, None):
            rate = self._quotas.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)
            if rate is not None:
                return Limit(CONNECTION_CREATION_RATE, ((IP, ip),), rate)
        return None

    def use(self, limit: Limit, amount: float, now_ms: float) -> int:
        """Take an amount, and return for how many milliseconds its owner has to wait.

        `now_ms` never goes back. A wait is at least 1 where more was taken than there was.
        """
        bucket = self._filled(limit, now_ms)
        bucket.left -= amount
        return _wait_ms(limit, bucket)

    def wait_ms(self, limit: Limit, now_ms: float) -> int:
        """Return for how long to wait for what was taken already; 0 is not at all."""
        return _wait_ms(limit, self._filled(limit, now_ms))

    def give_back(self, limit: Limit, amount: float, now_ms: float) -> None:
        """Undo a use that came to nothing."""
        bucket = self._filled(limit, now_ms)
        bucket.left = min(limit.burst, bucket.left + amount)

    def _filled(self, limit: Limit, now_ms: float) -> _Bucket:
        buckets = self._buckets
        bucket = buckets.get(limit.key)
        if bucket is None:
            if len(buckets) >= BUCKETS_MAX:
                buckets.popitem(last=False)
            bucket = buckets[limit.key] = _Bucket(limit.burst, now_ms)
            return bucket
        buckets.move_to_end(limit.key)
        gained = (now_ms - bucket.at_ms) * limit.rate / 1000
        bucket.left = min(limit.burst, bucket.left + gained)
        bucket.at_ms = now_ms
        return bucket

    def __len__(self) -> int:
        """Return how many buckets are kept."""
        return len(self._buckets)


def _wait_ms(limit: Limit, bucket: _Bucket) -> int:
    if bucket.left >= 0:
        return 0
    wait_ms = -bucket.left / limit.rate * 1000
    return max(1, round(min(limit.wait_ms_max, wait_ms)))
