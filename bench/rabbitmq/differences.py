"""Where RabbitMQ and we differ, and are meant to.

A session ends at its first difference: behind it both are in another state. If that one is listed
here, it is counted; `docs/amqp.md` argues each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.rabbitmq.comparison import Difference
from bench.rabbitmq.steps import Call, Raw
from kafkaesque.protocols.amqp import methods as m

#: Steps of a session from which nothing more can be left out.
SHORT_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A difference that is meant."""

    name: str
    #: Tells it by the last step, and by what both have said to it.
    is_it: Callable[[Difference], bool]


def _is_raw(*what: str) -> Callable[[Difference], bool]:
    def is_it(found: Difference) -> bool:
        step = found.steps[-1]
        return isinstance(step, Raw) and step.what in what

    return is_it


def _is_deletion_if_empty(found: Difference) -> bool:
    step = found.steps[-1]
    is_asked = isinstance(step, Call) and isinstance(step.method, m.QueueDelete)
    return is_asked and any(line.endswith("not empty") for line in found.ours)


def _with_argument(name: str) -> Callable[[Difference], bool]:
    """Tell a short session in which a queue is declared with an argument, and counts differ."""

    def is_it(found: Difference) -> bool:
        declared = [
            each.method.arguments
            for each in found.steps
            if isinstance(each, Call) and isinstance(each.method, m.QueueDeclare)
        ]
        is_short = len(found.steps) <= SHORT_MAX
        return is_short and any(name in arguments for arguments in declared)

    return is_it


KNOWN: Final[tuple[Known, ...]] = (
    Known(
        name="properties that cannot be read: RabbitMQ says 541, as of an error of its own; we 502",
        is_it=_is_raw("properties that are cut"),
    ),
    Known(
        name="a method that cannot be read: RabbitMQ says 501, we say 502",
        is_it=_is_raw("a method that is cut", "a table that is cut"),
    ),
    Known(
        name="a class or method that nobody knows: RabbitMQ hangs up without a word; we say 503",
        is_it=_is_raw("an unknown class", "an unknown method"),
    ),
    Known(
        name="a channel's number above channel_max: RabbitMQ only counts open ones; we say 530",
        is_it=_is_raw("a channel above the maximum"),
    ),
    Known(
        name="deletion if empty: RabbitMQ does not count what consumers have; we do",
        is_it=_is_deletion_if_empty,
    ),
    Known(
        name="x-max-length-bytes: RabbitMQ counts bodies; we count what a message takes",
        is_it=_with_argument("x-max-length-bytes"),
    ),
    Known(
        name="a message that dies in a circle: RabbitMQ drops it; we keep it, up to 64 rounds",
        is_it=_with_argument("x-message-ttl"),
    ),
)


def known(found: Difference) -> Known | None:
    """Return which known difference this is."""
    return next((each for each in KNOWN if each.is_it(found)), None)
