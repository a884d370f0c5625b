"""Requests from one broker to another: typed on both ends, errors included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from kafkaesque.access import errors as access_errors
from kafkaesque.broker.peers.link import PeerNetwork, PeerUnreachable
from kafkaesque.broker.peers.messages import PeerAnswer
from kafkaesque.broker.requests.commands import AnyPeerRequest
from kafkaesque.env.clock import Clock
from kafkaesque.model import errors
from kafkaesque.model.errors import NotLeader, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId
from kafkaesque.model.record_errors import KeyShredded
from kafkaesque.routing.exchanges import errors as exchange_errors

_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(AnyPeerRequest)

T = TypeVar("T")

#: The refusals that may travel, by name; any other arrives as a plain `RequestRefused`.
_REFUSALS: dict[str, type[RequestRefused]] = {
    name: kind
    for module in (errors, access_errors, exchange_errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, RequestRefused)
}
# A reader passes over what it says, and comes again where it is refused otherwise.
_REFUSALS[KeyShredded.__name__] = KeyShredded


def read_peer_request(raw: msgspec.Raw) -> AnyPeerRequest:
    """Return the request.

    Raises:
        RequestRefused: this release does not know it.
    """
    try:
        request: AnyPeerRequest = _request_decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise RequestRefused(f"a request that this release does not know: {error}") from error
    return request


def write_outcome(outcome: object) -> PeerAnswer:
    """Return the answer for a result or a refusal."""
    if isinstance(outcome, RequestRefused):
        leader = outcome.leader if isinstance(outcome, NotLeader) else None
        return PeerAnswer(
            error=_travelling_name(type(outcome)), message=str(outcome), leader=leader
        )
    return PeerAnswer(result=msgspec.Raw(_encoder.encode(outcome)))


def _travelling_name(kind: type[RequestRefused]) -> str:
    for base in kind.__mro__:
        if base.__name__ in _REFUSALS:
            return base.__name__
    return RequestRefused.__name__


def read_outcome(answer: PeerAnswer, result_type: type[T]) -> T | RequestRefused:
    """Return the result or the refusal that an answer holds."""
    if answer.error is None:
        try:
            return msgspec.msgpack.decode(answer.result, type=result_type)
        except msgspec.MsgspecError as error:
            return RequestRefused(f"an answer that this release does not know: {error}")
    kind = _REFUSALS.get(answer.error, RequestRefused)
    if kind is NotLeader:
        return NotLeader(answer.message, answer.leader)
    return kind(answer.message)


def refused_where_unreachable(
    refusal: type[RequestRefused], on_outcome: Callable[[T | RequestRefused], None]
) -> Callable[[T | RequestRefused | PeerUnreachable], None]:
    """Have a broker that cannot be reached count as one that refuses."""

    def settle(outcome: T | RequestRefused | PeerUnreachable) -> None:
        if isinstance(outcome, PeerUnreachable):
            on_outcome(refusal(str(outcome)))
        else:
            on_outcome(outcome)

    return settle


class RemoteCaller:
    """Asks other brokers, each request with a time limit."""

    def __init__(self, clock: Clock, peers: PeerNetwork) -> None:
        self._clock = clock
        self._peers = peers

    def ask(
        self,
        node: NodeId,
        request: AnyPeerRequest,
        result_type: type[T],
        timeout_ms: int,
        on_done: Callable[[T | RequestRefused | PeerUnreachable], None],
    ) -> None:
        """Ask a broker; `on_done` gets a result, a refusal, or that it could not be reached.

        After `PeerUnreachable` or `RequestTimedOut` nobody knows whether it was done; but after
        `PeerNotAsked` it was not.
        """
        finished = False
        ticket: int | None = None

        def finish(outcome: T | RequestRefused | PeerUnreachable) -> None:
            nonlocal finished
            if not finished:
                finished = True
                timer.cancel()
                on_done(outcome)

        def on_answer(answer: PeerAnswer | PeerUnreachable) -> None:
            if isinstance(answer, PeerUnreachable):
                finish(answer)
            else:
                finish(read_outcome(answer, result_type))

        def on_timeout() -> None:
            if ticket is not None:
                self._peers.give_up(ticket)
            finish(RequestTimedOut(f"broker {node} did not answer within {timeout_ms} ms"))

        timer = self._clock.call_later(timeout_ms, on_timeout)
        try:
            ticket = self._peers.ask(node, request, on_answer)
        except BaseException:
            # It cannot be written: whoever asks hears of it now, and not once more later.
            timer.cancel()
            raise
