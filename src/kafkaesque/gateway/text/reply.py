"""The answer to one line."""

from typing import Protocol

from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.text.held import Held


class Reply(Protocol):
    """Where an answer goes; harmless when nobody is there any more."""

    @property
    def is_wanted(self) -> bool:
        """Whether what is written would reach anybody."""

    @property
    def rights(self) -> Rights | None:
        """What its client may do; None: everything."""

    @property
    def held(self) -> Held:
        """What its client has of queues."""

    def write(self, lines: bytes) -> None:
        """Send lines that are not the last of the answer."""

    def end(self, lines: bytes) -> None:
        """Send the last lines of the answer: OK or ERROR. Called exactly once."""
