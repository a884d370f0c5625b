"""What one client publishes: to live subscribers, and to all that is bound to `amq.topic`.

A message is answered when all queues and topics that it goes to have committed it; answers leave in
the order in which the messages came (4.6.0-2, 4.6.0-3). Before a message of QoS 1 or 2 is told to
interest nobody, the broker finds out whether it has heard of all queues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from kafkaesque.broker.doors.live import LiveMessage
from kafkaesque.broker.metadata.client_quotas import PRODUCER_BYTE_RATE
from kafkaesque.gateway.mqtt.authorization import may_publish
from kafkaesque.gateway.mqtt.journal import Journal, Staged
from kafkaesque.gateway.mqtt.messages import publication_of, read_kept, read_publish, run_of
from kafkaesque.gateway.mqtt.names import routing_key_of
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.sys_topics import is_of_sys
from kafkaesque.model.errors import InvalidRequest, MessageTooLarge, OverBound, RequestRefused
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.exchanges import IncomingExchanges
from kafkaesque.protocols.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.exchanges.topology import DEFAULT_VHOST, NAMES_EXCHANGE

PUT_TIMEOUT_MS: Final = 30_000
_R: Final = ReasonCode
#: Refusals that would be the same again.
_LASTING: Final = (OverBound, MessageTooLarge, InvalidRequest)

#: What becomes of a message: how many have it, or why it is not everywhere.
OnOutcome = Callable[[int | RequestRefused], None]


class _Answer:
    """To one message; None: it is not known yet."""

    __slots__ = ("packet",)

    def __init__(self) -> None:
        self.packet: Puback | Pubrec | None = None


class Publishing:
    """See the module."""

    __slots__ = ("_answers", "_incoming", "_journal", "_link", "_repeats", "_run", "_under_way")

    def __init__(self, link: MqttLink, journal: Journal) -> None:
        self._link: Final = link
        self._journal: Final = journal
        #: To messages that have come, in their order.
        self._answers: Final[list[_Answer]] = []
        self._incoming: Final = IncomingExchanges()
        #: Answers to messages of QoS 2 that came again while they were on their way.
        self._repeats: Final[dict[int, list[_Answer]]] = {}
        self._under_way = 0
        #: Messages of QoS 1 to one topic, which go on together.
        self._run: list[tuple[Publish, _Answer]] = []

    @property
    def is_busy(self) -> bool:
        """Whether something is on its way."""
        return self._under_way > 0

    def resume(self, packet_ids: Sequence[int]) -> None:
        """Messages of QoS 2 that the client has sent by another connection, and not released."""
        for each in packet_ids:
            self._incoming.on_publish(each)

    # -- from the client

    def take(self, packet: Publish) -> None:
        """Publish a message; after all that came together, call `flush`."""
        self._link.desk.sys_topics.received += 1
        answer = _Answer()
        if packet.qos:
            self._answers.append(answer)
        if packet.qos == 2 and not self._incoming.on_publish(packet.packet_id):
            self._repeat(packet, answer)
            return
        reason = self._refusal_of(packet)
        if reason is not None:
            self._end(packet, answer, reason)
            return
        run = self._run
        if run and run[0][0].topic != packet.topic:
            self.flush()
        if packet.qos == 1 and not packet.retain and packet.properties is NO_PROPERTIES:
            self._run.append((packet, answer))
            return
        self.flush()
        self._publish_alone(packet, answer)

    def flush(self) -> None:
        """Let the messages go on that were taken since."""
        run = self._run
        if not run:
            return
        self._run = []
        if len(run) == 1 or not self._publish_run(run):
            for packet, answer in run:
                self._publish_alone(packet, answer)

    def _publish_run(self, run: list[tuple[Publish, _Answer]]) -> bool:
        """Publish messages together; False: it has to be one by one, and nothing is done."""
        link, topic = self._link, run[0][0].topic
        exchanges = link.desk.doors.exchanges
        try:
            key = routing_key_of(topic)
        except BadName:
            return False
        route = exchanges.plain_route(DEFAULT_VHOST, NAMES_EXCHANGE, key)
        if route is None:
            return False
        messages = run_of([packet for packet, _ in run], topic, link.client_id)
        count, size, places = len(run), sum(len(each.payload) for each, _ in run), len(route.queues)

        def on_kept(refused: dict[int, RequestRefused]) -> None:
            self._under_way -= count
            link.add_waiting(-count, -size)
            for number, (packet, answer) in enumerate(run):
                self._on_published(packet, answer, refused.get(number, places))

        if not exchanges.send_run(DEFAULT_VHOST, route, messages, on_kept):
            return False
        link.charge(PRODUCER_BYTE_RATE, size)
        self._under_way += count
        link.add_waiting(count, size)
        return True

    def _publish_alone(self, packet: Publish, answer: _Answer) -> None:
        now_ms = self._link.shared.clock.wall_ms()
        try:
            message = read_publish(packet, self._link.origin_of, now_ms)
            self._publish(packet, message, answer)
        except BadName:
            self._end(packet, answer, _R.TOPIC_NAME_INVALID)

    def _repeat(self, packet: Publish, answer: _Answer) -> None:
        """A message of QoS 2 has come before (4.3.3-10)."""
        waiting = self._repeats.get(packet.packet_id)
        if waiting is not None:
            waiting.append(answer)
        else:
            self._answer(answer, Pubrec(packet_id=packet.packet_id))

    def _refusal_of(self, packet: Publish) -> ReasonCode | None:
        if is_of_sys(packet.topic) or not may_publish(self._link, packet.topic):
            return _R.NOT_AUTHORIZED
        return None

    def _publish(self, packet: Publish, message: LiveMessage, answer: _Answer) -> None:
        link, size = self._link, len(packet.payload)
        link.charge(PRODUCER_BYTE_RATE, size)
        if packet.qos == 2:
            self._repeats[packet.packet_id] = []
        self._under_way += 1
        link.add_waiting(1, size)

        def on_published(outcome: int | RequestRefused) -> None:
            self._under_way -= 1
            link.add_waiting(-1, -size)
            self._on_published(packet, answer, outcome)

        if packet.qos == 2 and link.session is not None:
            kept = publication_of(message, packet.topic, link.client_id).message

            def on_staged(refusal: RequestRefused | None) -> None:
                on_published(1 if refusal is None else refusal)

            self._journal.stage(packet.packet_id, kept, on_staged)
        else:
            publish(link, message, packet.topic, on_published, finds_out=packet.qos > 0)

    def _on_published(
        self, packet: Publish, answer: _Answer, outcome: int | RequestRefused
    ) -> None:
        link = self._link
        if isinstance(outcome, RequestRefused):
            link.desk.say(f"a message of the client {link.client_id!r} is not kept: {outcome}")
            if packet.qos and not isinstance(outcome, _LASTING):
                # It may be kept, or could be soon: the client sends it again when it is back.
                link.fail(MqttError(_R.SERVER_BUSY, "a message could not be kept"))
                return
            is_full = isinstance(outcome, OverBound)
            reason = _R.QUOTA_EXCEEDED if is_full else _R.UNSPECIFIED_ERROR
        else:
            reason = _R.SUCCESS if outcome else _R.NO_MATCHING_SUBSCRIBERS
        self._end(packet, answer, reason)

    def _end(self, packet: Publish, answer: _Answer, reason: ReasonCode) -> None:
        """It is known what becomes of a message."""
        link, qos, packet_id = self._link, packet.qos, packet.packet_id
        if not qos or link.connection is None:
            return
        if reason.is_error and not link.is_v5:
            if reason is not _R.NOT_AUTHORIZED:
                # 3.1.1 has no way to say so: the client sends it again when it has come back.
                link.fail(MqttError(reason, "a message could not be kept"))
                return
            reason = _R.SUCCESS
        if qos == 1:
            self._answer(answer, Puback(packet_id=packet_id, reason=reason))
            return
        if reason.is_error:
            self._incoming.refuse(packet_id)
        for each in (answer, *self._repeats.pop(packet_id, ())):
            self._answer(each, Pubrec(packet_id=packet_id, reason=reason))

    def _answer(self, answer: _Answer, packet: Puback | Pubrec) -> None:
        answer.packet = packet
        answers = self._answers
        while answers and (found := answers[0].packet) is not None:
            answers.pop(0)
            self._link.send(found)

    def release(self, packet: Pubrel) -> None:
        """The client will not send a message of QoS 2 again: its packet id is free."""
        packet_id, link = packet.packet_id, self._link
        reason = self._incoming.on_pubrel(packet_id)
        if reason.is_error or link.session is None:
            link.send(Pubcomp(packet_id=packet_id, reason=reason))
        else:
            # The same id is another message from now on, and may not overtake this one.
            link.begin()
            self._journal.when_staged(packet_id, partial(self._publish_staged, packet_id))

    def _publish_staged(self, packet_id: int, staged: Staged) -> None:
        """Publish what the client has released; then PUBCOMP is sent."""
        link = self._link
        kept = read_kept(staged.record).message
        message = msgspec.structs.replace(kept, origin=link.origin_of)

        def on_published(outcome: int | RequestRefused) -> None:
            self._under_way -= 1
            if isinstance(outcome, RequestRefused):
                # The client comes back, and releases it again.
                error = MqttError(_R.UNSPECIFIED_ERROR, f"a message could not be kept: {outcome}")
                link.done(lambda: link.fail(error))
                return
            staged.taken.feed.settle(staged.taken, on_settled)

        def on_settled() -> None:
            link.done(lambda: link.send(Pubcomp(packet_id=packet_id)))

        if not may_publish(link, kept.key):
            # The rule has gone since PUBREC, and PUBCOMP has no reason for that: it is dropped.
            staged.taken.feed.settle(staged.taken, on_settled)
            return
        self._under_way += 1
        publish(link, message, message.key, on_published, finds_out=True, identity=staged.identity)


def publish(
    link: MqttLink,
    message: LiveMessage,
    topic: str,
    on_done: OnOutcome,
    *,
    finds_out: bool,
    identity: bytes = b"",
) -> None:
    """Give a message to all that want it, and keep it if its publisher wants it to be retained.

    Args:
        on_done: called once, maybe at once.
        finds_out: whether to find out what there is, where nobody seems to want it.
        identity: by which queues know it if it is published twice.

    Raises:
        BadName: the topic has too many levels.
    """
    if message.is_retained:
        on_done = _retain(link, message, on_done)

    def on_first(outcome: int | RequestRefused) -> None:
        if outcome == 0 and finds_out:
            link.desk.when_current(lambda: _pass_on(link, message, topic, identity, on_done))
        else:
            on_done(outcome)

    _pass_on(link, message, topic, identity, on_first)


def _pass_on(
    link: MqttLink, message: LiveMessage, topic: str, identity: bytes, on_done: OnOutcome
) -> None:
    doors = link.desk.doors
    if not doors.exchanges.has_names_bound:
        doors.live.publish(message, on_done)
        return
    doors.exchanges.publish(
        DEFAULT_VHOST,
        NAMES_EXCHANGE,
        (publication_of(message, topic, link.client_id, identity),),
        PUT_TIMEOUT_MS,
        lambda outcomes: on_done(outcomes[0]),
    )


def _retain(link: MqttLink, message: LiveMessage, on_done: OnOutcome) -> OnOutcome:
    """Keep a message for who subscribes later; return what to call when it is passed on."""
    outcomes: list[int | RequestRefused] = []

    def on_one(outcome: int | RequestRefused) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 2:
            refusals = [each for each in outcomes if isinstance(each, RequestRefused)]
            on_done(refusals[0] if refusals else max(1, *map(_count, outcomes)))

    # Whoever subscribes later is somebody, too.
    link.desk.doors.live.retain(message, lambda refusal: on_one(1 if refusal is None else refusal))
    return on_one


def _count(outcome: int | RequestRefused) -> int:
    return outcome if isinstance(outcome, int) else 0
