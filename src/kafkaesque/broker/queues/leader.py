"""Serves what clients and other brokers ask of the queues whose logs are led here."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kafkaesque.broker.queues.bodies import Found
from kafkaesque.broker.queues.counting import count, place_name
from kafkaesque.broker.queues.host import HostParts, QueueHost, refusal_of
from kafkaesque.broker.queues.putting import Moving, Putting
from kafkaesque.broker.queues.way_out import CHANGED_BYTES_MAX, CHANGED_MAX
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    RequestRefused,
    RequestTimedOut,
    UnknownQueue,
)
from kafkaesque.model.records import Record
from kafkaesque.queues import requests as r
from kafkaesque.queues.state import Place

#: Messages that one answer has.
TAKEN_MAX = 10_000
#: Bytes that one answer has, but for a single message.
TAKEN_BYTES_MAX = 8 * 1024 * 1024

#: How long others are taken for those that have to be given up, after the time to wait is over;
#: then the answer is empty.
OTHERS_MS = 3_000
#: How long a redrive waits for the options that hold.
OPTIONS_MS_MAX = 5_000

_PERHAPS_TAKEN = "the queue has another leader; messages may have been taken"

#: Gets a result of the request's kind, or why it was not done; called exactly once.
OnDone = Callable[[object], None]


def serve(host: QueueHost, parts: HostParts, request: q.AnyQueueRequest, on_done: OnDone) -> None:
    """Do what is asked; `on_done` gets refusals, too, and may be called at once.

    `NotLeader` and `LeaderNotAvailable` say that nothing was done, or what may be done twice.
    """
    try:
        _serve(host, parts, request, on_done)
    except RequestRefused as refusal:
        on_done(refusal)


def _serve(host: QueueHost, parts: HostParts, request: q.AnyQueueRequest, on_done: OnDone) -> None:
    match request:
        case q.PutMessages():
            Putting(host, parts, request, on_done).begin()
        case q.MoveMessages():
            Moving(host, request, on_done).begin()
        case q.TakeMessages():
            _take(host, parts, request, on_done)
        case q.AttachConsumer():
            _attach(host, request, on_done)
        case q.PeekMessages():
            _peek(host, request, on_done)
        case q.SeekCursor():
            host.seek(request.offset)
            seek = r.Seek(token=host.new_token(), offset=request.offset)
            host.ask_engine(seek, _told(on_done, _done))
        case q.AskQueue(is_committed=True):
            counts = replace(count(host), asked_ms=host.now().wall_ms)
            # Answered behind all that is decided by now.
            barrier = r.Settle(token=host.new_token(), claims=())
            host.ask_engine(barrier, _told(on_done, lambda _: counts))
        case q.AskQueue(is_use=True):
            counts = count(host)
            host.note_use()
            host.ask_engine(r.NoteUse(token=host.new_token()), _told(on_done, lambda _: counts))
        case q.AskQueue(expiry_ms=int(expiry_ms)):
            left_ms = host.disused_in_ms(expiry_ms)
            on_done(replace(count(host), is_disused=not left_ms, disused_in_ms=left_ms))
        case q.AskQueue():
            if request.reads_on is True:
                host.read_on()
            on_done(count(host))
        case q.RedriveQueue(target=target) if target:
            _redrive(host, parts, target, on_done)
        case _:
            asked, answer = _engine_request(host, request)
            is_patient = (
                isinstance(request, q.SettleMessages)
                and request.is_patient
                and not host.queue.state.policy.is_freed_by_settling
            )
            host.ask_engine(asked, _told(on_done, answer), is_patient=is_patient)


def _redrive(host: QueueHost, parts: HostParts, target: str, on_done: OnDone) -> None:
    """Begin to move messages, at the rate that was acknowledged before.

    A broker that lags behind in the cluster's metadata would move all of them at the rate of
    before, and what is on its way cannot be called back.
    """

    def on_metadata(is_current: bool) -> None:
        if not is_current:
            on_done(LeaderNotAvailable("the queue's options could not be read in time"))
            return
        try:
            host.check_target(target)
            request = r.Redrive(token=host.new_token(), target=target)
            host.ask_engine(request, _told(on_done, _done))
        except RequestRefused as refusal:
            on_done(refusal)

    own = parts.metadata.state.queues_by_log.get(host.state.topic_id)
    if own is not None and target == own.queue.name:
        raise InvalidRequest(
            f"messages are in queue {own.queue} already: without a target, a redrive lets its "
            "parked messages be ready again"
        )
    host.partition()
    parts.metadata.when_current(OPTIONS_MS_MAX, on_metadata)


def _engine_request(
    host: QueueHost, request: q.AnyQueueRequest
) -> tuple[r.Request, Callable[[r.Answer], object]]:
    """Return what the engine is asked, and what is made of its answer."""
    token = host.new_token()
    match request:
        case q.SettleMessages():
            claims = tuple(request.claims)
            settle = r.Settle(token=token, claims=claims, may_be_late=request.may_be_late)
            return settle, _claims_result
        case q.ReleaseMessages():
            give_back = r.GiveBack(
                token=token,
                claims=tuple(request.claims),
                is_failed=request.is_failed,
                is_unsent=request.is_unsent,
                to_tail=request.to_tail,
                delay_ms=request.delay_ms,
            )
            return give_back, _claims_result
        case q.RejectMessages():
            return r.Reject(token=token, claims=tuple(request.claims)), _claims_result
        case q.ExtendLocks():
            claims = tuple(request.claims)
            return r.Extend(token=token, claims=claims, lock_ms=request.lock_ms), _claims_result
        case q.DetachConsumer():
            host.consumers.pop(request.consumer, None)
            host.note_use()
            session = session_of(request.consumer)
            return r.Detach(token=token, session=session, is_failed=request.is_failed), _done
        case q.PurgeQueue():
            takes_in_flight = request.takes_in_flight is True
            return r.Purge(token=token, takes_in_flight=takes_in_flight), _done
        case q.RedriveQueue():
            return r.Redrive(token=token, target=request.target), _done
        case q.UnparkMessages():
            return r.Unpark(token=token), _done
        case _:
            raise InvalidRequest(f"{type(request).__name__} is not for the engine")


def session_of(consumer: q.ConsumerName) -> bytes:
    """Return what the engine calls a consumer."""
    return b"%d.%d.%d" % consumer


def consumer_of(session: bytes) -> q.ConsumerName | None:
    """Return whose session it is; None: it has not such a name."""
    parts = session.split(b".")
    if len(parts) != 3 or not all(each.isdigit() for each in parts):
        return None
    return q.ConsumerName(*map(int, parts))


def _told(on_done: OnDone, make: Callable[[r.Answer], object]) -> Callable[[r.Answer], None]:
    def on_answer(answer: r.Answer) -> None:
        on_done(refusal_of(answer) if isinstance(answer, r.Refused) else make(answer))

    return on_answer


def _done(_: r.Answer) -> object:
    return Done()


def _claims_result(answer: r.Answer) -> object:
    return q.ClaimsResult(list(answer.stale) if isinstance(answer, r.Done) else [])


# -- consumers


def _attach(host: QueueHost, asked: q.AttachConsumer, on_done: OnDone) -> None:
    consumer = asked.consumer

    def on_answer(answer: r.Answer) -> None:
        if isinstance(answer, r.Attached):
            on_done(q.AttachedConsumer(answer.is_active, list(answer.claims)))
        else:
            host.consumers.pop(consumer, None)
            on_done(refusal_of(answer) if isinstance(answer, r.Refused) else Done())

    request = r.Attach(
        token=host.new_token(),
        session=session_of(consumer),
        priority=asked.priority or 0,
        is_exclusive=asked.is_exclusive is True,
        is_leaving=asked.is_leaving is True,
        is_anew=asked.is_anew is True,
    )
    host.partition()
    # At once: who is gone before the answer has to be known, too.
    host.consumers[consumer] = None
    host.note_use()
    host.note_begun()
    host.ask_engine(request, on_answer)


# -- taking


def _take(
    host: QueueHost,
    parts: HostParts,
    request: q.TakeMessages,
    on_done: OnDone,
    until_ms: int | None = None,
) -> None:
    """Give messages out; if all of them have to be given up, others are waited for until a time."""
    name = None if request.wait_name is msgspec.UNSET else request.wait_name
    longest_ms = q.WAIT_MS_MAX if name is None else q.WAIT_MS_MAX + q.LINGER_MS
    consumer, wait_ms = request.consumer, min(request.wait_ms, longest_ms)
    end_ms = host.now().now_ms + wait_ms if until_ms is None else until_ms
    messages_max, bytes_max = min(request.messages_max, TAKEN_MAX), request.bytes_max
    if host.way_out() is not None:
        messages_max = min(messages_max, CHANGED_MAX)
        bytes_max = min(bytes_max, CHANGED_BYTES_MAX)
    take = r.Take(
        token=host.new_token(),
        session=None if consumer is None else session_of(consumer),
        messages_max=messages_max,
        bytes_max=bytes_max,
        lock_ms=request.lock_ms,
        wait_ms=wait_ms,
        has_groups=request.has_groups is True,
        name=name,
    )

    def take_others() -> None:
        left_ms = end_ms - host.now().now_ms
        if left_ms < -OTHERS_MS:
            # Whoever has asked waits no longer, and would never hear of what is taken later.
            on_done(q.TakenMessages([]))
            return
        again = msgspec.structs.replace(request, wait_ms=max(0, left_ms))
        try:
            _take(host, parts, again, on_done, end_ms)
        except RequestRefused:
            on_done(_void(host, parts))

    def on_answer(answer: r.Answer) -> None:
        if isinstance(answer, r.Taken):
            _hand_out(host, answer, bytes_max, on_done, take_others)
        elif isinstance(answer, r.Refused) and answer.why is r.Refusal.NOT_LEADER:
            on_done(_void(host, parts))
        elif isinstance(answer, r.Refused):
            on_done(refusal_of(answer))

    host.ask_engine(take, on_answer)
    host.on_wanted()


def _void(host: QueueHost, parts: HostParts) -> RequestRefused:
    """Return what is said to who took messages, where the queue is led no more."""
    if host.state.topic_id not in parts.metadata.state.queues_by_log:
        return UnknownQueue("the queue was deleted")
    # What it was given is locked until its time, or until the consumer attaches again.
    return RequestTimedOut(_PERHAPS_TAKEN)


def _hand_out(
    host: QueueHost,
    taken: r.Taken,
    bytes_max: int,
    on_done: OnDone,
    take_others: Callable[[], None],
) -> None:
    """Read the bodies of messages that were given out, and answer with them.

    If all of them have to be given up, others are taken: an empty answer says that there are none.
    """
    if not taken.claims:
        on_done(q.TakenMessages([]))
        return
    attempts = {
        offset: claim.attempt for claim in taken.claims for offset in range(claim.first, claim.end)
    }
    offsets = sorted(attempts)
    excused = dict(taken.excused)
    leadership = host.leadership

    def on_found(found: Found | RequestRefused) -> None:
        if isinstance(found, RequestRefused):
            host.give_back(offsets, attempts, taken.unsent_from)
            # Whoever asks again after this has not heard of what was given: only the client can.
            is_given_back = host.queue.is_leading and host.leadership == leadership
            on_done(found if is_given_back else RequestTimedOut(_PERHAPS_TAKEN))
            return
        left = set(found.left)
        lost = [each for each in offsets if each not in found.records and each not in left]
        if lost:
            host.note_lost(len(lost))
        records, way_out = _sorted(found), host.way_out()
        if way_out is not None:
            records, failed, too_much = way_out.change_all(records, bytes_max)
            lost = sorted((*lost, *failed))
            left.update(too_much)
        host.give_back(sorted(left), attempts, taken.unsent_from)
        if lost and host.leadership != leadership:
            # They are locked, and the next leader does not know that they are to be given up.
            on_done(RequestTimedOut(_PERHAPS_TAKEN))
            return
        if lost:
            # Given up, so that it is seen; given back it would come again and again, as it would
            # if a short lock that has ended kept it from being given up.
            given_up = tuple(r.Claim(each, each + 1, attempts[each]) for each in lost)
            reject = r.Reject(token=host.new_token(), claims=given_up, may_be_late=True)
            host.ask(reject, lambda _: None)
        if lost and not records:
            take_others()
            return
        messages: list[q.QueueMessage] = []
        for offset, (_, timestamp_ms, key, value, headers) in records:
            attempt = attempts[offset]
            failures = attempt - 1 - excused.get(offset, 0)
            # As `_message` does: this is done for each message that is taken.
            message = q.QueueMessage(
                offset, attempt, failures, timestamp_ms, key, value, tuple(headers)
            )
            messages.append(message)
        on_done(q.TakenMessages(messages, taken.unsent_from))

    host.bodies.read(offsets, min(bytes_max, TAKEN_BYTES_MAX), on_found)


def _sorted(found: Found) -> list[tuple[int, Record]]:
    return sorted(found.records.items())


def _message(record: Record, attempt: int, failures: int) -> q.QueueMessage:
    return q.QueueMessage(
        offset=record.offset,
        attempt=attempt,
        failures=failures,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )


# -- looking


def _peek(host: QueueHost, request: q.PeekMessages, on_done: OnDone) -> None:
    host.partition()
    committed = host.readable_end
    count = max(0, min(request.messages_max, TAKEN_MAX))
    browsed = {
        each.offset: each
        for each in host.queue.browse(max(0, request.start), count)
        if each.offset < committed
    }

    def on_found(found: Found | RequestRefused) -> None:
        if isinstance(found, RequestRefused):
            on_done(found)
            return
        way_out, shown = host.way_out(), _sorted(found)
        if way_out is not None:
            # As they came; of those that were given up, it is said why.
            shown = [
                (offset, way_out.told(each) if browsed[offset].place is Place.PARKED else each)
                for offset, each in shown
            ]
        on_done(q.PeekedMessages([_peeked(browsed[offset], each) for offset, each in shown]))

    bytes_max = min(request.bytes_max, TAKEN_BYTES_MAX)
    host.bodies.read(list(browsed), bytes_max, on_found)


def _peeked(browsed: r.Browsed, record: Record) -> q.PeekedMessage:
    failures = browsed.failures - (browsed.place is Place.IN_FLIGHT)
    return q.PeekedMessage(
        place=place_name(browsed.place),
        not_before_ms=browsed.not_before_ms,
        not_after_ms=browsed.not_after_ms,
        message=_message(record, browsed.attempts, max(0, failures)),
    )
