"""What is seen of transactions."""

from enum import StrEnum


class Isolation(StrEnum):
    """Whether what is not committed counts."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"
