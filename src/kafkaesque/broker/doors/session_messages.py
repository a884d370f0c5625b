"""Messages that several sessions of MQTT want: a topic of the brokers has each one once (ADR 48).

A session that is kept is a queue. A message for one session stands in its queue alone. One for two
or more stands in `__session_messages`, and their queues refer to it. The topic is made when such a
message comes for the first time. Until it is there, and while it cannot take everything, queues
have copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaesque.broker.controller.internal_topic import InternalTopic, TopicMaker
from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.metadata.cluster_state import QueueState, TopicState
from kafkaesque.broker.metadata.internal_topics import (
    SESSION_MESSAGE_BYTES_MAX,
    SESSION_MESSAGES_CONFIGS,
)
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.topic_names import SESSION_MESSAGES_TOPIC
from kafkaesque.env.clock import Clock

#: Messages of one name go to one partition.
PARTITIONS: Final = 3
#: Larger messages are copied.
MESSAGE_BYTES_MAX: Final = SESSION_MESSAGE_BYTES_MAX
#: After a refusal the topic is asked for again after this.
AGAIN_MS: Final = 10_000


class SessionMessages:
    """See the module."""

    __slots__ = ("_asked_ms", "_clock", "_cluster", "_is_making", "_topic")

    def __init__(
        self, *, clock: Clock, cluster: Cluster, controller: TopicMaker, options: LiveOptions
    ) -> None:
        self._clock: Final = clock
        self._cluster: Final = cluster
        self._topic: Final = InternalTopic(
            SESSION_MESSAGES_TOPIC,
            SESSION_MESSAGES_CONFIGS,
            clock=clock,
            metadata=cluster,
            controller=controller,
            options=options,
            partition_count=PARTITIONS,
        )
        self._is_making = False
        #: When it was last asked for.
        self._asked_ms: int | None = None

    @property
    def topic(self) -> TopicState | None:
        """The topic; None: nobody has needed it, as far as this broker has heard."""
        return self._cluster.state.topics.get(SESSION_MESSAGES_TOPIC)

    def topic_for(self, sessions: Sequence[QueueState], size_bytes: int) -> TopicState | None:
        """Return the topic that is to have a message for these sessions; None: they get copies.

        Then the topic is made, if it is the only thing that is missing. While a partition of it has
        no leader, all get copies: the order of what a session gets is one over all partitions, and
        everything would wait for what goes to that one.
        """
        if len(sessions) < 2 or size_bytes > MESSAGE_BYTES_MAX:
            return None
        topic = self.topic
        if topic is None:
            self._make()
            return None
        leader = self._cluster.leaders.leader
        # Plainly: this is done for each message.
        for each in topic.partitions:
            if leader(each.group) is None:
                return None
        return topic

    def _make(self) -> None:
        now_ms = self._clock.now_ms()
        if self._is_making:
            return
        if self._asked_ms is not None and now_ms < self._asked_ms + AGAIN_MS:
            return
        self._is_making, self._asked_ms = True, now_ms
        self._topic.make(self._on_made)

    def _on_made(self, _: bool) -> None:
        self._is_making = False
