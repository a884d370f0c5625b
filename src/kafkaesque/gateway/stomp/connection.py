"""One client: what its frames ask for is done in order, and how it ends.

Theory of operation. Bytes become events (`protocols/stomp`), which wait in a line and are carried
out one after the other. A SEND does not wait for its commit: those behind it go on, and receipts
come in the order of the frames, each when all before it is done. When the connection ends, open
transactions are forgotten, and what the client has is given back; what was sent before goes on to
its queues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import takewhile
from typing import Final

from kafkaesque import __version__
from kafkaesque.broker.metadata.queue_names import STOMP_DURABLE_PREFIX
from kafkaesque.chassis.client_facts import ClientFacts, SubscribedName
from kafkaesque.chassis.link import Shared
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.queueing.desk import Desk
from kafkaesque.gateway.queueing.event_line import EventLine
from kafkaesque.gateway.queueing.publisher import OnRunOutcome, Publisher
from kafkaesque.gateway.stomp.opening import Opening
from kafkaesque.gateway.stomp.ports import StompLink
from kafkaesque.gateway.stomp.queues import Queues
from kafkaesque.gateway.stomp.receipts import Entry, Receipts
from kafkaesque.gateway.stomp.sending import Ready, Sending
from kafkaesque.gateway.stomp.subscribing import Subscribing
from kafkaesque.gateway.stomp.transactions import Transactions
from kafkaesque.model.errors import InvariantBroken, RequestRefused
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.stomp.connection import ConnectionState
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.events import (
    Acknowledged,
    AcknowledgedRun,
    ConnectionFailed,
    ConnectReceived,
    Disconnected,
    Event,
    HeartbeatDue,
    Sent,
    SentRun,
    Subscribed,
    TransactionBegun,
    TransactionEnded,
    Unsubscribed,
)
from kafkaesque.protocols.stomp.writing import HEARTBEAT, write_receipts

#: What was asked for before a mistake, or before the end, has so long to be answered.
END_MS_MAX: Final = 5_000


class StompConnection(StompLink):
    """See the module."""

    __slots__ = (
        "_current",
        "_is_subscribing",
        "_line",
        "_opening",
        "_receipts",
        "_sending",
        "_settled",
        "_subscribing",
        "_transactions",
        "_watch",
    )

    def __init__(
        self, desk: Desk, host_names: Callable[[], Collection[str]], shared: Shared
    ) -> None:
        super().__init__(desk, shared)
        self._line: Final = EventLine[Event](
            self, self._carry_out, self._on_mistake, self._on_turn, StompError
        )
        self._receipts: Final = Receipts(self._send_receipts)
        publisher = Publisher(self, self._line)
        queues = Queues(self)
        self._subscribing: Final = Subscribing(self, publisher, queues)
        self._sending: Final = Sending(self, publisher, queues, self._subscribing)
        self._transactions: Final = Transactions(self, publisher, self._sending, self._subscribing)
        self._opening: Final = Opening(self, host_names, self._let_in)
        #: The frame that is being carried out, or waits for an answer.
        self._current: Entry | None = None
        #: Whether that is a SUBSCRIBE.
        self._is_subscribing = False
        #: Acknowledgements that are gathered and not sent on yet.
        self._settled: list[Entry] = []
        self._watch: Timer | None = None

    # -- from the network

    def on_opened(self) -> None:
        """See `ClientConnection`."""
        self._watch_silence()

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self.is_over or self.speaks_http(data) or self.exceeds_login(len(data)):
            return
        self.note_activity()
        self._receive(data)

    def _receive(self, data: bytearray | memoryview | bytes) -> None:
        """Take what has come, and what has waited until the client was let in."""
        self.is_receiving = True
        try:
            for event in self.codec.receive_runs(data, self.shared.clock.now_ms()):
                self._take(event)
        finally:
            self.is_receiving = False
        self._on_turn()
        self.maybe_block()
        self.maybe_pause()

    def _take(self, event: Event) -> None:
        match event:
            case ConnectReceived():
                self._opening.take(event)
            case HeartbeatDue():
                self.write(HEARTBEAT)
            case SentRun():
                self.shared.meter.requests += len(event.bodies)
                self._take_run(event)
            case AcknowledgedRun():
                self.shared.meter.requests += len(event.ack_ids)
                # In the line each of them counts.
                for each in (event,) if self._line.is_free else event.singles():
                    self._line.push(each)
            case _:
                self.shared.meter.requests += 1
                self._line.push(event, len(event.body) if isinstance(event, Sent) else 0)

    def _take_run(self, run: SentRun) -> None:
        """Send messages on behind what came before: together, where nothing is against it."""
        is_free = self._line.is_free and not self.is_over and self.connection is not None
        try:
            is_done = is_free and self._sending.publish_run(run, lambda: self._begin_run(run))
        except self._line.mistakes:
            # The first of them says it in its turn.
            is_done = False
        if not is_done:
            for event in run.singles():
                self._line.push(event, len(event.body))

    def _begin_run(self, run: SentRun) -> OnRunOutcome:
        entry = self._receipts.add(*run.receipts)

        def on_outcome(refused: dict[int, RequestRefused]) -> None:
            if refused:
                number = min(refused)
                self._fail_in(entry, number, str(refused[number]))
            else:
                entry.done()

        return on_outcome

    def _fail_in(self, entry: Entry, number: int, what: str) -> None:
        """A frame is not carried out: those before it are, and the client is told of it."""
        self._receipts.give_up(entry, number)
        self.fail(StompError(what, receipt_id=entry.receipts[number]))

    def _let_in(self) -> None:
        """Answer CONNECT, and take what has come behind it."""
        if self.connection is None:
            return
        server = f"kafkaesque/{__version__}"
        self.write(self.codec.accept(self.owner, server, self.shared.clock.now_ms()))
        self._watch_silence()
        self.shared.clock.call_soon(lambda: None if self.is_closed else self._receive(b""))

    # -- heart-beats

    def _watch_silence(self) -> None:
        """Look again when silence, the client's or ours, will have lasted."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        deadline_ms = self.codec.deadline_ms
        if deadline_ms is not None and self.connection is not None:
            ms = max(1, deadline_ms - self.shared.clock.now_ms())
            self._watch = self.shared.clock.call_later(ms, self._on_silence)

    def _on_silence(self) -> None:
        now_ms = self.shared.clock.now_ms()
        if self._is_paused:
            # Nothing can come while nothing is read.
            self.codec.excuse(now_ms)
        for event in self.codec.tick(now_ms):
            self._take(event)
        self._watch_silence()

    # -- frames

    def begin(self) -> None:
        """See `StompLink`."""
        self._line.begin()

    def go_on_with(self, act: Callable[[], None]) -> None:
        """See `StompLink`."""
        self._line.go_on_with(act)

    def _carry_out(self, event: Event) -> None:
        if isinstance(event, ConnectionFailed):
            self._end_with(partial(self.fail, event.error))
            return
        if self.connection is None or self.is_over:
            # What has come is published, also if the client is gone meanwhile.
            is_wanted = isinstance(event, Sent | TransactionBegun | TransactionEnded)
            if self.is_over or not is_wanted:
                return
        receipts = event.receipts if isinstance(event, AcknowledgedRun) else (event.receipt,)
        self._current = entry = self._receipts.add(*receipts)
        self._is_subscribing = isinstance(event, Subscribed)
        match event:
            case Sent():
                self._send(event, entry)
            case Subscribed():
                self._subscribing.subscribe(event, entry.done)
            case Unsubscribed():
                # What was said of its messages goes first, and with its receipts.
                self._flush_settled()
                self._subscribing.unsubscribe(event, entry.done)
            case Acknowledged():
                self._acknowledge(event, entry)
            case AcknowledgedRun():
                self._subscribing.settle_run(event)
                self._settled.append(entry)
            case TransactionBegun():
                self._transactions.begin(event.transaction)
                entry.done()
            case TransactionEnded() if event.is_committed:
                self._transactions.commit(event.transaction, entry)
            case TransactionEnded():
                self._transactions.abort(event.transaction)
                entry.done()
            case Disconnected():
                entry.done()
                self._end_with(self._hang_up)
            case _:
                raise InvariantBroken(f"nobody does {type(event).__name__}")

    def _send(self, event: Sent, entry: Entry) -> None:
        def on_outcome(refusal: RequestRefused | None) -> None:
            if refusal is None:
                entry.done()
            else:
                self._fail_in(entry, 0, str(refusal))

        def then(ready: Ready) -> None:
            if event.transaction is None:
                self._sending.publish(ready, on_outcome)
            else:
                self._transactions.add_message(event.transaction, ready)
                entry.done()

        self._sending.prepare(event, then)

    def _acknowledge(self, event: Acknowledged, entry: Entry) -> None:
        if event.transaction is not None:
            self._transactions.add_ack(event.transaction, event)
            entry.done()
            return
        self._subscribing.settle(event)
        self._settled.append(entry)

    def _on_turn(self) -> None:
        """Send on what was said of messages, and ask for more; once for all that came together."""
        if self.is_receiving:
            return
        self._flush_settled()
        if self._is_subscribing and not self.is_closed:
            self._subscribing.look_ahead(
                event
                for event in takewhile(_subscribes, self._line.following())
                if isinstance(event, Subscribed)
            )
        self._subscribing.go_on()

    def _flush_settled(self) -> None:
        settled, self._settled = self._settled, []
        self._subscribing.settlements.flush(partial(self._on_settled, settled))

    def _on_settled(self, entries: list[Entry], is_done: bool) -> None:
        for each in entries:
            number = None if is_done else each.first_wanted
            if number is not None:
                what = "an acknowledgement was not taken: its message may come again"
                self._fail_in(each, number, what)
                return
            each.done()

    def _send_receipts(self, receipts: Sequence[str]) -> None:
        if self.connection is not None and not self.is_over:
            self.write(write_receipts(receipts, self.codec.version))

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return super().is_busy() or self._receipts.is_pending

    def go_on(self) -> None:
        """See `ClientConnection`."""
        self.maybe_resume()
        self._on_turn()

    # -- ending

    def _on_mistake(self, mistake: Exception) -> None:
        receipt = None if self._current is None else self._current.receipts[0]
        if isinstance(mistake, StompError) and mistake.receipt_id is not None:
            # One frame of several.
            receipt = mistake.receipt_id
        text = str(mistake)
        if isinstance(mistake, AmqpError):
            text = text.partition(" - ")[2]
        self.fail(StompError(text, receipt_id=receipt))

    def _end_with(self, end: Callable[[], None]) -> None:
        """End when all that came before is answered, or after a while."""
        self.expect(END_MS_MAX, end)
        self._receipts.when_done(end)

    def fail(self, error: StompError) -> None:
        """See `StompLink`."""
        if self.is_over or self.connection is None:
            return
        self.write(self.codec.fail(error))
        self._hang_up()

    def _hang_up(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._subscribing.end()
        self.leave()
        self.close()

    def close(self) -> None:
        """Send what was written, then hang up; a client that knows of nothing is told why."""
        if self.codec.state is ConnectionState.OPEN and self.connection is not None:
            what = "the broker closes the connection: connect again, or to another broker"
            self.write(self.codec.fail(StompError(what)))
        super().close()

    def describe(self, subscriptions_max: int) -> ClientFacts:
        """See `ClientConnection`."""
        found = self._subscribing.open_ones()
        names = [each.queue.queue.name for each in found]
        named = tuple(SubscribedName(name, queue=name) for name in names[:subscriptions_max])
        kept = tuple(each for each in names if each.startswith(STOMP_DURABLE_PREFIX))
        return ClientFacts(len(found), named, None, self.vhost, kept[:subscriptions_max])

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        if self._watch is not None:
            self._watch.cancel()
        self._subscribing.end()
        self.delete_own_queues()


def _subscribes(event: Event) -> bool:
    return isinstance(event, Subscribed)
