"""What is wrong, as a person on call wants to hear it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

#: Names that a sentence lists; the rest is counted.
NAMED_MAX = 8


class Severity(Enum):
    """How soon somebody has to act."""

    #: Clients are refused or data is in danger now.
    CRITICAL = "critical"
    #: The next failure would be worse than it has to be.
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong."""

    #: Names the kind, and its paragraph in docs/operations.md.
    check: str
    severity: Severity
    #: What is the matter, in one sentence.
    what: str
    cause: str
    #: What helps, to be typed.
    command: str
    #: All that it is about: partitions, brokers, groups.
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From where on something is a finding."""

    disk_free_percent: float = 15.0
    clock_s: float = 1.0
    lag_s: float = 300.0
    lag_messages: int = 1
    transaction_s: float = 900.0
    certificate_days: float = 30.0
    open_files_min: int = 4096
    #: A partition that is being recovered has a leader within seconds, if it gets one at all.
    recovery_s: float = 30.0
    #: Dead letters that have come within so long are news.
    dead_letter_s: float = 3600.0


def named(names: Sequence[object]) -> str:
    """Return some names as words."""
    words = ", ".join(str(each) for each in names[:NAMED_MAX])
    more = len(names) - NAMED_MAX
    return f"{words} and {more} more" if more > 0 else words


def in_words(nodes: Sequence[int]) -> str:
    """Return brokers by their numbers."""
    return ("broker " if len(nodes) == 1 else "brokers ") + ", ".join(map(str, nodes))
