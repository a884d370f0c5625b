"""An administrator who lets other brokers be controllers, one after the other."""

from collections.abc import Sequence
from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_raft_voter_request import AddRaftVoterRequest
from kafkaesque.protocols.kafka.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kafkaesque.sim.clients.kafka_client import KafkaClient

VERSION: Final = 0
TIMEOUT_MS: Final = 3_000
#: From one request to the next, about.
CHANGE_MS: Final = 600


class ControllerChanger:
    """Asks for another controller, or for one fewer."""

    def __init__(
        self, client: KafkaClient, *, founders: Sequence[int], brokers: Sequence[int], fewest: int
    ) -> None:
        """`brokers` may come and go; never fewer than `fewest` are controllers."""
        self._client: Final = client
        self._brokers: Final = tuple(brokers)
        self._fewest: Final = fewest
        #: Those that are controllers whatever became of what was asked for.
        self._known = set(founders)
        #: Requests that were done.
        self.count = 0
        self.is_stopped = False
        self._change_later()

    def _change_later(self) -> None:
        self._client.rest(self._change, CHANGE_MS)

    def _change(self) -> None:
        if self.is_stopped:
            return
        below = self._client.env.dice.below
        node = self._brokers[below(len(self._brokers))]
        link = self._client.any_link()
        if node not in self._known:
            added = AddRaftVoterRequest(
                cluster_id=None, timeout_ms=TIMEOUT_MS, voter_id=node, listeners=[]
            )
            link.send(
                ApiKey.ADD_RAFT_VOTER, VERSION, added, lambda answer: self._on_added(node, answer)
            )
        elif len(self._known) > self._fewest:
            self._known.discard(node)
            removed = RemoveRaftVoterRequest(cluster_id=None, voter_id=node)
            link.send(ApiKey.REMOVE_RAFT_VOTER, VERSION, removed, self._on_removed)
        else:
            self._change_later()

    def _on_added(self, node: int, answer: Any) -> None:
        if answer is not None and answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER):
            self._known.add(node)
        self._note(answer)

    def _on_removed(self, answer: Any) -> None:
        self._note(answer)

    def _note(self, answer: Any) -> None:
        self.count += answer is not None and answer.error_code == ErrorCode.NONE
        self._change_later()
