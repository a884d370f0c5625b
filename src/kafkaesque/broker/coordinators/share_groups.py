"""The share groups whose coordinator is on this broker: their members, and their cursors."""

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.coordinators.groups import GroupCoordinators
from kafkaesque.broker.metadata.cluster_state import QueueState, TopicState
from kafkaesque.broker.metadata.queue_names import share_group_of, share_queue, share_vhost
from kafkaesque.broker.options.groups import ShareSettings, share_settings
from kafkaesque.broker.requests.queue_commands import CreateShareQueue, DeleteShareGroup
from kafkaesque.env.clock import Clock
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import ListedGroup
from kafkaesque.groups.share.group import ShareGroup, ShareHeartbeat, ShareHeartbeatResult
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicId

#: Members of one group, as Kafka has it by default.
MEMBERS_MAX: Final = 200
#: Groups whose members one broker knows.
GROUPS_MAX: Final = 10_000
CREATE_TIMEOUT_MS: Final = 10_000
DELETE_TIMEOUT_MS: Final = 30_000


class ShareGroups:
    """See the module. What outlives a coordinator are the cursors, which the metadata has."""

    __slots__ = ("_clock", "_coming", "_controller", "_coordinators", "_groups", "_metadata")

    def __init__(
        self,
        *,
        clock: Clock,
        metadata: MetadataView,
        controller: ControllerClient,
        coordinators: GroupCoordinators,
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._controller = controller
        self._coordinators = coordinators
        self._groups: dict[str, ShareGroup] = {}
        coordinators.is_share_group = self._is_known
        #: Cursors that are being made.
        self._coming: set[tuple[str, TopicId]] = set()

    def settings(self, group_id: str) -> ShareSettings:
        """Return what a group goes by."""
        return share_settings(self._metadata.state.group_configs.get(group_id, {}))

    def _error_of(self, group_id: str) -> GroupError | None:
        """Return why a group cannot be asked here."""
        error = self._coordinators.error_of(group_id)
        return error if isinstance(error, GroupError) else None

    # -- members

    def heartbeat(self, asked: ShareHeartbeat) -> ShareHeartbeatResult:
        """Take a member's word."""
        error = self._error_of(asked.group_id)
        if error is not None:
            self._groups.pop(asked.group_id, None)
            return ShareHeartbeatResult(error)
        group = self._groups.get(asked.group_id)
        if group is None:
            if self._coordinators.has_group(asked.group_id):
                return ShareHeartbeatResult(GroupError.GROUP_ID_NOT_FOUND)
            if len(self._groups) >= GROUPS_MAX and not self._forget_empty():
                return ShareHeartbeatResult(GroupError.OVER_BOUND)
            group = self._groups[asked.group_id] = ShareGroup(asked.group_id)
        wanted = group.topic_names | (asked.topic_names or frozenset())
        settings = self.settings(asked.group_id)
        result = group.heartbeat(
            asked,
            self._topics(asked.group_id, wanted),
            now_ms=self._clock.now_ms(),
            session_ms=settings.session_ms,
            interval_ms=settings.assignment_interval_ms,
            members_max=MEMBERS_MAX,
        )
        if not group.members:
            del self._groups[asked.group_id]
        return result

    def _is_known(self, group_id: str) -> bool:
        return group_id in self._groups or bool(self.cursors(group_id))

    def _forget_empty(self) -> bool:
        now_ms = self._clock.now_ms()
        for group in self._groups.values():
            group.expire(now_ms)
        empty = [each for each, group in self._groups.items() if not group.members]
        for each in empty:
            del self._groups[each]
        return bool(empty)

    def _topics(self, group_id: str, names: frozenset[str]) -> dict[str, tuple[TopicId, int]]:
        """Return topics with as many partitions as their cursors have; others are being made."""
        state, found = self._metadata.state, {}
        for name in names:
            topic = state.topics.get(name)
            if topic is None or topic.is_internal:
                continue
            queue = state.queues.get(share_queue(group_id, topic.topic_id))
            have = 0 if queue is None else len(queue.partitions)
            if have < len(topic.partitions):
                self._make_cursor(group_id, topic)
            found[name] = topic.topic_id, min(have, len(topic.partitions))
        return found

    def _make_cursor(self, group_id: str, topic: TopicState) -> None:
        key = group_id, topic.topic_id
        if key in self._coming:
            return
        self._coming.add(key)

        def on_done(_: object) -> None:
            self._coming.discard(key)

        command = CreateShareQueue(group=group_id, topic_id=topic.topic_id)
        self._controller.submit(command, CREATE_TIMEOUT_MS, on_done)

    # -- for those who look after them

    def find(self, group_id: str) -> ShareGroup | GroupError:
        """Return a group whose coordinator is here; one without members if it has only cursors."""
        error = self._error_of(group_id)
        if error is not None:
            return error
        group = self._groups.get(group_id)
        if group is not None:
            group.expire(self._clock.now_ms())
            return group
        if self.cursors(group_id):
            return ShareGroup(group_id)
        return GroupError.GROUP_ID_NOT_FOUND

    def cursors(self, group_id: str) -> list[QueueState]:
        """Return a group's cursors."""
        # By host and group; there may be very many queues.
        return self._metadata.state.queues_of(share_vhost(group_id))

    def listed(self) -> list[ListedGroup]:
        """Return the groups whose coordinator is here, in Kafka's words."""
        named = {share_group_of(name) for name in self._metadata.state.queues} | {*self._groups}
        found: list[ListedGroup] = []
        for name in sorted(each for each in named if each is not None):
            group = self.find(name)
            if isinstance(group, ShareGroup):
                found.append(ListedGroup(name, "share", group.state, "share"))
        return found

    def delete(self, group_id: str, on_done: Callable[[GroupError], None]) -> None:
        """Delete a group without members, with its cursors."""
        group = self.find(group_id)
        if isinstance(group, GroupError):
            on_done(group)
        elif group.members:
            on_done(GroupError.NON_EMPTY_GROUP)
        else:
            self._submit_deletion(DeleteShareGroup(group=group_id), on_done)

    def delete_cursor(
        self, group_id: str, topic_id: TopicId, on_done: Callable[[GroupError], None]
    ) -> None:
        """Delete what a group without members knows of one topic."""
        group = self.find(group_id)
        if isinstance(group, GroupError):
            on_done(group)
        elif group.members:
            on_done(GroupError.NON_EMPTY_GROUP)
        else:
            self._submit_deletion(DeleteShareGroup(group=group_id, topic_id=topic_id), on_done)

    def _submit_deletion(
        self, command: DeleteShareGroup, on_done: Callable[[GroupError], None]
    ) -> None:
        def on_outcome(outcome: object) -> None:
            is_refused = isinstance(outcome, RequestRefused)
            on_done(GroupError.COORDINATOR_NOT_AVAILABLE if is_refused else GroupError.NONE)

        self._controller.submit(command, DELETE_TIMEOUT_MS, on_outcome)
