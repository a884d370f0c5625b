"""Checksums of pieces from checksums of what lies before their ends."""

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.checksum import crc32c, shifted


@given(st.binary(max_size=70_000), st.integers(0, 2**32 - 1))
def test_what_comes_before_counts_as_if_zeros_followed(data: bytes, value: int) -> None:
    assert crc32c(data, value) == shifted(value, len(data)) ^ crc32c(data)


def test_long_pieces() -> None:
    data = bytes(range(256)) * 4096 * 17
    assert crc32c(data, 12345) == shifted(12345, len(data)) ^ crc32c(data)
