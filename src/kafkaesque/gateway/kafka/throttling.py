"""Client quotas at work: what requests use, and clients that have to wait (KIP-13, KIP-124).

What a Produce request brings is taken when it comes, what a Fetch gives when it is answered, and
the loop's time as far as a request has kept it busy by itself. The answer comes at once and says
for how long its client is throttled; for that long the connection is not read from (KIP-219). Where
no quota is set, a request meets one flag that is not up.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafkaesque.broker.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kafkaesque.chassis.quota_table import Limit
from kafkaesque.chassis.quotas import Quotas
from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.protocols.kafka.api import ApiKey, RequestHeader
from kafkaesque.protocols.kafka.throttle_time import with_throttle_time

#: A loop that is busy for a second has used 100 percent of a second.
_PERCENT_S_PER_NS: Final = 100 / 1e9


class Meter:
    """What one request uses of its client's quotas."""

    __slots__ = (
        "_at_ns",
        "_header",
        "_is_begun",
        "_limits",
        "_mute_client",
        "_quotas",
        "_until_ms",
    )

    def __init__(
        self,
        quotas: Quotas,
        limits: Mapping[str, Limit],
        header: RequestHeader,
        mute_client: Callable[[int], None],
    ) -> None:
        """`mute_client` has the request's client not read from for so many milliseconds."""
        self._quotas = quotas
        self._limits = limits
        self._header = header
        self._mute_client = mute_client
        #: Up to when the loop's time has been taken.
        self._at_ns = 0
        self._is_begun = False
        #: Until when the client has to wait, as far as that is known.
        self._until_ms = 0

    def begin(self, size: int) -> None:
        """The request has come, with so many bytes."""
        if REQUEST_PERCENTAGE in self._limits:
            self._at_ns = self._quotas.clock.now_ns()
        if self._header.api_key == ApiKey.PRODUCE:
            self._use(PRODUCER_BYTE_RATE, size)

    def on_begun(self) -> None:
        """Its handler has returned; the answer may have been given already, or may come later."""
        self._take_time()
        self._is_begun = True
        self._mute()

    @property
    def fetch_bytes_max(self) -> int | None:
        """How many bytes one Fetch may give: what the quota gives in a burst."""
        limit = self._limits.get(CONSUMER_BYTE_RATE)
        return None if limit is None else int(limit.burst)

    def on_fetched(self, size: int) -> None:
        """A Fetch is answered with so many bytes."""
        self._use(CONSUMER_BYTE_RATE, size)

    def refuses_mutation(self) -> bool:
        """Whether the client has to wait before it creates or deletes anything more (KIP-599)."""
        limit = self._limits.get(CONTROLLER_MUTATION_RATE)
        if limit is None:
            return False
        until_ms = self._quotas.waits_until_ms(limit)
        self._until_ms = max(self._until_ms, until_ms)
        return until_ms > 0

    def on_mutations(self, count: int) -> None:
        """Partitions are created or deleted."""
        self._use(CONTROLLER_MUTATION_RATE, count)

    def on_answer(self) -> int:
        """The answer is there: return for how long the client is throttled from now on."""
        if not self._is_begun:
            self._take_time()
        return self._mute()

    def write_into(self, parts: Sequence[Buffer | FileRange]) -> Sequence[Buffer | FileRange]:
        """Return an answer's parts with the time that its client is throttled."""
        throttle_ms = self.on_answer()
        if not throttle_ms:
            return parts
        key, version = self._header.api_key, self._header.api_version
        return with_throttle_time(key, version, parts, throttle_ms)

    def _mute(self) -> int:
        """Have the client wait, and return for how long from now on."""
        if not self._until_ms:
            return 0
        left_ms = self._until_ms - self._quotas.clock.now_ms()
        if left_ms <= 0:
            # The answer took longer than that, and its connection was not read from meanwhile.
            return 0
        self._mute_client(left_ms)
        self._quotas.note_throttled(left_ms)
        return left_ms

    def _take_time(self) -> None:
        if self._at_ns:
            at_ns, self._at_ns = self._at_ns, self._quotas.clock.now_ns()
            self._use(REQUEST_PERCENTAGE, (self._at_ns - at_ns) * _PERCENT_S_PER_NS)

    def _use(self, name: str, amount: float) -> None:
        limit = self._limits.get(name)
        if limit is not None and amount:
            self._until_ms = max(self._until_ms, self._quotas.use(limit, amount))
