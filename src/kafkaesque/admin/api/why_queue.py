"""Why a message of a queue waits: gathers the facts from the queue's leader."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.why_clients import WhyClientsAnswer, writer_links
from kafkaesque.admin.api.why_inquiry import Inquiry
from kafkaesque.admin.api.why_queue_links import Burial, QueueFacts, burial_of, group_of
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.effective_options import effective_options
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.requests.queue_requests import (
    AskQueue,
    PeekedMessage,
    PeekedMessages,
    PeekMessages,
    QueueCounts,
)
from kafkaesque.model.errors import RequestRefused, UnknownQueue
from kafkaesque.model.ids import NodeId

#: Earlier messages among which one of the same group is looked for, and dead letters.
AHEAD_MAX: Final = 1_000
LETTERS_MAX: Final = 1_000
PEEKED_BYTES_MAX: Final = 1024 * 1024

OnFacts = Callable[[QueueFacts], None]


class QueueInquiry:
    """One question about one message: the counts, the message, and what may hold it up."""

    def __init__(
        self,
        inquiry: Inquiry,
        call: Call[Any, Any],
        queue: QueueState,
        partition: int,
        offset: int,
        on_facts: OnFacts,
    ) -> None:
        state, context = queue.partitions[partition], inquiry.context
        leader = context.doors.cluster.leaders.leader(state.group)
        self._inquiry = inquiry
        self._context = context
        self._call = call
        self._queue = queue
        self._partition = partition
        self._on_facts = on_facts
        self._facts = QueueFacts(
            name=queue.queue,
            offset=offset,
            partition=partition,
            options=effective_options(context.doors.cluster.state, queue),
            replicas=list(state.replicas),
            leader=None if leader is None else int(leader),
            lost=inquiry.lost(state.replicas),
        )

    def start(self) -> None:
        """Ask; `on_facts` is called once."""
        if self._facts.leader is None:
            self._on_facts(self._facts)
            return
        request = AskQueue(log_id=self._queue.topic_id, partition=self._partition)
        left_ms = self._inquiry.left_ms()
        on_counts = self._call.later(self._on_counts)
        self._context.doors.queues.ask(request, QueueCounts, left_ms, on_counts)

    def _on_counts(self, outcome: QueueCounts | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            self._on_facts(replace(self._facts, refusal=str(outcome)))
            return
        self._facts = replace(self._facts, counts=outcome)
        self._peek(self._queue, self._partition, self._facts.offset, 1, self._on_message)

    def _on_message(self, outcome: PeekedMessages | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            self._on_facts(replace(self._facts, counts=None, refusal=str(outcome)))
            return
        offset = self._facts.offset
        found = next((e for e in outcome.messages if e.message.offset == offset), None)
        self._facts = replace(self._facts, message=found)
        if found is None:
            self._look_for_burial()
        elif found.place == "ready" and group_of(found) and self._is_ordered:
            first = 0 if self._facts.counts is None else self._facts.counts.floor
            self._peek(
                self._queue,
                self._partition,
                first,
                AHEAD_MAX,
                lambda outcome: self._on_ahead(found, outcome),
            )
        else:
            self._on_facts(self._facts)

    @property
    def _is_ordered(self) -> bool:
        return self._facts.options.get("ordered.groups") == "true"

    def _on_ahead(self, found: PeekedMessage, outcome: PeekedMessages | RequestRefused) -> None:
        is_seen = False
        if not isinstance(outcome, RequestRefused):
            group = group_of(found)
            for each in outcome.messages:
                is_seen = is_seen or each.message.offset >= found.message.offset
                is_before = each.message.offset < found.message.offset
                if is_before and group_of(each) == group and each.place != "parked":
                    self._facts = replace(self._facts, ahead=each)
                    break
        if self._facts.ahead is None and not is_seen:
            self._facts = replace(self._facts, is_order_known=False)
        self._on_facts(self._facts)

    # -- what was not put yet

    def _look_at_writers(self) -> None:
        """Find out whether the leader's disk is full, and who was kept from publishing."""
        leader, resource = self._facts.leader, queue_resource(self._queue.queue)
        needs = [(Operation.WRITE, ResourceType.QUEUE, resource)]

        def on_clients(clients: WhyClientsAnswer) -> None:
            writers = tuple(writer_links(clients, self._queue.queue.name))
            self._facts = replace(self._facts, writers=writers)
            self._on_facts(self._facts)

        def on_refusal(refusal: str | None) -> None:
            self._facts = replace(self._facts, disk_refusal=refusal)
            self._inquiry.clients(needs, on_clients)

        self._inquiry.disk_refusal(NodeId(leader or 0), on_refusal)

    # -- dead letters

    def _look_for_burial(self) -> None:
        word, counts = self._facts.options.get("dead.letter.queue"), self._facts.counts
        if counts is not None and self._facts.offset >= counts.end:
            self._look_at_writers()
            return
        if not word or counts is None:
            self._on_facts(self._facts)
            return
        name = QueueName(self._queue.queue.vhost, word)
        is_seen = self._call.sees(ResourceType.QUEUE, queue_resource(name))
        try:
            letters = self._context.doors.queues.find(name)
        except UnknownQueue:
            is_seen = False
        if not is_seen:
            self._on_facts(self._facts)
            return
        self._look_at_letters(word, letters)

    def _look_at_letters(self, word: str, letters: QueueState) -> None:
        """Look into all partitions at the same time: together they show as much as one."""
        count = left = len(letters.partitions)

        def on_letters(outcome: PeekedMessages | RequestRefused) -> None:
            nonlocal left
            found = [] if isinstance(outcome, RequestRefused) else outcome.messages
            for each in found:
                death = burial_of(each, self._queue.queue, self._partition, self._facts.offset)
                if death is not None:
                    reason, attempts, at_ms = death
                    burial = Burial(queue=word, reason=reason, attempts=attempts, at_ms=at_ms)
                    self._facts = replace(self._facts, burial=burial)
            left -= 1
            if not left:
                self._on_facts(self._facts)

        for number in range(count):
            self._peek(letters, number, 0, LETTERS_MAX // count, on_letters, share=count)

    def _peek(
        self,
        queue: QueueState,
        partition: int,
        start: int,
        most: int,
        on_done: Callable[[PeekedMessages | RequestRefused], None],
        *,
        share: int = 1,
    ) -> None:
        request = PeekMessages(
            log_id=queue.topic_id,
            partition=partition,
            start=start,
            messages_max=most,
            bytes_max=PEEKED_BYTES_MAX // share,
        )
        left_ms = self._inquiry.left_ms()
        on_peeked = self._call.later(on_done)
        self._context.doors.queues.ask(request, PeekedMessages, left_ms, on_peeked)
