"""How far a group is behind."""


def lag_of(end_offset: int, committed: int) -> int:
    """Return how many offsets lie between what a group has committed and the end of a log.

    Clients may commit any number: none lies before the log's beginning, or after its end. Sums of
    lags stay within what brokers can write to each other.
    """
    return max(0, end_offset - max(0, committed))
