"""Tells when the disk has too little space for records, and when it has enough again.

It also notices a disk that is gone, of which nobody may have any need for a long time.
"""

from typing import TYPE_CHECKING

from kafkaesque.model.log_line import LogLine

if TYPE_CHECKING:
    from kafkaesque.broker.broker import Broker


class SpaceWatch:
    """Looks on every sweep."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        #: What was told, if that holds still.
        self._told = False

    @property
    def reason(self) -> str | None:
        """Why this broker takes no records, in one sentence; None if it does."""
        broker = self._broker
        refusal = broker.store.refusal
        if refusal is None:
            return None
        place = broker.config.data_dir or "the data directory"
        return (
            f"broker {broker.node} takes no records: {refusal}: remove other files from the disk of"
            f" {place}, let topics keep less (kafkaesque topic alter TOPIC --config"
            " retention.bytes=BYTES) or delete some; it goes on by itself"
        )

    def on_sweep(self) -> None:
        """Tell what has changed."""
        broker = self._broker
        if broker.failure is not None:
            return
        broker.store.look_at_disk()
        if broker.store.failure is not None:
            return  # The broker hears of that, and tells it.
        reason = self.reason
        if (reason is not None) == self._told:
            return
        self._told = reason is not None
        if reason is not None:
            broker.report_error(LogLine("disk.full", reason))
        else:
            sentence = f"broker {broker.node} takes records again: its disk has enough space"
            broker.report(LogLine("disk.room", sentence))
