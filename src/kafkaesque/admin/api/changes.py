"""What the API changes: topics, their options, and messages that are published."""

from __future__ import annotations

import shlex
from base64 import b64decode
from typing import Annotated, Any, Final, Literal

import msgspec

from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.numbers import Number
from kafkaesque.admin.api.topics import TopicPages
from kafkaesque.admin.api.values import View
from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.requests.commands import (
    ChangeConfig,
    ConfigChange,
    CreateTopic,
    DeleteTopic,
    ProduceResult,
)
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import InvalidRequest, InvalidTopic, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.model.records import Record

#: Within this time a change is done, or not done, or it is not known.
CHANGE_MS_MAX: Final = 10_000
PUBLISH_MS_MAX: Final = 20_000

Text = Annotated[str, msgspec.Meta(max_length=1024 * 1024)]


class DryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether to say what would be done, and do nothing."""

    dry_run: bool = False


class NewTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A topic to be created; what is not given is the brokers' default."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
    partitions: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    replication_factor: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    options: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = {}


class OptionChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options to be changed; null sets one back to its default."""

    options: Annotated[dict[str, str | None], msgspec.Meta(min_length=1, max_length=100)]


class NewHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A header of a message."""

    name: str
    value: Text | None = None


class NewMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A message to be published."""

    value: Text | None
    key: Text | None = None
    headers: Annotated[list[NewHeader], msgspec.Meta(max_length=100)] = []
    #: Null: that of the key, or without one any that has a leader.
    partition: Number | None = None
    #: How key, value and headers are written here.
    encoding: Literal["text", "base64"] = "text"


class Change(View, frozen=True, kw_only=True):
    """What was done, or would be."""

    is_dry_run: bool
    #: One sentence.
    what: str
    #: The command that does the same.
    command: str


def answer_change(
    context: Context, call: Call[Any, Any], what: str, words: list[str], status: int = 200
) -> None:
    """Answer what was done, or would be, and with the words of the command that does the same."""
    change = Change(
        as_of=context.now(),
        seen_by=context.node,
        is_dry_run=call.query.dry_run,
        what=what,
        command=shlex.join(words),
    )
    call.answer(change, status)


class Published(View, frozen=True, kw_only=True):
    """Where a message is; in a dry run, where it would go, and no offset."""

    is_dry_run: bool
    topic: str
    partition: int
    offset: int | None
    command: str


class ChangePages:
    """See the module."""

    def __init__(self, context: Context, topics: TopicPages) -> None:
        self._context = context
        self._topics = topics
        self._turn = 0

    # -- topics

    def create_topic(self, call: Call[DryRun, NewTopic]) -> None:
        """Create a topic; answered when its partitions have leaders, or the time is up."""
        body, is_dry = call.body, call.query.dry_run
        command = CreateTopic(
            name=body.name,
            partition_count=body.partitions or -1,
            replication_factor=body.replication_factor or -1,
            configs=dict(body.options),
            validate_only=is_dry,
        )
        words = ["kafkaesque", "topic", "create", body.name]
        if body.partitions is not None:
            words += ["--partitions", str(body.partitions)]
        if body.replication_factor is not None:
            words += ["--replication-factor", str(body.replication_factor)]
        for name, value in body.options.items():
            words += ["--config", f"{name}={value}"]
        what = f"topic {body.name} {'can be' if is_dry else 'is'} created"
        self._submit(call, command, what, words, status=200 if is_dry else 201)

    def delete_topic(self, call: Call[DryRun, None]) -> None:
        """Delete a topic with all that it holds."""
        topic, is_dry = self._topics.find(call), call.query.dry_run
        if topic is None:
            return
        if topic.is_internal:
            call.refuse(403, "InvalidTopic", f"{topic.name} is the brokers' own")
        elif not self._context.doors.configuration.get("delete.topic.enable"):
            call.refuse(403, "TopicDeletionDisabled", "delete.topic.enable is false")
        else:
            count = counted(len(topic.partitions), "partition")
            words = ["kafkaesque", "topic", "delete", topic.name, "--yes"]
            what = f"topic {topic.name} with its {count} "
            if is_dry:
                answer_change(self._context, call, f"{what}would be deleted for good", words)
                return
            command = DeleteTopic(topic_id=topic.topic_id)
            self._submit(call, command, f"{what}is deleted", words)

    def change_options(self, call: Call[DryRun, OptionChanges]) -> None:
        """Change options of a topic, if they are still those that the client has seen."""
        topic, is_dry = self._topics.find(call), call.query.dry_run
        if topic is None or not call.may_change(self._topics.options_of(topic)):
            return
        given = call.body.options
        changes = [
            ConfigChange(name=name, value=value, operation="delete" if value is None else "set")
            for name, value in given.items()
        ]
        words = ["kafkaesque", "topic", "alter", topic.name]
        for name, value in given.items():
            words += ["--delete-config", name] if value is None else ["--config", f"{name}={value}"]
        command = ChangeConfig(topic=topic.name, changes=changes, validate_only=is_dry)
        what = f"{', '.join(given)} of topic {topic.name} {'can be' if is_dry else 'is'} changed"
        self._submit(call, command, what, words)

    def _submit(
        self,
        call: Call[DryRun, NewTopic] | Call[DryRun, None] | Call[DryRun, OptionChanges],
        command: CreateTopic | DeleteTopic | ChangeConfig,
        what: str,
        words: list[str],
        status: int = 200,
    ) -> None:
        doors = self._context.doors

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
            elif isinstance(command, CreateTopic) and not command.validate_only:
                doors.topics.when_led(
                    command.name,
                    CHANGE_MS_MAX,
                    lambda: answer_change(self._context, call, what, words, status),
                )
            else:
                # What is asked next is to see it.
                doors.cluster.when_current(
                    CHANGE_MS_MAX, lambda _: answer_change(self._context, call, what, words, status)
                )

        doors.cluster.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)

    # -- messages

    def publish(self, call: Call[DryRun, NewMessage]) -> None:
        """Publish a message; answered when it is committed."""
        topic = self._topics.find(call)
        if topic is None:
            return
        try:
            if topic.is_internal:
                raise InvalidTopic(f"{topic.name} is written by brokers only")
            record = _record(call.body, self._context.now())
            where = TopicPartition(topic.name, self._choose(topic, call.body, record.key))
        except RequestRefused as refusal:
            call.refuse_with(refusal)
            return
        if call.query.dry_run:
            self._answer_published(call, where, None)
            return

        def on_done(outcome: ProduceResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
            else:
                self._answer_published(call, where, outcome.base_offset)

        self._context.doors.publishing.publish(
            where,
            bytes(encode_batch([record])),
            acks=-1,
            timeout_ms=PUBLISH_MS_MAX,
            on_done=on_done,
            is_wanted=lambda: True,
        )

    def _choose(self, topic: TopicState, message: NewMessage, key: bytes | None) -> int:
        count = len(topic.partitions)
        if message.partition is not None:
            if message.partition >= count:
                raise InvalidRequest(f"topic {topic.name!r} has partitions 0 to {count - 1}")
            return message.partition
        if key is not None:
            return partition_for_key(key, count)
        leaders = self._context.doors.cluster.leaders
        led = [e.partition for e in topic.partitions if leaders.leader(e.group) is not None]
        choices = led or list(range(count))
        self._turn += 1
        return choices[self._turn % len(choices)]

    def _answer_published(
        self, call: Call[DryRun, NewMessage], where: TopicPartition, offset: int | None
    ) -> None:
        published = Published(
            as_of=self._context.now(),
            seen_by=self._context.node,
            is_dry_run=call.query.dry_run,
            topic=where.topic,
            partition=where.partition,
            offset=offset,
            command=_publish_command(where.topic, call.body),
        )
        call.answer(published, 200 if offset is None else 201)


def _record(message: NewMessage, now_ms: int) -> Record:
    def read(text: str | None) -> bytes | None:
        if text is None or message.encoding == "text":
            return None if text is None else text.encode()
        try:
            return b64decode(text, validate=True)
        except ValueError:
            raise InvalidRequest("what is to be base64 is not") from None

    headers = tuple((each.name, read(each.value)) for each in message.headers)
    return Record(0, now_ms, read(message.key), read(message.value), headers)


def _publish_command(topic: str, message: NewMessage) -> str:
    words = ["kafkaesque", "publish", topic]
    if message.encoding == "base64" or message.value is None:
        return shlex.join([*words, "--format", "json", "--file", "message.jsonl"])
    if message.key is not None:
        words += ["--key", message.key]
    for each in message.headers:
        words += ["--header", f"{each.name}={each.value or ''}"]
    if message.partition is not None:
        words += ["--partition", str(message.partition)]
    return shlex.join([*words, "--", message.value])
