"""Whom a broker has refused something of late: for people who ask why nothing comes."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal

#: The newest; each is a few hundred bytes.
REFUSALS_MAX: Final = 200
#: A longer name is no resource's.
NAME_LENGTH_MAX: Final = 1_000


class Refusal(NamedTuple):
    """Somebody was refused something; the newest time of many."""

    principal: Principal
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str
    #: Unix time in milliseconds.
    at_ms: int


class Refusals:
    """The newest refusals, one of each kind."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: Final[OrderedDict[tuple[object, ...], Refusal]] = OrderedDict()

    def note(self, refusal: Refusal) -> None:
        """Keep it; the oldest goes if there are too many."""
        if len(refusal.name) > NAME_LENGTH_MAX:
            return
        key = refusal[:-1]
        self._kept.pop(key, None)
        self._kept[key] = refusal
        if len(self._kept) > REFUSALS_MAX:
            self._kept.popitem(last=False)

    def newest(self) -> Sequence[Refusal]:
        """Return them, the newest first."""
        return list(reversed(self._kept.values()))
