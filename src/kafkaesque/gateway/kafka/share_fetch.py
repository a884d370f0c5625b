"""ShareFetch and ShareAcknowledge: records for one member of a share group each (KIP-932)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.listeners import KAFKA
from kafkaesque.broker.metadata.queue_names import share_queue
from kafkaesque.broker.options.groups import ShareSettings
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of
from kafkaesque.gateway.kafka.share_acknowledging import (
    Acknowledge,
    BadAcknowledgement,
    acknowledge,
    read_acknowledgements,
)
from kafkaesque.gateway.kafka.share_outcomes import Outcome, partition_data
from kafkaesque.gateway.kafka.share_partitions import SharePartition
from kafkaesque.gateway.kafka.share_sessions import (
    UNOPENED_MAX,
    ConnectedSessions,
    Member,
    ShareSession,
)
from kafkaesque.gateway.kafka.topics import leader_hint
from kafkaesque.groups.consumer.topics import TopicIdPartition
from kafkaesque.model.ids import NodeId, TopicId, TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import share_acknowledge_response as acknowledging
from kafkaesque.protocols.kafka.messages import share_fetch_response as fetching
from kafkaesque.protocols.kafka.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kafkaesque.protocols.kafka.messages.share_fetch_request import ShareFetchRequest

#: Session epochs of requests that begin and end a session.
BEGINS, ENDS = 0, -1
#: A fetch waits for no longer than this.
WAIT_MS_MAX: Final = 30_000
RECORDS_MAX: Final = 10_000
BYTES_MAX: Final = 8 * 1024 * 1024
_PASSING: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.LEADER_NOT_AVAILABLE)


def on_share_fetch(context: Context, call: Call) -> None:
    """Take acknowledgements, then hand out records, now or as soon as there are any."""
    _Fetch(context, call, call.read()).begin()


def on_share_acknowledge(context: Context, call: Call) -> None:
    """Take acknowledgements."""
    _Acknowledge(context, call, call.read()).begin()


class _SessionRequest:
    """What both requests have in common: a session, and acknowledgements."""

    def __init__(
        self, context: Context, call: Call, request: ShareFetchRequest | ShareAcknowledgeRequest
    ) -> None:
        self.context = context
        self.call = call
        self.request = request
        self.group_id = request.group_id or ""
        self.member_id = request.member_id or ""
        self.settings: ShareSettings = context.doors.groups.share.settings(self.group_id)
        self.outcomes: dict[TopicIdPartition, Outcome] = {}
        self.session: ShareSession | None = None

    def find_session(self) -> ErrorCode:
        """Find the session, or begin it."""
        sessions, request = self.context.share_sessions, self.request
        epoch = request.share_session_epoch
        if not self.group_id or not self.member_id:
            return ErrorCode.INVALID_REQUEST
        if epoch == BEGINS:
            self.session = sessions.make(self.member)
            if self.session is None:
                return ErrorCode.SHARE_SESSION_LIMIT_REACHED
            self._tie(self.session)
            return ErrorCode.NONE
        self.session = sessions.find(self.member)
        if self.session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != ENDS:
            if epoch != self.session.epoch:
                return ErrorCode.INVALID_SHARE_SESSION_EPOCH
            self.session.advance()
        self.apply_rights()
        return ErrorCode.NONE

    @property
    def member(self) -> Member:
        """Whose session it is about."""
        rights = self.call.connection.rights
        principal = "" if rights is None else rights.principal
        return Member(principal, self.group_id, self.member_id)

    def apply_rights(self) -> None:
        """Refuse topics of the session that its user may not read any more.

        They stay in the session, as clients think they do, and are read again once that is allowed.
        """
        session, rights = self.session, self.call.connection.rights
        if session is None or rights is None:
            return
        if session.rights_as_of != rights.as_of:
            session.rights_as_of = rights.as_of
            known = self.context.doors.cluster.state.topics_by_id
            session.forbid(
                frozenset(
                    each
                    for each in session.topic_ids
                    if (topic := known.get(each)) is not None
                    and not rights.may(Operation.READ, ResourceType.TOPIC, topic.name)
                )
            )
        if session.forbidden:
            for key in session.partitions:
                if key.topic_id in session.forbidden:
                    self.outcome(key).code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _tie(self, session: ShareSession) -> None:
        connection = self.call.connection
        if not isinstance(connection.sessions, ConnectedSessions):
            connection.sessions = ConnectedSessions(self.context.share_sessions)
        connection.sessions.note(self.member, session)

    def outcome(self, key: TopicIdPartition) -> Outcome:
        """Return what is to be answered for a partition."""
        return self.outcomes.setdefault(key, Outcome())

    def take_acknowledgements(self, on_done: Callable[[], None]) -> None:
        """Do what the request says of records that the member has."""
        asked: list[tuple[TopicIdPartition, SharePartition, dict[int, Acknowledge]]] = []
        for topic in self.request.topics:
            topic_id = TopicId(bytes(topic.topic_id))
            for each in topic.partitions:
                if each.acknowledgement_batches:
                    key = TopicIdPartition(topic_id, each.partition_index)
                    self._read_one(asked, key, each.acknowledgement_batches)
        left = len(asked) + 1

        def count_down() -> None:
            nonlocal left
            left -= 1
            if not left:
                if self.session is not None:
                    self.session.close_settled()
                on_done()

        for key, partition, wanted in asked:
            self._acknowledge_one(key, partition, wanted, count_down)
        count_down()

    def _read_one(
        self,
        asked: list[tuple[TopicIdPartition, SharePartition, dict[int, Acknowledge]]],
        key: TopicIdPartition,
        batches: Sequence[Any],
    ) -> None:
        outcome, session = self.outcome(key), self.session
        partition = None if session is None else session.find(key)
        may_renew = self.settings.renews and bool(getattr(self.request, "is_renew_ack", False))
        try:
            wanted = read_acknowledgements(batches, may_renew=may_renew)
        except BadAcknowledgement:
            outcome.acknowledge_code = ErrorCode.INVALID_REQUEST
            return
        if session is not None and key.topic_id in session.forbidden:
            outcome.acknowledge_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return
        if partition is None or self.request.share_session_epoch == BEGINS:
            outcome.acknowledge_code = ErrorCode.INVALID_RECORD_STATE
            return
        asked.append((key, partition, wanted))

    def _acknowledge_one(
        self,
        key: TopicIdPartition,
        partition: SharePartition,
        wanted: dict[int, Acknowledge],
        on_done: Callable[[], None],
    ) -> None:
        def on_acknowledged(code: ErrorCode) -> None:
            self.outcome(key).acknowledge_code = code
            on_done()

        acknowledge(self.context.doors, partition, wanted, self.settings, on_acknowledged)

    def end_session(self) -> None:
        """The member takes its leave, if it does."""
        if self.request.share_session_epoch == ENDS:
            self.context.share_sessions.end(self.member)

    def by_topic(self) -> dict[TopicId, list[tuple[int, Outcome]]]:
        """Return the outcomes in the answer's order."""
        found: dict[TopicId, list[tuple[int, Outcome]]] = {}
        for key, outcome in self.outcomes.items():
            found.setdefault(key.topic_id, []).append((key.partition, outcome))
        return found


class _Acknowledge(_SessionRequest):
    """ShareAcknowledge."""

    def begin(self) -> None:
        epoch = self.request.share_session_epoch
        code = ErrorCode.INVALID_SHARE_SESSION_EPOCH if epoch == BEGINS else self.find_session()
        if code is not ErrorCode.NONE:
            self.call.answer(
                acknowledging.ShareAcknowledgeResponse(error_code=code, error_message=None)
            )
            return
        self.take_acknowledgements(self._answer)

    def _answer(self) -> None:
        self.end_session()
        responses = [
            acknowledging.ShareAcknowledgeTopicResponse(
                topic_id=topic_id,
                partitions=[
                    acknowledging.PartitionData(
                        partition_index=index,
                        error_code=outcome.acknowledge_code,
                        error_message=None,
                        current_leader=acknowledging.LeaderIdAndEpoch(-1, -1),
                    )
                    for index, outcome in outcomes
                ],
            )
            for topic_id, outcomes in self.by_topic().items()
        ]
        self.call.answer(
            acknowledging.ShareAcknowledgeResponse(
                error_message=None,
                acquisition_lock_timeout_ms=self.settings.lock_ms,
                responses=responses,
                node_endpoints=[],
            )
        )


class _Fetch(_SessionRequest):
    """ShareFetch.

    Records are asked for beside the acknowledgements, and not behind them: both are one commit
    then. It is answered when the acknowledgements are committed.
    """

    request: ShareFetchRequest

    def __init__(self, context: Context, call: Call, request: ShareFetchRequest) -> None:
        super().__init__(context, call, request)
        self._deadline_ms = 0
        self._timer: Timer | None = None
        self._has_begun = False
        self._is_acknowledged = False
        self._is_answered = False

    def begin(self) -> None:
        code = self.find_session()
        if code is not ErrorCode.NONE or self.session is None:
            self.call.answer(
                fetching.ShareFetchResponse(
                    error_code=code, error_message=None, responses=[], node_endpoints=[]
                )
            )
            return
        self.take_acknowledgements(self._on_acknowledged)
        if self._is_reading:
            self._begin_to_read(self.session)
        self._has_begun = True
        self._go_on()

    @property
    def _is_reading(self) -> bool:
        session, request = self.session, self.request
        return request.share_session_epoch != ENDS and session is not None and not session.is_closed

    def _change_partitions(self, session: ShareSession) -> None:
        """Read what the request names, and then no more what it forgets.

        It is done in this order because acknowledgements of a forgotten partition name it, too.
        """
        for key in self._named():
            if key not in session.partitions and len(session.unopened) >= UNOPENED_MAX:
                self.outcome(key).code = ErrorCode.SHARE_SESSION_LIMIT_REACHED
            else:
                session.want(key)
        for forgotten in self.request.forgotten_topics_data:
            for index in forgotten.partitions:
                session.forget(TopicIdPartition(TopicId(bytes(forgotten.topic_id)), index))
        for key in list(session.unopened):
            self._open(session, key)

    def _named(self) -> Iterator[TopicIdPartition]:
        for topic in self.request.topics:
            topic_id = TopicId(bytes(topic.topic_id))
            for each in topic.partitions:
                yield TopicIdPartition(topic_id, each.partition_index)

    def _open(self, session: ShareSession, key: TopicIdPartition) -> None:
        """Read a partition from now on, if it may be read here; else say why not."""
        doors, rights = self.context.doors, self.call.connection.rights
        topic = doors.cluster.state.topics_by_id.get(key.topic_id)
        if topic is None:
            self.outcome(key).code = ErrorCode.UNKNOWN_TOPIC_ID
        elif rights is not None and not rights.may(Operation.READ, ResourceType.TOPIC, topic.name):
            self.outcome(key).code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not 0 <= key.partition < len(topic.partitions):
            self.outcome(key).code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not self._is_led_here(key):
            self._point_to_leader(key)
        else:
            queue = doors.cluster.state.queues.get(share_queue(self.group_id, key.topic_id))
            if queue is None or key.partition >= len(queue.partitions):
                # The group's coordinator has it made, or this broker has not heard of it yet.
                self.outcome(key).code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                session.open(key, doors, queue.topic_id)

    def _is_led_here(self, key: TopicIdPartition) -> bool:
        doors = self.context.doors
        topic = doors.cluster.state.topics_by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            return False
        group = topic.partitions[key.partition].group
        return doors.cluster.leaders.leader(group) == doors.cluster.node

    # -- records

    def _begin_to_read(self, session: ShareSession) -> None:
        self._change_partitions(session)
        if self.request.max_records <= 0:
            return
        wait_ms = min(max(0, self.request.max_wait_ms), WAIT_MS_MAX)
        self._deadline_ms = self.context.clock.now_ms() + wait_ms
        self._check_leaders(session)
        for partition in session.partitions.values():
            partition.give_back_old(self.settings.lock_ms)
        self._ask(wait_ms)

    def _on_acknowledged(self) -> None:
        self._is_acknowledged = True
        if self._has_begun:
            # Partitions that are not attached were not asked before.
            self._on_woken()

    def _check_leaders(self, session: ShareSession) -> None:
        """Partitions that are led elsewhere now are read there."""
        for key in session.partitions:
            if not self._is_led_here(key):
                self._point_to_leader(key)

    def _point_to_leader(self, key: TopicIdPartition) -> None:
        """Say that a partition is read elsewhere, and where, as far as that is known."""
        doors, outcome = self.context.doors, self.outcome(key)
        outcome.code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        topic = doors.cluster.state.topics_by_id.get(key.topic_id)
        if topic is not None:
            outcome.leader = leader_hint(doors, TopicPartition(topic.name, key.partition))

    def _ask(self, wait_ms: int) -> None:
        session, request = self.session, self.request
        if session is None:
            return
        records_max = min(request.max_records, RECORDS_MAX)
        bytes_max = min(max(1, request.max_bytes), BYTES_MAX)
        for key, partition in session.in_turn():
            if self._is_fine(key):
                partition.ask(records_max, bytes_max, wait_ms)

    def _is_fine(self, key: TopicIdPartition) -> bool:
        outcome = self.outcomes.get(key)
        return outcome is None or outcome.code is ErrorCode.NONE

    def _go_on(self) -> None:
        """Answer, if there is anything to tell or time is up; else wait."""
        session = self.session
        if self._is_answered or not self._is_acknowledged or session is None:
            return
        partitions = session.partitions.values()
        left_ms = self._deadline_ms - self.context.clock.now_ms()
        has_any = any(each.ready for each in partitions)
        is_refused = any(each.refusal is not None for each in partitions)
        has_codes = any(
            each.code is not ErrorCode.NONE or each.acknowledge_code is not ErrorCode.NONE
            for each in self.outcomes.values()
        )
        if has_any or is_refused or has_codes or left_ms <= 0 or not self._is_reading:
            self._answer()
            return
        session.wait(self._on_woken)
        if self._timer is None:
            self._timer = self.context.clock.call_later(left_ms, self._answer)

    def _on_woken(self) -> None:
        """A question is at its end, perhaps with nothing: then it is asked again."""
        left_ms = self._deadline_ms - self.context.clock.now_ms()
        if left_ms > 0 and self._is_reading and not self._is_answered:
            self._ask(left_ms)
        self._go_on()

    def _answer(self) -> None:
        if self._is_answered:
            return
        self._is_answered = True
        if self._timer is not None:
            self._timer.cancel()
        if self.session is not None and self.request.share_session_epoch != ENDS:
            if self.call.connection.is_open:
                self._hand_out(self.session)
        self.end_session()
        responses = [
            fetching.ShareFetchableTopicResponse(
                topic_id=topic_id,
                partitions=[partition_data(index, each) for index, each in outcomes],
            )
            for topic_id, outcomes in self.by_topic().items()
        ]
        self.call.answer(
            fetching.ShareFetchResponse(
                error_message=None,
                acquisition_lock_timeout_ms=self.settings.lock_ms,
                responses=responses,
                node_endpoints=self._endpoints(),
            )
        )

    def _hand_out(self, session: ShareSession) -> None:
        # It may have waited, and a rule may have gone meanwhile.
        self.apply_rights()
        left = min(self.request.max_records, RECORDS_MAX)
        for key, partition in session.in_turn():
            if partition.refusal is not None:
                code = code_of(partition.refusal)
                if code not in _PASSING:
                    self.outcome(key).code = code
                partition.refusal = None
            if left > 0 and partition.ready and self._is_fine(key):
                messages = partition.hand_out(left)
                left -= len(messages)
                self.outcome(key).messages = messages

    def _endpoints(self) -> list[fetching.NodeEndpoint]:
        nodes = {each.leader[0] for each in self.outcomes.values() if each.leader is not None}
        brokers = self.context.doors.cluster.state.brokers
        listener = self.call.connection.listener
        found: list[fetching.NodeEndpoint] = []
        for node in nodes:
            broker = brokers.get(NodeId(node))
            endpoint = None if broker is None else broker.endpoint(KAFKA, listener)
            if broker is not None and endpoint is not None:
                found.append(fetching.NodeEndpoint(node, endpoint.host, endpoint.port, broker.rack))
        return found
