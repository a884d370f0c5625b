"""`/transformations/{transformation}/try`: what a rule makes of a message; nothing is published."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.changes import Text
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.exchange_values import ExchangeQuery, Name
from kafkaesque.admin.api.messages import SHOWN_BYTES_MAX, Content, Form, show
from kafkaesque.admin.api.numbers import Number, Unsigned
from kafkaesque.admin.api.transformations import find_transformation
from kafkaesque.admin.api.values import View
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.queues.transforming import Content as Kept
from kafkaesque.broker.queues.transforming import seen_by_rules, transformed
from kafkaesque.broker.requests.queue_requests import PeekedMessages, PeekMessages
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.routing.exchanges.transformation_planner import RULE_BYTES_MAX, check_rule
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.transformations.errors import TransformationFailed
from kafkaesque.routing.transformations.rules import read_rule
from kafkaesque.routing.transformations.transformation import Transformation

#: So long the leader of a queue is looked for and waited for.
ASK_MS_MAX: Final = 2_000
_FORM: Final = Form(bytes_max=SHOWN_BYTES_MAX)

Texts = Annotated[dict[str, Text], msgspec.Meta(max_length=100)]


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule and a message: one that is given here, or one that waits in a queue."""

    #: In JSON; empty: that of the transformation, which has to exist then.
    rule: Annotated[str, msgspec.Meta(max_length=RULE_BYTES_MAX)] = ""
    headers: Texts = {}
    #: By AMQP's names, such as `content_type`.
    properties: Texts = {}
    body: Text = ""
    #: A queue of the same virtual host: its first message from an offset on, which stays there.
    queue: Name | None = None
    partition: Number = 0
    offset: Unsigned = 0


class NamedText(msgspec.Struct, frozen=True, kw_only=True):
    """A header or a property; what is no text is written in JSON."""

    name: str
    value: str


class TriedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as rules see it."""

    headers: list[NamedText]
    properties: list[NamedText]
    body: Content


class TrialView(View, frozen=True, kw_only=True):
    """What a rule makes of a message."""

    #: Whether the rule is for this message; if not, it stays as it is.
    applies: bool
    before: TriedMessage
    #: Null: a step cannot be done, and `failure` says why.
    after: TriedMessage | None
    failure: str | None
    #: Where a message goes then; empty: where it was to go.
    failures: str
    #: Of the message, if it is one of a queue.
    offset: int | None


class TrialPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def try_out(self, call: Call[ExchangeQuery, Trial]) -> None:
        """Show what a rule makes of a message."""
        body = call.body
        if body.rule:
            made = check_rule(read_rule(body.rule.encode(errors="replace")))
        else:
            made = find_transformation(self._context, call)
        if body.queue is not None:
            self._try_queued(call, made, body.queue)
            return
        message = RoutedMessage(
            headers=body.headers,
            properties=body.properties,
            body=body.body.encode(errors="replace"),
        )

        def apply() -> RoutedMessage:
            found = made.apply(message)
            return RoutedMessage(
                headers=found.headers, properties=found.properties, body=found.body
            )

        self._answer(call, made, message, apply)

    def _try_queued(
        self, call: Call[ExchangeQuery, Trial], made: Transformation, queue: str
    ) -> None:
        body, name = call.body, QueueName(call.query.vhost, queue)
        if body.headers or body.properties or body.body:
            raise InvalidRequest("give a message, or a queue that has one: not both")
        resource = queue_resource(name)
        if not call.sees(ResourceType.QUEUE, resource):
            call.refuse(404, "UnknownQueue", f"queue {name} does not exist")
            return
        found = self._context.doors.queues.find(name)
        if not call.may(Operation.READ, ResourceType.QUEUE, resource):
            refusal = call.refusal(Operation.READ, ResourceType.QUEUE, resource)
            call.refuse(403, "Forbidden", refusal)
            return
        if body.partition >= len(found.partitions):
            count = counted(len(found.partitions), "partition")
            call.refuse(404, "UnknownPartition", f"the queue has {count}")
            return

        def on_peeked(outcome: PeekedMessages | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
                return
            message = next((each.message for each in outcome.messages), None)
            if message is None:
                words = f"queue {name} has no message from offset {body.offset} on"
                call.refuse(404, "UnknownMessage", words)
                return
            kept = Kept(message.key, message.value, message.headers)

            def apply() -> RoutedMessage:
                return seen_by_rules(transformed(kept, made))

            self._answer(call, made, seen_by_rules(kept), apply, message.offset)

        request = PeekMessages(
            log_id=found.topic_id, partition=body.partition, start=body.offset, messages_max=1
        )
        self._context.doors.queues.ask(request, PeekedMessages, ASK_MS_MAX, call.later(on_peeked))

    def _answer(
        self,
        call: Call[ExchangeQuery, Trial],
        made: Transformation,
        before: RoutedMessage,
        apply: Callable[[], RoutedMessage],
        offset: int | None = None,
    ) -> None:
        after, failure = None, None
        try:
            after = _tried(apply())
        except TransformationFailed as error:
            failure = str(error)
        call.answer(
            TrialView(
                as_of=self._context.now(),
                seen_by=self._context.node,
                applies=made.applies_to(before),
                before=_tried(before),
                after=after,
                failure=failure,
                failures=made.rule.failures,
                offset=offset,
            )
        )


def trial_routes(pages: TrialPages) -> list[Route]:
    """Return the operation that tries transformations."""
    return [
        Route(
            method="POST",
            path="/transformations/{transformation}/try",
            name="tryTransformation",
            summary="What a transformation, or a rule that is given, makes of a message",
            handle=pages.try_out,
            query=ExchangeQuery,
            body=Trial,
            result=TrialView,
            is_safe=True,
        )
    ]


def _tried(message: RoutedMessage) -> TriedMessage:
    return TriedMessage(
        headers=_texts(message.headers),
        properties=_texts(message.properties),
        body=show(bytes(message.body), _FORM),
    )


def _texts(values: Mapping[str, object]) -> list[NamedText]:
    return [NamedText(name=name, value=_text(value)) for name, value in values.items()]


def _text(value: object) -> str:
    found = value if isinstance(value, str) else json.dumps(value, default=_plain)
    # Headers need not be UTF-8.
    return found.encode(errors="replace").decode()


def _plain(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
