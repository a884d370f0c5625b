"""What a message says of itself in its headers: to the queue, and where it is a dead letter."""

import json
from collections.abc import Sequence
from typing import Final

from kafkaesque.sim.queues.history import Sent

#: As docs have them: these names are the protocol, not the broker's code.
PRIORITY: Final = "kafkaesque.priority"
GROUP: Final = "kafkaesque.group"
NOT_BEFORE: Final = "kafkaesque.not-before"
NOT_AFTER: Final = "kafkaesque.not-after"
IDENTITY: Final = "kafkaesque.identity"
DEATH: Final = "kafkaesque.death"


def headers_of(sent: Sent) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a message that is to be put."""
    said = (
        (PRIORITY, b"%d" % sent.priority if sent.priority else b""),
        (GROUP, sent.group),
        (NOT_BEFORE, b"%d" % sent.not_before_ms if sent.not_before_ms else b""),
        (NOT_AFTER, b"%d" % sent.not_after_ms if sent.not_after_ms else b""),
        (IDENTITY, sent.identity),
    )
    return tuple((name, value) for name, value in said if value)


def deaths_of(
    headers: Sequence[tuple[str, bytes | None]],
) -> tuple[tuple[str, str, int], ...]:
    """Return queue, reason and attempts of each time that a message was given up."""
    said = [json.loads(value or b"") for name, value in headers if name == DEATH]
    return tuple((each["queue"], each["reason"], each["attempts"]) for each in said)
