"""How long to wait so that so many bytes per second are read and written on average."""

#: Who was kept from work, by others or by the work itself, makes up for this much of the time.
CATCH_UP_MS_MAX = 100


class Pace:
    """Bytes that were taken, and when they are due."""

    __slots__ = ("_owed_bytes", "_owed_since_ms")

    def __init__(self, now_ms: int) -> None:
        #: What was taken too early, as of a time.
        self._owed_bytes = 0.0
        self._owed_since_ms = now_ms

    def take(self, size_bytes: int) -> None:
        """Note that bytes were read or written."""
        self._owed_bytes += size_bytes

    def wait_ms(self, now_ms: int, bytes_per_s: float) -> float:
        """Return how long it takes until what was taken is due; not above 0 if it is.

        The speed may be another one each time: it counts for the time since the last call.
        """
        owed_ms = self._owed_bytes / bytes_per_s * 1000 - (now_ms - self._owed_since_ms)
        owed_ms = max(owed_ms, -CATCH_UP_MS_MAX)
        self._owed_bytes, self._owed_since_ms = owed_ms / 1000 * bytes_per_s, now_ms
        return owed_ms
