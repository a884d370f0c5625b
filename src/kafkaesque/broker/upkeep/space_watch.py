"""Tells when the disk has too little space for records, and when it has enough again.

It also notices a disk that is gone, of which nobody may have any need for a long time.
"""

from kafkaesque.broker.life import Life
from kafkaesque.broker.reports import Reports
from kafkaesque.model.ids import NodeId
from kafkaesque.model.log_line import LogLine
from kafkaesque.storage.log_store import LogStore


class SpaceWatch:
    """Looks on every sweep."""

    def __init__(
        self,
        *,
        store: LogStore,
        data_dir: str,
        node: NodeId,
        reports: Reports,
        life: Life,
    ) -> None:
        self._store = store
        self._data_dir = data_dir
        self._node = node
        self._reports = reports
        self._life = life
        #: What was told, if that holds still.
        self._told = False

    @property
    def reason(self) -> str | None:
        """Why this broker takes no records, in one sentence; None if it does."""
        refusal = self._store.refusal
        if refusal is None:
            return None
        place = self._data_dir or "the data directory"
        return (
            f"broker {self._node} takes no records: {refusal}: remove other files from the disk"
            f" of {place}, let topics keep less (kafkaesque topic alter TOPIC --config"
            " retention.bytes=BYTES) or delete some; it then resumes by itself"
        )

    def on_sweep(self) -> None:
        """Tell what has changed."""
        if self._life.failure is not None:
            return
        self._store.look_at_disk()
        if self._store.failure is not None:
            return  # The broker hears of that, and tells it.
        reason = self.reason
        if (reason is not None) == self._told:
            return
        self._told = reason is not None
        if reason is not None:
            self._reports.error(LogLine("disk.full", reason))
        else:
            sentence = f"broker {self._node} accepts records again: its disk has enough space"
            self._reports.info(LogLine("disk.room", sentence))
