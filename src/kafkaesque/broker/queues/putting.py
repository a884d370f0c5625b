"""Appending messages to a queue, at the leader of its log."""

from collections.abc import Callable, Sequence

from kafkaesque.broker.partitions.batch_checks import LongCheck
from kafkaesque.broker.queues.host import HostParts, QueueHost, refusal_of
from kafkaesque.broker.queues.put_batches import PutBatch
from kafkaesque.broker.queues.unheeded import unheeded
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.broker.requests.queue_requests import (
    MovedResult,
    MoveMessages,
    PutMessages,
    PutResult,
)
from kafkaesque.model.batch import BatchHeader, read_batch_header
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    NotLeader,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.message_headers import (
    DEATH,
    IDENTITY,
    LOG_REFERENCE,
    ORIGIN,
    STAGED,
)
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.queues import requests as r
from kafkaesque.queues.requests import ADMITTED, Verdict

#: A message for which there is no room.
FULL = -1
#: How long a message that would be refused waits for the options that hold.
OPTIONS_MS_MAX = 5_000
_OF_BROKERS = (DEATH, ORIGIN, STAGED, LOG_REFERENCE)
_BUT_REFERENCES = (DEATH, ORIGIN, STAGED)
_BYTES_MAX = 64 * 1024 * 1024

OnPut = Callable[[PutResult | RequestRefused], None]
OnMoved = Callable[[MovedResult | RequestRefused], None]


class Putting:
    """One request to append messages.

    A refusal says that nothing was appended; `RequestTimedOut` that nobody knows.
    """

    __slots__ = (
        "_batch",
        "_has_references",
        "_host",
        "_is_strict",
        "_offsets",
        "_on_done",
        "_overflowing",
        "_parts",
        "_records",
        "_timeout_ms",
    )

    def __init__(
        self, host: QueueHost, parts: HostParts, request: PutMessages, on_done: OnPut
    ) -> None:
        self._host = host
        self._parts = parts
        #: What is appended, as it came; None: it was changed.
        self._batch: PutBatch | None = parts.batches.read(request.records)
        self._records = bytearray(request.records)
        self._timeout_ms = request.timeout_ms
        self._is_strict = request.is_strict is True
        self._has_references = request.has_references is True
        self._on_done = on_done
        #: Where each message is; None: where the appended batch will say.
        self._offsets: list[int | None] = []
        #: Messages at the batch's end that are refused, and appended to become dead letters.
        self._overflowing = 0

    def begin(self) -> bool:
        """Append what may be; tell whether that is done: what is put next comes behind it.

        Raises:
            RequestRefused: nothing was appended.
        """
        header = read_batch_header(self._records)
        if header.is_compressed or header.is_control or header.producer_id >= 0:
            raise InvalidRecord("messages for a queue come in a plain batch without compression")
        words = _BUT_REFERENCES if self._has_references else _OF_BROKERS
        if self._batch is not None and self._batch.may_say_words:
            found = _without_words_of_brokers(self._records, words)
            if found is not self._records:
                self._records, self._batch = found, None
        if self._is_strict and unheeded(self._records, self._host.policy):
            # Its options may have been changed a moment ago, and this broker may not know yet.
            self._host.when_options_are_known(OPTIONS_MS_MAX, self._append_if_heeded)
            return False
        return self._append(None)

    def _append_if_heeded(self, is_known: bool) -> None:
        why = unheeded(self._records, self._host.policy)
        try:
            if not is_known:
                raise LeaderNotAvailable("the queue's options could not be read in time")
            if why:
                raise InvalidRequest(why)
            self._append(None)
        except RequestRefused as refusal:
            self._on_done(refusal)

    def _append(self, checked: LongCheck | None) -> bool:
        partition = self._host.partition()
        if not self._host.admits_all:
            before = self._records
            self._admit()
            if self._records is not before:
                checked = None
            if not self._records:
                self._confirm_without_append()
                return False
        header = read_batch_header(self._records)
        check = partition.produce(
            self._records,
            acks=-1,
            timeout_ms=self._timeout_ms,
            on_done=lambda outcome: self._on_appended(header, outcome),
            checked=checked,
        )
        if check is not None:
            self._parts.checks.run(check, lambda: self._append_checked(check))
            return False
        is_whole = header.record_count == header.last_offset_delta + 1
        if self._batch is not None and is_whole:
            has_references = self._has_references
            self._host.keep_put(self._batch, self._records, has_references=has_references)
        if self._overflowing:
            # At once: nobody may have them.
            token, end = self._host.new_token(), self._host.queue.state.end
            first = end - self._overflowing
            self._host.ask(r.Overflowed(token=token, first=first, end=end), lambda _: None)
        return True

    def _append_checked(self, check: LongCheck) -> None:
        try:
            self._append(check)
        except RequestRefused as refusal:
            self._on_done(refusal)

    def _admit(self) -> None:
        """Ask the engine for each message, and keep those that may be appended."""
        batch = self._batch or PutBatch(bytes(self._records))
        whole, count = batch.records, len(batch.records) - self._overflowing
        records = whole[:count]
        admissions = self._host.admit(batch.identities[:count], batch.sizes[:count])
        if not self._offsets and admissions.count(ADMITTED) == count:
            return
        kept = _having(Verdict.ADMITTED, records, admissions)
        offsets = places(admissions)
        # A batch that was thinned out before, and checked off the loop, is thinned out once more.
        self._offsets = _merged(self._offsets, offsets) if self._offsets else offsets
        if len(kept) == len(records):
            return
        if self._host.keeps_refused:
            refused = _having(Verdict.FULL, records, admissions)
            # What was refused is no original of what is sent again.
            late = [_without(IDENTITY, each) for each in refused] + whole[len(records) :]
            self._overflowing = len(late)
            kept += late
        numbered = [each._replace(offset=number) for number, each in enumerate(kept)]
        self._records = encode_batch(numbered) if numbered else bytearray()
        self._batch = None

    def _confirm_without_append(self) -> None:
        """All were duplicates, or there was no room: say so when the originals are committed."""

        def on_answer(answer: r.Answer) -> None:
            if isinstance(answer, r.Refused):
                self._on_done(refusal_of(answer))
            else:
                self._on_done(PutResult([FULL if each is None else each for each in self._offsets]))

        self._host.ask_engine(r.Settle(token=self._host.new_token(), claims=()), on_answer)

    def _on_appended(self, header: BatchHeader, outcome: ProduceResult | RequestRefused) -> None:
        if isinstance(outcome, RequestTimedOut):
            self._on_done(outcome)
        elif isinstance(outcome, RequestRefused):
            self._on_done(RequestTimedOut(f"{outcome}; the messages may be in the queue"))
        elif self._offsets:
            self._on_done(PutResult(filled(self._offsets, outcome.base_offset)))
        else:
            base_offset = outcome.base_offset
            self._on_done(PutResult(list(range(base_offset, base_offset + header.record_count))))


def _without_words_of_brokers(batch: bytearray, words: tuple[str, ...]) -> bytearray:
    """Return a batch without what only brokers say of messages: where they were, and are.

    Redriving asks it, so a publisher could say where an administrator's redrive brings messages;
    and by a reference it could read a topic that it has no right to.
    """
    if not any(name.encode() in batch for name in words):
        return batch
    return encode_batch([stripped(record, words) for record in decode_batch(batch, _BYTES_MAX)])


def stripped(record: Record, words: tuple[str, ...] = _OF_BROKERS) -> Record:
    """Return a record without what only brokers say."""
    if not any(name in words for name, _ in record.headers):
        return record
    return record._replace(headers=tuple(h for h in record.headers if h[0] not in words))


def _without(name: str, record: Record) -> Record:
    return record._replace(headers=tuple(each for each in record.headers if each[0] != name))


def _having(
    verdict: Verdict, records: Sequence[Record], admissions: Sequence[r.Admission]
) -> list[Record]:
    """Return the messages of which this was said."""
    said = zip(records, admissions, strict=True)
    return [record for record, admission in said if admission.verdict is verdict]


def places(admissions: Sequence[r.Admission]) -> list[int | None]:
    """Return where each message is; None where it is to be appended, -2 and less for its twin."""
    places: list[int | None] = []
    for admission in admissions:
        if admission.verdict is Verdict.ADMITTED:
            places.append(None)
        elif admission.verdict is Verdict.FULL:
            places.append(FULL)
        elif admission.twin >= 0:
            places.append(-2 - admission.twin)
        else:
            places.append(admission.original)
    return places


def _merged(before: list[int | None], after: list[int | None]) -> list[int | None]:
    """Return places of all messages, where `after` has those of the ones that were to be appended.

    Twins in `after` are counted among these.
    """
    wanted = [number for number, place in enumerate(before) if place is None]
    merged = list(before)
    for number, place in zip(wanted, after, strict=True):
        is_twin = place is not None and place <= -2
        merged[number] = -2 - wanted[-2 - place] if is_twin and place is not None else place
    return merged


def filled(places: list[int | None], base_offset: int) -> list[int]:
    """Return offsets: those that were to be appended stand in order from the base offset on."""
    filled: list[int] = []
    next_offset = base_offset
    for place in places:
        if place is None:
            filled.append(next_offset)
            next_offset += 1
        elif place <= -2:
            filled.append(filled[-2 - place])
        else:
            filled.append(place)
    return filled


class Moving:
    """One request to append messages that come from another queue, each once.

    They have the producer id of the two queues. What is below the next sequence is there already.
    """

    __slots__ = ("_host", "_on_done", "_request")

    def __init__(self, host: QueueHost, request: MoveMessages, on_done: OnMoved) -> None:
        self._host = host
        self._request = request
        self._on_done = on_done

    def begin(self) -> None:
        """Append one after the other; the first that is refused ends it.

        Raises:
            RequestRefused: the first was refused.
        """
        # A limit that the queue has is its publishers': these messages are in the cluster already.
        _ = self._host.admits_all
        count = 0
        for batch in self._request.batches:
            try:
                self._append(bytearray(batch))
            except RequestRefused:
                if not count:
                    raise
                break
            count += 1
        self._answer_at_commit(count)

    def _append(self, batch: bytearray) -> None:
        partition, header = self._host.partition(), read_batch_header(batch)
        expected = partition.producers.next_sequence(header.producer_id, header.producer_epoch)
        if (header.base_sequence - expected) % 2**31 >= 2**30:
            return
        if self._request.may_skip is True and header.base_sequence != expected:
            partition.producers.skip(
                header.producer_id, header.producer_epoch, header.base_sequence
            )
        if partition.produce(batch, acks=0, timeout_ms=0, on_done=_ignore) is not None:
            raise InvalidRecord("a message that is moved comes in a plain batch")

    def _answer_at_commit(self, count: int) -> None:
        def on_answer(answer: r.Answer) -> None:
            if isinstance(answer, r.Refused):
                self._on_done(NotLeader("the queue has another leader"))
            else:
                self._on_done(MovedResult(count))

        self._host.ask_engine(r.Settle(token=self._host.new_token(), claims=()), on_answer)


def _ignore(_: object) -> None:
    """The commit of what was appended is asked for otherwise."""
