"""What other brokers know of themselves, and what only they can do, for the admin API."""

from collections.abc import Callable

from kafkaesque.broker.peers.link import PeerUnreachable
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import AskPart, Part
from kafkaesque.broker.requests.part_desk import Answerer, PartDesk
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId


class Parts:
    """Asks brokers for their parts of a page, or to act, such as to close a connection.

    Without an answer nobody knows whether the broker has acted.
    """

    __slots__ = ("_caller", "_desk", "_node")

    def __init__(self, *, node: NodeId, caller: RemoteCaller, desk: PartDesk) -> None:
        self._node = node
        self._caller = caller
        self._desk = desk

    def answer_with(self, answerer: Answerer) -> None:
        """Have other brokers' questions answered; refused until this is called."""
        self._desk.open(answerer)

    def answer_when_asked(self, make_answerer: Callable[[], None]) -> None:
        """Have the first question call this; it calls `answer_with`, and the question is answered.

        Until somebody asks, nothing that answers has to be loaded.
        """
        self._desk.open_when_asked(make_answerer)

    def ask(
        self,
        node: NodeId,
        request: AskPart,
        timeout_ms: int,
        on_done: Callable[[Part | RequestRefused | PeerUnreachable], None],
    ) -> None:
        """Ask a broker, which may be this one; `on_done` is called once, maybe at once."""
        if node == self._node:
            self._desk.serve(request, on_done)
        else:
            self._caller.ask(node, request, Part, timeout_ms, on_done)
