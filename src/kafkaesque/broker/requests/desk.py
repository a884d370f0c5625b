"""Brings other brokers' requests to the parts that serve them."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from kafkaesque.broker.peers.messages import PeerAnswer, PeerRequest
from kafkaesque.broker.requests.caller import read_peer_request, write_outcome
from kafkaesque.model.errors import InvariantBroken, RequestRefused
from kafkaesque.model.ids import NodeId

RequestT = TypeVar("RequestT", bound=PeerRequest)

#: Gets a result that may travel, or a `RequestRefused`; called exactly once.
OnServed = Callable[[object], None]
Serve = Callable[[NodeId, RequestT, OnServed], None]


class RequestDesk:
    """Each kind of request has one server, registered before the peer port opens."""

    def __init__(self) -> None:
        self._servers: dict[type[PeerRequest], Serve[PeerRequest]] = {}

    def register(self, kind: type[RequestT], serve: Serve[RequestT]) -> None:
        """Have requests of a kind served; a `RequestRefused` that is raised is the answer, too."""
        if kind in self._servers:
            raise InvariantBroken(f"two parts serve {kind.__name__}")

        def serve_any(node: NodeId, request: PeerRequest, on_done: OnServed) -> None:
            if isinstance(request, kind):
                serve(node, request, on_done)

        self._servers[kind] = serve_any

    def on_request(
        self, node: NodeId, raw: msgspec.Raw, answer: Callable[[PeerAnswer], None]
    ) -> None:
        """Serve a request from a broker; `answer` is called once."""
        try:
            request = read_peer_request(raw)
            server = self._servers.get(type(request))
            if server is None:
                raise RequestRefused(f"nobody serves {type(request).__name__} here")
            server(node, request, lambda outcome: answer(write_outcome(outcome)))
        except RequestRefused as refusal:
            answer(write_outcome(refusal))
