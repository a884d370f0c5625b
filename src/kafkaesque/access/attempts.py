"""Guessing made slow: refusals that come later and later, and no account that is ever locked.

Failures are counted for an address (IPv4 by itself, IPv6 by its /64) and for a user from an
address. Each makes the next refusal of the same one come later, one after the other however many
connections ask at once; when too many refusals are due, further attempts are turned away unread.
Whoever comes from elsewhere, or knows the password, notices nothing.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from kafkaesque.access.networks import read_address
from kafkaesque.model.errors import ConfigError

_IPV6_HOST_BITS: Final = 64
_KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptConfig:
    """How much slower it becomes.

    Raises:
        ConfigError: out of range, or values that contradict each other.
    """

    #: Failures that cost nothing, of a user from an address; people mistype.
    free_failures: int = 3
    #: And of an address: behind one may be many people.
    free_failures_of_address: int = 20
    #: The first late refusal; it doubles with each.
    delay_ms_min: int = 250
    delay_ms_max: int = 30_000
    #: After so long without a failure nothing is remembered.
    forgotten_after_ms: int = 15 * 60_000
    #: When refusals are due for so long ahead, attempts are turned away.
    backlog_ms_max: int = 60_000
    #: Addresses, and users from addresses, that are remembered: each so many.
    entries_max: int = 10_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < (0 if name.startswith("free") else 1):
                raise ConfigError(f"{name}={getattr(self, name)} is too small")
        if self.delay_ms_min > self.delay_ms_max:
            raise ConfigError("delay_ms_min is above delay_ms_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """What is remembered of one address, or of one user from one address."""

    failures: int = 0
    newest_ms: int = 0
    #: When the refusal that is due last will have been given.
    busy_until_ms: int = 0


class Attempts:
    """What one broker remembers of log-ins that failed."""

    __slots__ = ("_addresses", "_config", "_users")

    def __init__(self, config: AttemptConfig) -> None:
        self._config = config
        self._addresses = _Troubles(config)
        self._users = _Troubles(config)

    def may_try(self, host: str, user: str, now_ms: int) -> bool:
        """Tell whether an attempt is to be looked at; if not, the connection is to be closed.

        `user` is empty as long as the client has not named one.
        """
        place = group_of(host)
        return not (
            self._addresses.is_overdue(place, now_ms)
            or (user and self._users.is_overdue(_user_key(place, user), now_ms))
        )

    def on_failure(self, host: str, user: str, now_ms: int) -> int:
        """Count a failure, and return in how many milliseconds the refusal is to be sent."""
        place, config = group_of(host), self._config
        until_ms = self._addresses.add(place, config.free_failures_of_address, now_ms)
        if user:
            of_user = self._users.add(_user_key(place, user), config.free_failures, now_ms)
            until_ms = max(until_ms, of_user)
        return max(0, until_ms - now_ms)

    def on_success(self, host: str, user: str) -> None:
        """Forget what was counted for the user from there; not what was for the address.

        Otherwise one account of one's own would wash off the guesses at all others.
        """
        self._users.forget(_user_key(group_of(host), user))


class _Troubles:
    """A bounded table; what has rested longest leaves first."""

    __slots__ = ("_config", "_entries")

    def __init__(self, config: AttemptConfig) -> None:
        self._config = config
        self._entries: OrderedDict[str | bytes, _Trouble] = OrderedDict()

    def is_overdue(self, key: str | bytes, now_ms: int) -> bool:
        """Tell whether refusals are due for longer than is allowed."""
        entry = self._entries.get(key)
        return entry is not None and entry.busy_until_ms - now_ms > self._config.backlog_ms_max

    def add(self, key: str | bytes, free_failures: int, now_ms: int) -> int:
        """Count a failure, and return when it is to be told."""
        config = self._config
        entry = self._entries.pop(key, _Trouble())
        if now_ms - entry.newest_ms >= config.forgotten_after_ms:
            entry = _Trouble()
        failures = entry.failures + 1
        delay_ms = 0
        if failures > free_failures:
            doublings = min(failures - free_failures - 1, 32)
            delay_ms = min(config.delay_ms_min << doublings, config.delay_ms_max)
        until_ms = max(now_ms, entry.busy_until_ms) + delay_ms
        self._entries[key] = replace(
            entry, failures=failures, newest_ms=now_ms, busy_until_ms=until_ms
        )
        while len(self._entries) > config.entries_max:
            self._entries.popitem(last=False)
        return until_ms

    def forget(self, key: str | bytes) -> None:
        """Forget all of it."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)


def _user_key(place: str, user: str) -> bytes:
    # A name may be as long as a message; what is remembered has one length.
    return hashlib.blake2b(f"{place} {user}".encode(), digest_size=_KEY_BYTES).digest()


def group_of(host: str) -> str:
    """Return what an address is counted as: itself, or its /64, which one person has whole."""
    address = read_address(host)
    if address is None:
        return host
    number = address.number
    if address.version == 6:
        number = number >> _IPV6_HOST_BITS
    return f"{address.version}/{number:x}"
