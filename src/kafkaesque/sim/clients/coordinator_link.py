"""The way to whoever coordinates a group or a transactional id at the moment."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from kafkaesque.env.network import Address
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.sim.clients.kafka_client import BrokerLink, KafkaClient, OnResponse

FIND_COORDINATOR_VERSION: Final = 3

#: The coordinator is another one, or does not say what has become of the request.
LOST: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
)
#: Nothing has become of the request; it may be sent again.
BUSY: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


class KeyType(IntEnum):
    """What a coordinator coordinates."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorLink:
    """Finds the coordinator of one key, and asks it."""

    def __init__(
        self, client: KafkaClient, key: str, key_type: KeyType, *, is_patient: bool = False
    ) -> None:
        """A patient link looks until it has found the coordinator, and asks a moment later."""
        self._client: Final = client
        self._key: Final = key
        self._key_type: Final = key_type
        self._is_patient: Final = is_patient
        self._address: Address | None = None

    def forget(self) -> None:
        """Look for the coordinator again: it is another one."""
        self._address = None

    def ask(self, api: ApiKey, version: int, request: Any, on_response: OnResponse) -> None:
        """Ask once; None is answered if there is no coordinator, or no answer."""

        def act(link: BrokerLink | None) -> None:
            if link is None:
                on_response(None)
            else:
                link.send(api, version, request, receive)

        def receive(response: Any) -> None:
            if response is None:
                self.forget()
            on_response(response)

        self.reach(act)

    def reach(self, act: Callable[[BrokerLink | None], None]) -> None:
        """Let `act` have a connection to the coordinator, or None if it is not found."""
        client = self._client
        if self._address is not None:
            act(client.link(self._address))
            return

        def receive(response: Any) -> None:
            is_found = response is not None and not response.error_code
            if is_found:
                self._address = Address(response.host, response.port)
            if self._is_patient:
                client.later(lambda: self.reach(act))
            elif is_found:
                self.reach(act)
            else:
                act(None)

        find = FindCoordinatorRequest(key=self._key, key_type=self._key_type)
        client.any_link().send(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, find, receive)
