"""Policies: settings for all queues and exchanges of a virtual host whose names fit a pattern.

Of those that fit, the one of the highest priority counts, alone; of equal ones the one whose name
comes first. Beside it counts one operator's policy, which limits what anybody else may say. What
the settings mean is not known here.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from kafkaesque.model.pattern_errors import reason_of
from kafkaesque.routing.exchanges.errors import BadArgument
from kafkaesque.routing.exchanges.records import PolicyPut

#: Characters of a pattern.
PATTERN_LENGTH_MAX: Final = 1_000


class Pattern(Protocol):
    """A regular expression."""

    def search(self, text: str) -> object:
        """Return a match somewhere in a text; None: there is none."""


class Target(Enum):
    """What a policy may be for; the values are RabbitMQ's words for policies of these alone."""

    EXCHANGE = "exchanges"
    CLASSIC_QUEUE = "classic_queues"
    QUORUM_QUEUE = "quorum_queues"
    STREAM = "streams"


QUEUES: Final = "queues"
ALL: Final = "all"
#: What `apply-to` may say, and what it means.
APPLY_TO: Final[Mapping[str, frozenset[Target]]] = {
    ALL: frozenset(Target),
    QUEUES: frozenset(Target) - {Target.EXCHANGE},
    **{each.value: frozenset({each}) for each in Target},
}


class Applied(NamedTuple):
    """The policies that count for a queue or an exchange."""

    policy: PolicyPut | None = None
    operator: PolicyPut | None = None


def compile_pattern(text: str) -> Pattern:
    """Return a policy's pattern, ready to be asked; its time is bounded, whatever it is.

    Raises:
        BadArgument: it is no regular expression of RE2, or too long a one.
    """
    # Loaded with the first policy.
    import re2

    if len(text) > PATTERN_LENGTH_MAX:
        raise BadArgument(f"a pattern has at most {PATTERN_LENGTH_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        found: Pattern = re2.compile(text, options=options)
    except re2.error as error:
        raise BadArgument(f"{text!r} is no pattern that is supported: {reason_of(error)}") from None
    return found


class _Compiled(NamedTuple):
    definition: PolicyPut
    pattern: Pattern
    targets: frozenset[Target]


#: Whether it is an operator's, and its name.
_Key = tuple[bool, str]


class Policies:
    """The policies of one virtual host. A value: a change makes another one."""

    __slots__ = ("_by_key", "_in_order")

    def __init__(self, by_key: Mapping[_Key, _Compiled] | None = None) -> None:
        self._by_key: Final = dict(by_key or {})
        self._in_order: Final = sorted(
            self._by_key.values(),
            key=lambda each: (-each.definition.priority, each.definition.name),
        )

    def __iter__(self) -> Iterator[PolicyPut]:
        """Return all, in the order in which they count."""
        return (each.definition for each in self._in_order)

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, name: str, *, is_operator: bool) -> PolicyPut | None:
        """Return a policy; None if there is none of the name."""
        found = self._by_key.get((is_operator, name))
        return None if found is None else found.definition

    def with_policy(self, definition: PolicyPut) -> "Policies":
        """Return these with one more, or with another one in its place."""
        compiled = _Compiled(
            definition, compile_pattern(definition.pattern), APPLY_TO[definition.apply_to]
        )
        return Policies({**self._by_key, (definition.is_operator, definition.name): compiled})

    def without(self, name: str, *, is_operator: bool) -> "Policies":
        """Return these without one; it need not be there."""
        left = dict(self._by_key)
        left.pop((is_operator, name), None)
        return Policies(left)

    def find(self, target: Target, name: str) -> Applied:
        """Return what counts for a queue or an exchange."""
        found: dict[bool, PolicyPut] = {}
        for each in self._in_order:
            definition = each.definition
            if (
                definition.is_operator not in found
                and target in each.targets
                and each.pattern.search(name)
            ):
                found[definition.is_operator] = definition
        return Applied(found.get(False), found.get(True))


NO_POLICIES: Final = Policies()
