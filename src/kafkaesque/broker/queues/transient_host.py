"""A queue in this broker's memory alone: the same engine and table, without a log (ADR 45).

The table leads from the beginning, and nobody follows it. A turn ends in the next one of the loop:
all that was appended and asked until then is decided, and is committed at once.
"""

from typing import Final

from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.queues.host import HostParts, QueueHost
from kafkaesque.broker.queues.memory_log import (
    MESSAGE_OVERHEAD_BYTES,
    Memory,
    MemoryBodies,
    MemoryLog,
)
from kafkaesque.broker.queues.put_batches import PutBatch
from kafkaesque.broker.queues.queue_log import QueueLog
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import Offset
from kafkaesque.queues import requests as r
from kafkaesque.tables.logged import Logged

_FULL: Final = r.Admission(r.Verdict.FULL)


class TransientHost(QueueHost):
    """See the module."""

    def __init__(self, state: PartitionState, parts: HostParts, memory: Memory) -> None:
        super().__init__(state, parts)
        self.log = MemoryLog(memory, parts.clock.wall_ms, self._on_appended)
        self.bodies = MemoryBodies(self.log)
        self.queue.lead(self._instant())
        self._disuse.begin(self.queue, self.now(), is_first=True)
        # The queue is empty, and its options hold before the first message comes.
        self._log_snapshot()
        self._is_configured()
        self._on_turn_end()

    # -- see `QueueHost`

    def partition(self) -> QueueLog:
        """Return the log.

        Raises:
            NotLeader: the queue is gone.
        """
        if not self.queue.is_leading:
            raise NotLeader("the queue is gone")
        return self.log

    def keep_put(self, batch: PutBatch, appended: bytearray, *, has_references: bool) -> None:
        # All of it is in memory.
        pass

    @property
    def is_led(self) -> bool:
        return self.queue.is_leading

    @property
    def admits_all(self) -> bool:
        # Most messages are far from the bound: only close to it each is asked for.
        return super().admits_all and self.log.has_room(self.log.queue_bytes_max // 2)

    def admit(self, identities: list[bytes], sizes: list[int]) -> list[r.Admission]:
        needed = sum(sizes) + MESSAGE_OVERHEAD_BYTES * len(sizes)
        if not self.log.has_room(needed):
            self._forget_done(is_pressed=True)
            if not self.log.has_room(needed):
                return [_FULL] * len(sizes)
        return super().admit(identities, sizes)

    def start_held_at(self) -> Offset | None:
        return None

    def on_following(self) -> None:
        super().on_following()
        self.log.close()

    # -- turns

    def _on_appended(
        self, header: BatchHeader, data: bytearray | memoryview, base_offset: Offset
    ) -> None:
        self.follow(header, data, base_offset, None)

    def _ask_turn(self) -> None:
        if not self._is_turn_asked and self.queue.is_leading:
            self._is_turn_asked = True
            self._clock.call_soon(self._on_turn_end)

    def _on_turn_end(self) -> None:
        super()._on_turn_end()
        if not self.queue.is_leading:
            return
        log = self.log
        if log.high_watermark < log.end_offset or log.has_waiting:
            log.commit()
            self.on_committed(log.high_watermark)
            self._forget_done(is_pressed=False)

    def _log(self, logged: Logged) -> None:
        base_offset, next_offset = self.log.note_decided()
        self.table.on_logged(logged, base_offset, next_offset)

    def _do_ready(self) -> None:
        # Nobody else can lead, so nothing has to be confirmed.
        for effect in (*self.table.take_ready(), *self.table.take_unconfirmed()):
            self._do(effect)

    def _forget_done(self, *, is_pressed: bool) -> None:
        state = self.queue.state
        self.log.forget_done(
            state.floor, state.live.count, state.live.__contains__, is_pressed=is_pressed
        )
