"""The quotas of one broker's clients, at all of its ports together (KIP-13, KIP-124, KIP-612)."""

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.metadata.client_quotas import CONNECTION_CREATION_RATE, QuotaEntity
from kafkaesque.broker.metadata.client_quotas import Quotas as QuotasOfEntity
from kafkaesque.chassis.quota_table import Limit, QuotaTable
from kafkaesque.env.clock import Clock


class Quotas:
    """What clients have used of them. Where none is set, a request meets one flag that is down."""

    def __init__(
        self, clock: Clock, source: Callable[[], Mapping[QuotaEntity, QuotasOfEntity]]
    ) -> None:
        """`source` returns the quotas of the cluster's metadata."""
        self.clock = clock
        self._source: Final = source
        self._table: Final = QuotaTable()
        #: Whether a client may have a quota at all: else nobody is metered.
        self.is_active = False
        #: The same for addresses.
        self.is_active_for_hosts = False
        #: Answers that told a client to wait, and for how long in all.
        self.throttled_requests = 0
        self.throttle_ms = 0

    def reload(self) -> None:
        """Take the quotas from the cluster's metadata."""
        quotas = self._source()
        self._table.load(quotas)
        names = {name for values in quotas.values() for name in values}
        self.is_active_for_hosts = CONNECTION_CREATION_RATE in names
        self.is_active = bool(names - {CONNECTION_CREATION_RATE})

    def limits(self, user: str, client_id: str) -> Mapping[str, Limit]:
        """Return what holds for a client, by the quota's name."""
        return self._table.limits(user, client_id)

    def use(self, limit: Limit, amount: float) -> int:
        """Take an amount; return until when to wait, 0 if not at all."""
        now_ms = self.clock.now_ms()
        wait_ms = self._table.use(limit, amount, now_ms)
        return now_ms + wait_ms if wait_ms else 0

    def waits_until_ms(self, limit: Limit) -> int:
        """Return until when to wait for what was taken already, 0 if not at all."""
        now_ms = self.clock.now_ms()
        wait_ms = self._table.wait_ms(limit, now_ms)
        return now_ms + wait_ms if wait_ms else 0

    def note_throttled(self, wait_ms: int) -> None:
        """Count a client that is told, or made, to wait."""
        self.throttled_requests += 1
        self.throttle_ms += wait_ms

    def charge(self, user: str, name: str, amount: float) -> int:
        """Take an amount for a client without an id; return for how long it has to wait."""
        limit = self._table.limits(user, "").get(name)
        if limit is None:
            return 0
        wait_ms = self._table.use(limit, amount, self.clock.now_ms())
        if wait_ms:
            self.note_throttled(wait_ms)
        return wait_ms

    def admit(self, host: str) -> int:
        """Count a new connection of an address; return how long it has to wait, 0 if it may stay.

        One that is refused does not count (KIP-612).
        """
        limit = self._table.ip_limit(host)
        if limit is None:
            return 0
        now_ms = self.clock.now_ms()
        wait_ms = self._table.use(limit, 1, now_ms)
        if wait_ms:
            self._table.give_back(limit, 1, now_ms)
        return wait_ms
