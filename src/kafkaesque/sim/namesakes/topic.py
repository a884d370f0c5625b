"""A topic that is deleted and made again under its name, whatever it is used for at that time.

Each topic of the name is known by a number, which begins at 1, and is deleted by its id, so that
nobody deletes one by mistake. A request to make one may be carried out late, when the name is free
again; the topic that there is then is as good as the one that is wanted. So an id that was not
deleted is always that of the newest topic.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.sim.clients.bursts import rest_ms
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.topic_load import (
    ADMIN_TIMEOUT_MS,
    CREATE_TOPICS_VERSION,
    DELETE_TOPICS_VERSION,
)

NAME: Final = "passing"
PARTITIONS: Final = 2
LOOK_MS: Final = 50
#: A topic is used for so long at most; some are deleted as soon as they are there.
USE_MS: Final = (1, 300, 2_500)
#: So long at most there is none: mostly the next one comes at once.
AWAY_MS: Final = (1, 1, 1_000)
#: Of so many transactions one is ended while the topic's deletion is on its way.
DELETE_ONE_IN: Final = 4
#: The last one is made while a broker may be gone for good.
LAST_REPLICAS_MAX: Final = 2


class Namesake:
    """One of the topics that had, or has, the name."""

    __slots__ = ("is_doomed", "number", "topic_id")

    def __init__(self, number: int, topic_id: bytes) -> None:
        self.number: Final = number
        self.topic_id: Final = topic_id
        #: Whether its deletion was asked for.
        self.is_doomed = False

    def client(self, env: Env, bootstrap: Sequence[Address]) -> KafkaClient:
        """Return a client that knows this topic, and no other of its name."""
        return KafkaClient(env, bootstrap, NAME, _AllBut(self.topic_id))


class _AllBut:
    def __init__(self, topic_id: bytes) -> None:
        self._topic_id: Final = topic_id

    def __contains__(self, topic_id: object) -> bool:
        return topic_id != self._topic_id


class PassingTopic:
    """The name, and whoever makes and deletes the topics that have it."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        replicas: int,
        replicas_min: int,
        on_made: Callable[[Namesake], None],
    ) -> None:
        self._env: Final = env
        self._replicas: Final = replicas
        self._replicas_min: Final = replicas_min
        self._on_made: Final = on_made
        self._deleted_ids: Final[list[bytes]] = []
        self._client: Final = KafkaClient(env, bootstrap, NAME, self._deleted_ids)
        #: The topic that there is, as far as its maker knows; None while there is none.
        self.current: Namesake | None = None
        #: The number of the last one whose making was asked for.
        self.asked_for = 0
        #: Delete no more; the last one stays.
        self.is_stopped = False
        self._make()

    @property
    def count(self) -> int:
        """How many topics were deleted."""
        return len(self._deleted_ids)

    @property
    def last(self) -> Namesake | None:
        """The topic that stays; None while it is not known which one does."""
        current = self.current
        return current if self.is_stopped and current and not current.is_doomed else None

    # -- making it

    def _make(self) -> None:
        self.asked_for += 1
        self._ask_to_make()

    def _ask_to_make(self) -> None:
        below = self._env.dice.below
        more = self._replicas - self._replicas_min + 1
        # Rather few: then there is often nobody who leads, and markers wait.
        replicas = self._replicas_min + min(below(more), below(more))
        if self.is_stopped:
            replicas = min(replicas, LAST_REPLICAS_MAX)
        topic = CreatableTopic(
            name=NAME, num_partitions=PARTITIONS, replication_factor=replicas, assignments=[]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=ADMIN_TIMEOUT_MS)

        def receive(response: Any) -> None:
            code = response.topics[0].error_code if response is not None else None
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._await_id()
            else:
                self._client.later(self._ask_to_make)

        link = self._client.any_link()
        link.send(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request, receive)

    def _await_id(self) -> None:
        client = self._client
        if not any(client.topic_id) or client.topic_id in self._deleted_ids:
            client.refresh()
            client.later(self._await_id, LOOK_MS)
            return
        self.current = namesake = Namesake(self.asked_for, client.topic_id)
        self._on_made(namesake)
        below = self._env.dice.below
        client.rest(lambda: self._delete(namesake), 1 + below(USE_MS[below(len(USE_MS))]))

    # -- deleting it

    def on_end(self) -> None:
        """A transaction is ended in this moment: now and then delete what it has written to."""
        current = self.current
        if current is not None and self._env.dice.below(DELETE_ONE_IN) == 0:
            self._delete(current)

    def _delete(self, namesake: Namesake) -> None:
        if self.is_stopped or namesake.is_doomed:
            return
        if rest_ms(self._env):
            # Nobody would notice.
            self._client.rest(lambda: self._delete(namesake), LOOK_MS)
            return
        namesake.is_doomed = True
        self._ask_to_delete(namesake)

    def _ask_to_delete(self, namesake: Namesake) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=namesake.topic_id)],
            timeout_ms=ADMIN_TIMEOUT_MS,
        )

        def receive(response: Any) -> None:
            code = response.responses[0].error_code if response is not None else None
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
                self._deleted_ids.append(namesake.topic_id)
                self.current = None
                below = self._env.dice.below
                away_ms = 1 + below(AWAY_MS[below(len(AWAY_MS))])
                self._env.clock.call_later(away_ms, self._make)
            else:
                self._client.later(lambda: self._ask_to_delete(namesake))

        link = self._client.any_link()
        link.send(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, request, receive)
