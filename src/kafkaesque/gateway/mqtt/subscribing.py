"""SUBSCRIBE and UNSUBSCRIBE of one client.

A session that is kept is bound to `amq.topic` for each filter, with all that is to be known of the
subscription as arguments of the binding; otherwise messages come live. A new subscription begins
before the old one with the same filter ends, so that nothing is lost in between (3.8.4-4). Before
either, it is noted how messages under way were sent, and no more are sent until all is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from kafkaesque.broker.doors.live import LiveMessage, Receiver
from kafkaesque.broker.doors.live import Subscription as LiveSubscription
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests.exchange_commands import BindDestination, UnbindDestination
from kafkaesque.gateway.mqtt.authorization import may_share, may_subscribe
from kafkaesque.gateway.mqtt.delivering import Delivering
from kafkaesque.gateway.mqtt.desk import TIMEOUT_MS
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.retained_keeping import RetainedKeeping
from kafkaesque.gateway.mqtt.sessions import Session
from kafkaesque.gateway.mqtt.shares import QOS_MAX, Shares
from kafkaesque.gateway.mqtt.subscriptions import (
    SUBSCRIPTIONS_MAX,
    Subscribed,
    read_binding,
)
from kafkaesque.gateway.mqtt.sys_topics import is_of_sys
from kafkaesque.model.errors import OverBound, RequestRefused
from kafkaesque.protocols.mqtt.errors import MqttError, protocol_error
from kafkaesque.protocols.mqtt.filters import filter_reason, is_shared
from kafkaesque.protocols.mqtt.packets import (
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.topology import NAMES_EXCHANGE

_R: Final = ReasonCode
_GRANTED: Final = (_R.SUCCESS, _R.GRANTED_QOS_1, _R.GRANTED_QOS_2)

#: What is to be said of one filter.
OnReason = Callable[[ReasonCode], None]


class Subscribing(Receiver):
    """See the module."""

    __slots__ = ("_by_live", "_coming", "_delivering", "_keeping", "_link", "_shares")

    def __init__(
        self, link: MqttLink, delivering: Delivering, shares: Shares, keeping: RetainedKeeping
    ) -> None:
        self._link: Final = link
        self._keeping: Final = keeping
        self._shares: Final = shares
        self._delivering: Final = delivering
        self._by_live: Final[dict[LiveSubscription, Subscribed]] = {}
        #: New filters that the cluster is asked to keep; they count for the bound.
        self._coming: Final[set[str]] = set()

    # -- from live publishers

    def on_message(self, message: LiveMessage, subscriptions: Sequence[LiveSubscription]) -> None:
        """See `Receiver`."""
        by_live = self._by_live
        found = [by_live[each] for each in subscriptions if each in by_live]
        self._delivering.on_live(message, found)

    # -- a session that is resumed

    def resume(self, session: Session) -> None:
        """Take up the subscriptions that a session has."""
        link = self._link
        vhost = link.desk.doors.exchanges.vhost(DEFAULT_VHOST)
        for binding in vhost.bindings_to(Destination(session.queue.queue.name)):
            subscribed = read_binding(binding)
            if subscribed is not None:
                link.subscriptions.put(subscribed)
        for topic_filter, (qos, identifier) in session.record.shared.items():
            options = Subscription(topic_filter=topic_filter, qos=qos)
            try:
                subscribed = Subscribed(options, identifier)
            except BadName:
                # Not what a client has subscribed to.
                continue
            link.subscriptions.put(subscribed)
            if not may_share(link, subscribed.pattern):
                # It is asked again when the client comes back.
                continue
            expiry_s = session.record.expiry_s
            self._shares.subscribe(subscribed.group, subscribed, expiry_s, self._on_resumed)

    def _on_resumed(self, refusal: RequestRefused | None) -> None:
        if refusal is not None:
            link = self._link
            link.desk.say(f"the client {link.client_id!r} lost a shared subscription: {refusal}")

    # -- SUBSCRIBE

    def subscribe(self, packet: Subscribe) -> None:
        """Subscribe to each filter, and answer when all are done."""
        link = self._link
        if any(is_shared(each.topic_filter) and each.no_local for each in packet.subscriptions):
            link.fail(protocol_error("a shared subscription with no local (3.8.3-4)"))
            return
        reasons: list[ReasonCode] = [_R.UNSPECIFIED_ERROR] * len(packet.subscriptions)
        old = {each.options.topic_filter for each in link.subscriptions}
        left = len(packet.subscriptions)
        identifiers = packet.properties.subscription_identifiers
        identifier = identifiers[0] if identifiers else 0

        def on_one(number: int, reason: ReasonCode) -> None:
            nonlocal left
            reasons[number] = reason
            left -= 1
            if not left:
                self._promise(packet, reasons, old)

        link.begin()
        last = {each.topic_filter: at for at, each in enumerate(packet.subscriptions)}
        for number, each in enumerate(packet.subscriptions):
            if last[each.topic_filter] == number:
                self._subscribe(each, identifier, partial(on_one, number))
            else:
                # Another one takes its place at once.
                reason = filter_reason(each.topic_filter)
                on_one(number, reason if reason.is_error else _GRANTED[each.qos])

    def _promise(self, packet: Subscribe, reasons: list[ReasonCode], old: set[str]) -> None:
        """Answer once it is committed that the session gets what is retained."""
        link = self._link
        wanting = self._wanting_retained(packet, reasons, old)
        kept = [each for each in wanting if each.options.qos and each.watcher is None]
        if link.session is None or not kept:
            link.done(lambda: self._confirm(packet, reasons, wanting))
            return

        def on_kept(refusal: RequestRefused | None) -> None:
            if refusal is None:
                link.done(lambda: self._confirm(packet, reasons, wanting))
            else:
                # Some of it may be there: the client subscribes again when it is back.
                what = f"retained messages cannot be kept: {refusal}"
                link.done(lambda: link.fail(MqttError(_R.SERVER_BUSY, what)))
            self._delivering.end_change()

        # They come behind SUBACK, as most brokers have it.
        self._delivering.begin_change()
        self._keeping.begin(kept, on_kept)

    def _wanting_retained(
        self, packet: Subscribe, reasons: list[ReasonCode], old: set[str]
    ) -> list[Subscribed]:
        """Return new subscriptions that are to be sent what is retained (3.3.1-9 to 3.3.1-11)."""
        found = []
        for each, reason in zip(packet.subscriptions, reasons, strict=True):
            subscribed = self._link.subscriptions.get(each.topic_filter)
            if reason.is_error or subscribed is None or subscribed.options is not each:
                continue
            is_new = each.topic_filter not in old
            is_wanted = each.retain_handling == 0 or (each.retain_handling == 1 and is_new)
            if is_wanted and not subscribed.group:
                found.append(subscribed)
        return found

    def _confirm(
        self, packet: Subscribe, reasons: list[ReasonCode], wanting: list[Subscribed]
    ) -> None:
        link = self._link
        if not link.is_v5:
            reasons = [_R.UNSPECIFIED_ERROR if each.is_error else each for each in reasons]
        link.send(Suback(packet_id=packet.packet_id, reasons=tuple(reasons)))
        for each in wanting:
            self._send_retained(each)

    def _send_retained(self, subscribed: Subscribed) -> None:
        if subscribed.watcher is None:
            self._delivering.send_retained(subscribed)
            return
        for message in self._link.desk.sys_topics.now(subscribed.name_filter):
            self._delivering.send_number(message, subscribed)

    def _subscribe(self, wanted: Subscription, identifier: int, on_done: OnReason) -> None:
        link, topic_filter = self._link, wanted.topic_filter
        reason = filter_reason(topic_filter)
        if reason.is_error:
            on_done(reason)
            return
        before = link.subscriptions.get(topic_filter)
        count = len(link.subscriptions) + len(self._coming)
        if before is None and topic_filter not in self._coming and count >= SUBSCRIPTIONS_MAX:
            on_done(_R.QUOTA_EXCEEDED)
            return
        try:
            subscribed = Subscribed(wanted, identifier)
        except BadName:
            on_done(_R.TOPIC_FILTER_INVALID)
            return
        may = may_share if subscribed.group else may_subscribe
        if not may(link, subscribed.pattern):
            on_done(_R.NOT_AUTHORIZED)
        elif is_of_sys(subscribed.pattern):
            self._watch(subscribed, before, on_done)
        elif subscribed.group:
            self._share(subscribed, self._count(subscribed, on_done))
        elif link.session is None:
            self._go_live(subscribed, before, on_done)
        else:
            self._bind(link.session, subscribed, before, self._count(subscribed, on_done))

    def _count(self, subscribed: Subscribed, on_done: OnReason) -> OnReason:
        """Count a subscription as coming until it is there or refused."""
        topic_filter = subscribed.options.topic_filter
        if self._link.subscriptions.get(topic_filter) is not None:
            return on_done
        self._coming.add(topic_filter)

        def on_counted(reason: ReasonCode) -> None:
            self._coming.discard(topic_filter)
            on_done(reason)

        return on_counted

    # -- the broker's own numbers

    def _watch(self, subscribed: Subscribed, before: Subscribed | None, on_done: OnReason) -> None:
        if subscribed.group:
            on_done(_R.TOPIC_FILTER_INVALID)
            return
        self._unwatch(before)
        watcher = subscribed.watcher = partial(self._on_number, subscribed)
        link = self._link
        link.desk.sys_topics.watch(subscribed.name_filter, watcher)
        link.subscriptions.put(subscribed)
        on_done(_R.SUCCESS)

    def _on_number(self, subscribed: Subscribed, message: LiveMessage) -> None:
        self._delivering.send_number(message, subscribed)

    def _unwatch(self, subscribed: Subscribed | None) -> None:
        if subscribed is not None and subscribed.watcher is not None:
            self._link.desk.sys_topics.unwatch(subscribed.watcher)

    # -- shared

    def _share(self, subscribed: Subscribed, on_done: OnReason) -> None:
        link, session = self._link, self._link.session
        granted = _GRANTED[min(subscribed.options.qos, QOS_MAX)]

        def on_there(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                self._refuse(refusal, on_done)
                return
            link.subscriptions.put(subscribed)
            if session is None:
                on_done(granted)
            else:
                self._keep_shared(session, lambda: on_done(granted))

        expiry_s = 0 if session is None else session.record.expiry_s
        self._shares.subscribe(subscribed.group, subscribed, expiry_s, on_there)

    def _keep_shared(self, session: Session, then: Callable[[], None]) -> None:
        """Have the session say what it shares, so that it goes on with it when it is resumed."""
        shared = {
            each.options.topic_filter: (each.options.qos, each.identifier)
            for each in self._link.subscriptions
            if each.group
        }
        if shared == session.record.shared:
            then()
        else:
            session.change(msgspec.structs.replace(session.record, shared=shared), then)

    def _refuse(self, refusal: RequestRefused, on_done: OnReason) -> None:
        link = self._link
        link.desk.say(f"the client {link.client_id!r} cannot subscribe: {refusal}")
        is_many = isinstance(refusal, OverBound)
        on_done(_R.QUOTA_EXCEEDED if is_many else _R.UNSPECIFIED_ERROR)

    # -- live

    def _go_live(
        self, subscribed: Subscribed, before: Subscribed | None, on_done: OnReason
    ) -> None:
        link = self._link
        granted = _GRANTED[subscribed.options.qos]
        is_kept = False

        def on_confirmed() -> None:
            if is_kept:
                on_done(granted)

        try:
            live = link.desk.doors.live.subscribe(subscribed.name_filter, self, on_confirmed)
        except OverBound:
            on_done(_R.QUOTA_EXCEEDED)
            return
        self._by_live[live] = subscribed
        subscribed.live = live
        link.subscriptions.put(subscribed)
        self._end_live(before)
        is_kept = True
        if live.is_confirmed:
            on_done(granted)

    def _end_live(self, subscribed: Subscribed | None) -> None:
        live = None if subscribed is None else subscribed.live
        if live is not None:
            live.end()
            self._by_live.pop(live, None)

    # -- kept

    def _bind(
        self,
        session: Session,
        subscribed: Subscribed,
        before: Subscribed | None,
        on_done: OnReason,
    ) -> None:
        link = self._link
        granted = _GRANTED[subscribed.options.qos]
        key, arguments = _binding(subscribed)
        is_same = before is not None and _binding(before) == (key, arguments)

        on_changed = on_done if is_same else self._begin_change(on_done)

        def on_noted(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                self._refuse(refusal, on_changed)
            elif link.is_over:
                # Another connection may have the session by now.
                on_changed(_R.UNSPECIFIED_ERROR)
            else:
                self._submit(command, on_bound)

        def on_bound(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                self._refuse(refusal, on_changed)
                return
            link.subscriptions.put(subscribed)
            if is_same:
                on_changed(granted)
            else:
                # Some may have come meanwhile.
                self._delivering.keep_as_sent(subscribed, on_noted_again)

        def on_noted_again(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                # As if nobody had asked.
                link.subscriptions.remove(subscribed.options.topic_filter)
                if before is not None:
                    link.subscriptions.put(before)
                self._unbind(session, subscribed, lambda _: self._refuse(refusal, on_changed))
            elif before is not None:
                self._unbind(session, before, lambda _: on_changed(granted))
            else:
                on_changed(granted)

        command = BindDestination(
            vhost=DEFAULT_VHOST,
            source=NAMES_EXCHANGE,
            destination=Destination(session.queue.queue.name),
            key=key,
            arguments=arguments,
        )
        if is_same:
            on_noted(None)
        else:
            self._delivering.keep_as_sent(subscribed, on_noted)

    def _unbind(
        self,
        session: Session,
        subscribed: Subscribed,
        on_done: Callable[[RequestRefused | None], None],
    ) -> None:
        key, arguments = _binding(subscribed)
        command = UnbindDestination(
            vhost=DEFAULT_VHOST,
            source=NAMES_EXCHANGE,
            destination=Destination(session.queue.queue.name),
            key=key,
            arguments=arguments,
        )
        self._submit(command, on_done)

    def _submit(
        self,
        command: BindDestination | UnbindDestination,
        on_done: Callable[[RequestRefused | None], None],
    ) -> None:
        desk = self._link.desk

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
            else:
                # The client may publish at once.
                desk.when_current(lambda: on_done(None))

        desk.doors.exchanges.submit(command, TIMEOUT_MS, on_outcome)

    # -- UNSUBSCRIBE

    def unsubscribe(self, packet: Unsubscribe) -> None:
        """End subscriptions, and answer when all are ended."""
        link = self._link
        reasons: list[ReasonCode] = [_R.SUCCESS] * len(packet.topic_filters)
        left = len(packet.topic_filters)

        def on_one(number: int, reason: ReasonCode) -> None:
            nonlocal left
            reasons[number] = reason
            left -= 1
            if not left:
                answer = Unsuback(packet_id=packet.packet_id, reasons=tuple(reasons))
                link.done(lambda: link.send(answer))

        link.begin()
        for number, topic_filter in enumerate(packet.topic_filters):
            self._unsubscribe(topic_filter, partial(on_one, number))

    def _unsubscribe(self, topic_filter: str, on_done: OnReason) -> None:
        link = self._link
        subscribed = link.subscriptions.remove(topic_filter)
        if subscribed is None:
            reason = filter_reason(topic_filter)
            on_done(reason if reason.is_error else _R.NO_SUBSCRIPTION_EXISTED)
        elif subscribed.watcher is not None:
            self._unwatch(subscribed)
            on_done(_R.SUCCESS)
        elif subscribed.group:
            session = link.session

            def on_left() -> None:
                if session is None:
                    on_done(_R.SUCCESS)
                else:
                    self._keep_shared(session, lambda: on_done(_R.SUCCESS))

            self._shares.unsubscribe(topic_filter, on_left)
        elif link.session is None:
            self._end_live(subscribed)
            on_done(_R.SUCCESS)
        else:
            self._end_binding(link.session, subscribed, on_done)

    def _begin_change(self, on_done: OnReason) -> OnReason:
        """Send nothing of the session's queue until what is returned is called."""

        def on_changed(reason: ReasonCode) -> None:
            self._delivering.end_change()
            on_done(reason)

        self._delivering.begin_change()
        return on_changed

    def _end_binding(self, session: Session, subscribed: Subscribed, on_done: OnReason) -> None:
        on_changed = self._begin_change(on_done)

        def on_noted(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                # As if nobody had asked. UNSUBACK cannot say that there is too much of anything.
                self._link.subscriptions.put(subscribed)
                self._refuse(refusal, lambda _: on_changed(_R.UNSPECIFIED_ERROR))
            elif self._link.is_over:
                on_changed(_R.UNSPECIFIED_ERROR)
            else:
                self._unbind(session, subscribed, on_unbound)

        def on_unbound(refusal: RequestRefused | None) -> None:
            on_changed(_R.SUCCESS if refusal is None else _R.UNSPECIFIED_ERROR)

        self._delivering.keep_as_sent(subscribed, on_noted)

    # -- the end

    def end(self) -> None:
        """The client is gone."""
        for subscribed in self._link.subscriptions:
            self._unwatch(subscribed)
        for each in list(self._by_live):
            each.end()
        self._by_live.clear()


def _binding(subscribed: Subscribed) -> tuple[str, dict[str, object]]:
    return subscribed.binding_key, subscribed.binding_arguments
