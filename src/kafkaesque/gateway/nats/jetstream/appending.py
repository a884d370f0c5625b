"""What is appended to a stream: messages, under their publishers' conditions, and removals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.gateway.nats.jetstream.configs import StreamConfig
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.records import (
    Demands,
    message_record,
    removal_record,
)
from kafkaesque.gateway.nats.jetstream.stream_log import Batch
from kafkaesque.gateway.nats.jetstream.view import Removal, View

#: Called with a message's sequence and whether it was there before; or with why it is not there,
#: None if nobody knows.
OnStored = Callable[[tuple[int, bool] | ApiError | None], None]
#: Called with how many messages are gone, or why none is.
OnRemoved = Callable[[int | ApiError | None], None]


class StoreMessage:
    """A message on its way into a stream."""

    __slots__ = ("_config", "_demands", "_headers", "_on_stored", "_payload", "_subject", "size")

    def __init__(
        self,
        config: StreamConfig,
        subject: str,
        headers: bytes,
        payload: bytes,
        demands: Demands,
        on_stored: OnStored,
    ) -> None:
        self._config: Final = config
        self._subject: Final = subject
        self._headers: Final = headers
        self._payload: Final = payload
        self._demands: Final = demands
        self._on_stored: Final = on_stored
        self.size: Final = len(subject) + len(headers) + len(payload)

    @property
    def needs_view(self) -> bool:
        """See `Append`."""
        config = self._config
        is_bounded = config.discard == "new" and (config.max_msgs > 0 or config.max_bytes > 0)
        return self._demands.needs_view or is_bounded

    def depends_on(self, batch: Batch) -> bool:
        """See `Append`."""
        demands = self._demands
        if not self.needs_view:
            return False
        if demands.last is not None or demands.last_id or self._config.discard == "new":
            return bool(batch.records)
        if demands.message_id and demands.message_id in batch.ids:
            return True
        return demands.last_of_subject is not None and self._subject in batch.subjects

    def plan(self, batch: Batch, now_ms: int, view: View) -> Callable[[], None] | None:
        """See `Append`."""
        if self.needs_view:
            before = self._duplicate_of(view, now_ms)
            if before is not None:
                sequence = before
                return lambda: self._on_stored((sequence, True))
            self._check(view)
        number, rollup = len(batch.records), self._demands.rollup
        batch.records.append(
            message_record(number, now_ms, self._subject, self._headers, self._payload, rollup)
        )
        batch.subjects.add(self._subject)
        if self._demands.message_id:
            batch.ids.add(self._demands.message_id)
        return None

    def _duplicate_of(self, view: View, now_ms: int) -> int | None:
        message_id = self._demands.message_id
        return view.sequence_of_id(message_id, now_ms) if message_id else None

    def _check(self, view: View) -> None:
        demands, config = self._demands, self._config
        if demands.last is not None and demands.last != view.last_sequence:
            what = f"wrong last sequence: {view.last_sequence}"
            raise ApiError(ApiCode.LAST_SEQUENCE, what)
        if demands.last_of_subject is not None:
            last = view.last_of(self._subject)
            if last != demands.last_of_subject:
                raise ApiError(ApiCode.LAST_SEQUENCE, f"wrong last sequence: {last}")
        if demands.last_id and demands.last_id != view.last_id:
            raise ApiError(ApiCode.LAST_ID, f"wrong last msg ID: {view.last_id}")
        if config.discard == "new":
            # One that takes the place of its subject's oldest one does not make it fuller.
            most = config.max_msgs_per_subject
            is_in_place = 0 < most <= view.count_of(self._subject)
            if 0 < config.max_msgs <= view.message_count and not is_in_place:
                raise ApiError(ApiCode.STREAM_FULL)
            if 0 < config.max_bytes < view.byte_count + self.size:
                raise ApiError(ApiCode.STREAM_FULL, "maximum bytes exceeded")

    def on_done(self, sequence: int, view: View) -> None:
        """See `Append`."""
        self._on_stored((sequence, False))

    def on_failed(self, error: ApiError | None) -> None:
        """See `Append`."""
        self._on_stored(error)


class Remove:
    """Messages that are to go."""

    __slots__ = ("_count", "_on_removed", "_removal")

    needs_view: Final = True
    size: Final = 100

    def __init__(self, removal: Removal, on_removed: OnRemoved) -> None:
        self._removal: Final = removal
        self._on_removed: Final = on_removed
        self._count = 0

    def depends_on(self, batch: Batch) -> bool:
        """See `Append`."""
        return bool(batch.records)

    def plan(self, batch: Batch, now_ms: int, view: View) -> Callable[[], None] | None:
        """See `Append`."""
        removal = self._removal
        if removal.before == 0:
            missing = [each for each in removal.sequences if not view.has(each)]
            if missing:
                raise ApiError(ApiCode.NO_MESSAGE)
            self._count = len(removal.sequences)
        else:
            before = min(removal.before, view.last_sequence)
            self._count = view.count_before(removal.subject, before, removal.keep)
            removal = removal._replace(before=before)
            if not self._count:
                return lambda: self._on_removed(0)
        batch.records.append(removal_record(len(batch.records), now_ms, removal))
        return None

    def on_done(self, sequence: int, view: View) -> None:
        """See `Append`."""
        self._on_removed(self._count)

    def on_failed(self, error: ApiError | None) -> None:
        """See `Append`."""
        self._on_removed(error)
