"""Which partition coordinates what has a name: a group, a transactional id."""

from struct import iter_unpack

_INT32_MIN = -(2**31)


def java_string_hash(text: str) -> int:
    """Return what `java.lang.String.hashCode` gives, as a signed 32-bit number.

    It runs over UTF-16 code units, so a character beyond the basic plane counts as two.
    """
    code = 0
    for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - 2**32 if code >= 2**31 else code


def coordinator_partition(name: str, partition_count: int) -> int:
    """Return the partition that a group, or a transactional id, belongs to.

    The hash's absolute value is taken, and 0 for the one that has none. (Producers' partitioner
    masks the sign bit instead: the two differ for half of all names.)
    """
    if partition_count < 1:
        raise ValueError(f"partition_count must be at least 1, not {partition_count}")
    code = java_string_hash(name)
    return 0 if code == _INT32_MIN else abs(code) % partition_count
