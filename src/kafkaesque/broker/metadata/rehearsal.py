"""Plans several commands one after the other, and changes nothing: can all of them be done?

Theory of operation. A command is planned on a draft of the state, and its records are applied
there, so that the next one finds what it needs. The draft has all topics and queues, which cost
little to list again. Of exchanges, bindings and transformations it has what the commands name: a
copy of a million bindings would hold up the broker. So how many there may be is not checked, nor
where replicas go.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.exchange_planner import plan_exchanges
from kafkaesque.broker.metadata.queue_planner import plan_queue
from kafkaesque.broker.metadata.records import AnyMetadataRecord, TopicCreated
from kafkaesque.broker.metadata.topic_planner import check_new_topic
from kafkaesque.broker.options.queues import TRANSFORMATION_OUT
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    DeclareExchange,
    ExchangeCommand,
    PutTransformation,
)
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.model.ids import TopicId
from kafkaesque.routing.exchanges.kinds import TRANSFORMATION
from kafkaesque.routing.exchanges.records import Destination, QueueAdded, VhostAdded
from kafkaesque.routing.exchanges.topology import Vhost

_TOPIC_ID_BYTES: Final = 16


class Rehearsal:
    """See the module."""

    def __init__(self, state: ClusterState) -> None:
        self._state: Final = state
        self._draft: Final = ClusterState(
            brokers=dict(state.brokers),
            topics=dict(state.topics),
            queues=dict(state.queues),
            topic_views=dict(state.topic_views),
            features=dict(state.features),
        )
        self._brought: Final[set[str]] = set()
        self._numbers: Final = count(1)

    def plan(self, command: object) -> None:
        """Plan a command after those before it; only what exchanges, queues and topics need.

        Raises:
            RequestRefused, ConfigError: it cannot be done.
        """
        if isinstance(command, ExchangeCommand):
            self._bring(command)
            self._apply(plan_exchanges(self._draft, command, 0))
            return
        match command:
            case CreateQueue():
                vhost = self._vhost(command.vhost)
                self._bring_rule(vhost, command.options.get(TRANSFORMATION_OUT))
                _, records = plan_queue(
                    self._draft,
                    command,
                    place=lambda _: (),
                    number=lambda _: (),
                    new_id=self._new_id,
                    wall_ms=0,
                )
                self._apply(records)
            case CreateTopic():
                check_new_topic(self._draft, command)
                record = TopicCreated(name=command.name, topic_id=self._new_id(), partitions=())
                self._apply([record])
            case _:
                pass

    def _apply(self, records: Iterable[AnyMetadataRecord]) -> None:
        for record in records:
            self._draft.apply(record)

    def _new_id(self) -> TopicId:
        return TopicId(next(self._numbers).to_bytes(_TOPIC_ID_BYTES, "big"))

    # -- what is there already

    def _bring(self, command: ExchangeCommand) -> None:
        vhost = self._vhost(command.vhost)
        match command:
            case DeclareExchange():
                self._bring_end(vhost, Destination(command.name, True))
            case PutTransformation():
                self._bring_rule(vhost, command.name)
                self._bring_end(vhost, Destination(command.rule.failures))
            case BindDestination():
                self._bring_end(vhost, Destination(command.source, True))
                self._bring_end(vhost, command.destination)
                self._bring_rule(vhost, command.arguments.get(TRANSFORMATION))
            case _:
                pass

    def _vhost(self, name: str) -> Vhost | None:
        """Return what is there of a virtual host, having brought it into the draft."""
        known = self._state.routing.vhosts.get(name)
        if known is not None and name not in self._brought:
            self._brought.add(name)
            self._draft.routing.apply(VhostAdded(vhost=name))
            self._draft.routing.vhost(name).policies = known.policies
        return known

    def _bring_end(self, known: Vhost | None, end: Destination) -> None:
        if known is None or end.is_topic or not known.has(end):
            return
        routing = self._draft.routing
        if routing.vhost(known.name).has(end):
            return
        if end.is_exchange:
            routing.apply(known.exchanges[end.name].definition)
        else:
            topic = known.streams.get(end.name, "")
            routing.apply(QueueAdded(vhost=known.name, name=end.name, topic=topic))

    def _bring_rule(self, known: Vhost | None, name: object) -> None:
        if known is None or not isinstance(name, str):
            return
        made = known.transformations.get(name)
        if made is not None:
            self._draft.routing.vhost(known.name).transformations.setdefault(name, made)
