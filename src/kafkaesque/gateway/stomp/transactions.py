"""BEGIN, COMMIT, ABORT: messages and acknowledgements that wait for the commit.

Nothing is done before the commit. Then the messages go to their queues in order; when all are
there, the acknowledgements follow, and then the receipt. So what is acknowledged was published; but
a failure on the way leaves some of the messages in their queues, and the client is told so.
"""

from __future__ import annotations

from typing import Final

from kafkaesque.gateway.queueing.publisher import Publisher
from kafkaesque.gateway.stomp.ports import StompLink
from kafkaesque.gateway.stomp.receipts import Entry
from kafkaesque.gateway.stomp.sending import Ready, Sending
from kafkaesque.gateway.stomp.subscribing import Subscribing
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.events import Acknowledged

#: Messages of all open transactions of a connection; how many there are is the codec's to bound.
BYTES_MAX: Final = 16 * 1024 * 1024


class _Kept:
    """One transaction."""

    __slots__ = ("acks", "messages", "size")

    def __init__(self) -> None:
        self.messages: Final[list[Ready]] = []
        self.acks: Final[list[Acknowledged]] = []
        self.size = 0


class Transactions:
    """One connection's."""

    __slots__ = ("_kept", "_link", "_publisher", "_sending", "_subscribing")

    def __init__(
        self, link: StompLink, publisher: Publisher, sending: Sending, subscribing: Subscribing
    ) -> None:
        self._link: Final = link
        self._publisher: Final = publisher
        self._sending: Final = sending
        self._subscribing: Final = subscribing
        self._kept: Final[dict[str, _Kept]] = {}

    def begin(self, name: str) -> None:
        """Open one."""
        self._kept[name] = _Kept()

    def add_message(self, name: str, ready: Ready) -> None:
        """Keep a message.

        Raises:
            StompError: there is too much.
        """
        kept = self._kept[name]
        kept.messages.append(ready)
        kept.size += len(ready.event.body)
        if sum(each.size for each in self._kept.values()) > BYTES_MAX:
            raise StompError(f"open transactions have at most {BYTES_MAX} bytes of messages")

    def add_ack(self, name: str, event: Acknowledged) -> None:
        """Keep an acknowledgement.

        Raises:
            StompError: the client has no message of this id.
        """
        self._subscribing.check(event)
        self._kept[name].acks.append(event)

    def abort(self, name: str) -> None:
        """Forget one."""
        del self._kept[name]

    def commit(self, name: str, entry: Entry) -> None:
        """Do all that it holds; `entry` is done when that is."""
        kept = self._kept.pop(name)
        link = self._link
        left = len(kept.messages) + 1
        refusal: RequestRefused | None = None

        def on_one(outcome: RequestRefused | None) -> None:
            nonlocal left, refusal
            left -= 1
            refusal = refusal or outcome
            if left == 0:
                link.go_on_with(settle)

        def publish() -> None:
            for each in kept.messages:
                self._sending.check(each)
            for each in kept.messages:
                self._sending.publish(each, on_one)
            link.begin()
            on_one(None)

        def settle() -> None:
            if refusal is not None:
                raise _half_done(str(refusal))
            for each in kept.acks:
                self._subscribing.settle(each)
            link.begin()
            self._subscribing.settlements.flush(
                lambda is_done: link.go_on_with(lambda: answer(is_done))
            )

        def answer(is_settled: bool) -> None:
            if not is_settled:
                raise _half_done("an acknowledgement was not taken")
            entry.done()

        # Where messages go has to be known before the first one does.
        self._publisher.find_out(publish)


def _half_done(why: str) -> StompError:
    return StompError(f"the transaction is not committed as a whole, some of it may be: {why}")
