"""Queues themselves: making, finding, listing and deleting them; their attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_commands import CreateQueue, DeleteQueue
from kafkaesque.chassis.known import when_known
from kafkaesque.gateway.sqs.attributes import (
    QueueOptions,
    changed,
    changed_options,
    invalid_attribute,
    new_options,
)
from kafkaesque.gateway.sqs.authorization import Need, find_refusal
from kafkaesque.gateway.sqs.call import NO_QUEUE, Call, RequestT
from kafkaesque.gateway.sqs.changing import Changing
from kafkaesque.gateway.sqs.data_changes import tell_change
from kafkaesque.gateway.sqs.finding import QueueFinder, is_served
from kafkaesque.gateway.sqs.tags import check_tags
from kafkaesque.model.errors import QueueExists, RequestRefused
from kafkaesque.protocols.sqs import service as s
from kafkaesque.protocols.sqs.errors import SqsError, invalid_value
from kafkaesque.protocols.sqs.names import (
    ACCOUNT,
    check_queue_name,
    is_fifo_name,
    is_queue_name,
    read_handle,
    read_url,
    write_arn,
    write_handle,
)

TIMEOUT_MS: Final = 20_000
#: So often it is looked whether this broker has heard of a queue that was made.
LOOK_AGAIN_MS: Final = 10
#: A queue can be purged, and made again under its name, only so long after the last time.
PURGED_MS: Final = 60_000
DELETED_MS: Final = 60_000
#: Queues that this broker remembers to have purged or deleted.
REMEMBERED_MAX: Final = 10_000
LISTED_MAX: Final = 1_000


class Recently:
    """What was done within a time, at this broker."""

    __slots__ = ("_done_ms", "_ms")

    def __init__(self, ms: int) -> None:
        self._ms = ms
        self._done_ms: dict[str, int] = {}

    def note(self, name: str, now_ms: int) -> None:
        """It was done now."""
        if len(self._done_ms) >= REMEMBERED_MAX:
            self._done_ms.clear()
        self._done_ms[name] = now_ms

    def forget(self, name: str) -> None:
        """It was not done after all, as far as is known."""
        self._done_ms.pop(name, None)

    def is_recent(self, name: str, now_ms: int) -> bool:
        """Tell whether it was done a short while ago."""
        done_ms = self._done_ms.get(name)
        return done_ms is not None and now_ms - done_ms < self._ms


class Managing:
    """See the module."""

    __slots__ = ("_changing", "_deleted", "_doors", "_finder", "_purged")

    def __init__(self, doors: Doors, finder: QueueFinder, changing: Changing) -> None:
        self._doors = doors
        self._finder = finder
        self._changing = changing
        self._purged = Recently(PURGED_MS)
        self._deleted = Recently(DELETED_MS)

    # -- making and deleting

    def create(self, call: Call[s.CreateQueueRequest]) -> None:
        """Let a queue exist; one that is there with the same attributes is well.

        Raises:
            SqsError: the name or an attribute is not allowed.
        """
        request = call.request
        name = request.queue_name
        check_queue_name(name)
        check_tags(request.tags)
        options = new_options(name, request.attributes, request.tags)

        def make() -> None:
            if self._deleted.is_recent(name, self._doors.clock.now_ms()):
                raise SqsError(
                    "QueueDeletedRecently",
                    "You must wait 60 seconds after deleting a queue before you can create another "
                    "with the same name.",
                )
            command = CreateQueue(vhost=DEFAULT_VHOST, name=name, options=options)
            self._doors.cluster.submit(call.sign(command), TIMEOUT_MS, on_made)

        def on_made(outcome: object) -> None:
            if isinstance(outcome, QueueExists):
                # Somebody has made it at the same time; or it is one that is not for SQS.
                taken = SqsError("QueueNameExists", str(outcome))
                call.try_to(
                    lambda: self._finder.find_or(
                        call,
                        name,
                        lambda found: _expect_equal(call, found),
                        lambda: call.fail(taken),
                    )
                )
            elif isinstance(outcome, RequestRefused):
                call.fail(outcome)
            else:
                self._when_seen(call, name)

        def go_on() -> None:
            self._finder.find_or(call, name, lambda found: _expect_equal(call, found), make)

        self._with_dead_letters(call, name, request.attributes, options, go_on)

    def _when_seen(self, call: Call[s.CreateQueueRequest], name: str) -> None:
        """Answer once this broker knows the queue: the client will use it at once."""
        when_known(
            self._doors.clock,
            lambda: self._finder.look(name) is not None,
            lambda _: call.done(s.CreateQueueResult(queue_url=call.url_of(name))),
            timeout_ms=TIMEOUT_MS,
            every_ms=LOOK_AGAIN_MS,
        )

    def _with_dead_letters(
        self,
        call: Call[RequestT],
        name: str,
        attributes: Mapping[str, str],
        changes: Mapping[str, str | None],
        then: Callable[[], None],
    ) -> None:
        """Go on if the queue may have its dead letters where it is said to have them.

        Raises:
            SqsError: the client may not write there.
        """
        target, said = changes.get("dead.letter.queue"), attributes.get("RedrivePolicy", "")
        if not target:
            then()
            return
        # First: whoever may not write there is not told whether there is such a queue.
        refusal = find_refusal(call.rights, Need(Operation.WRITE, target))
        if refusal is not None:
            raise refusal

        def refuse(why: str) -> SqsError:
            return invalid_attribute("RedrivePolicy", said, why)

        def on_found(found: QueueState) -> None:
            options = QueueOptions(found.options)
            if is_fifo_name(name) != options.is_fifo:
                raise refuse("Dead-letter queue must be same type of queue as the source")
            if not options.allows_source(name):
                raise refuse(
                    "Queue does not have permission to use the given queue as a dead letter queue"
                )
            then()

        self._finder.find_or(
            call, target, on_found, lambda: call.fail(refuse("Dead letter target does not exist"))
        )

    def delete(self, call: Call[s.DeleteQueueRequest]) -> None:
        """Delete a queue with all it holds.

        Raises:
            SqsError: the URL is none.
        """
        name = read_url(call.request.queue_url)

        def go_on(_: QueueState) -> None:
            command = DeleteQueue(vhost=DEFAULT_VHOST, name=name)
            self._doors.cluster.submit(call.sign(command), TIMEOUT_MS, on_deleted)

        def on_deleted(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.fail(outcome)
                return
            self._deleted.note(name, self._doors.clock.now_ms())
            call.done()

        self._finder.find(call, name, go_on)

    def purge(self, call: Call[s.PurgeQueueRequest]) -> None:
        """Remove all messages, also those in flight; answered when they are gone.

        Raises:
            SqsError: the URL is none.
        """
        name = read_url(call.request.queue_url)

        def go_on(queue: QueueState) -> None:
            now_ms = self._doors.clock.now_ms()
            if self._purged.is_recent(name, now_ms):
                raise SqsError(
                    "PurgeQueueInProgress",
                    f"Only one PurgeQueue operation on {name} is allowed every 60 seconds.",
                )
            self._purged.note(name, now_ms)
            request = q.PurgeQueue(log_id=queue.topic_id, takes_in_flight=True)
            self._doors.queues.ask_whole(request, Done, TIMEOUT_MS, on_purged)

        def on_purged(outcome: Done | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                self._purged.forget(name)
            tell_change(self._doors, call, DataChange.PURGE, name, outcome)
            _answer(call, outcome)

        self._finder.find(call, name, go_on)

    # -- finding

    def get_url(self, call: Call[s.GetQueueUrlRequest]) -> None:
        """Say a queue's URL.

        Raises:
            SqsError: it is said to be of an account that there is not.
        """
        name, owner = call.request.queue_name, call.request.queue_owner_aws_account_id
        if owner not in (None, ACCOUNT):
            raise SqsError("QueueDoesNotExist", NO_QUEUE)
        self._finder.find(
            call, name, lambda _: call.done(s.GetQueueUrlResult(queue_url=call.url_of(name)))
        )

    def list_queues(self, call: Call[s.ListQueuesRequest]) -> None:
        """List queues that the client may see.

        Raises:
            SqsError: a parameter is out of range.
        """
        prefix = call.request.queue_name_prefix or ""
        names = [name for name in self._visible(call) if name.startswith(prefix)]
        listed, token = _page(
            names, call.request.max_results, call.request.next_token, "ListQueues"
        )
        urls = tuple(map(call.url_of, listed))
        call.done(s.ListQueuesResult(queue_urls=urls, next_token=token))

    def list_sources(self, call: Call[s.ListDeadLetterSourceQueuesRequest]) -> None:
        """List the queues that have this one for their dead letters.

        Raises:
            SqsError: the URL is none, or a parameter out of range.
        """
        request = call.request
        name = read_url(request.queue_url)

        def go_on(_: QueueState) -> None:
            names = [
                each
                for each, found in self._visible(call).items()
                if QueueOptions(found.options).dead_letter_queue == name
            ]
            listed, token = _page(names, request.max_results, request.next_token, "Sources")
            urls = tuple(map(call.url_of, listed))
            call.done(s.ListDeadLetterSourceQueuesResult(queue_urls=urls, next_token=token))

        self._finder.find(call, name, go_on)

    def _visible(self, call: Call[RequestT]) -> dict[str, QueueState]:
        """Return the queues that SQS can have and the client may see, by name."""
        rights = call.rights
        return {
            found.queue.name: found
            for found in self._doors.queues.all()
            if found.queue.vhost == DEFAULT_VHOST
            and is_queue_name(found.queue.name)
            and is_served(found)
            and (
                rights is None
                or rights.could(Operation.DESCRIBE, ResourceType.QUEUE, found.queue.name)
            )
        }

    # -- attributes

    def get_attributes(self, call: Call[s.GetQueueAttributesRequest]) -> None:
        """Say attributes of a queue.

        Raises:
            SqsError: the URL is none, or an attribute is not known.
        """
        name, wanted = read_url(call.request.queue_url), set(call.request.attribute_names)
        unknown = wanted.difference(s.QUEUE_ATTRIBUTES)
        if unknown:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {min(unknown)}.")

        def go_on(queue: QueueState) -> None:
            if not wanted:
                call.done(s.GetQueueAttributesResult())
                return
            known = {**_facts_of(queue), **QueueOptions(queue.options).shown()}
            if "All" in wanted or any(each.startswith("ApproximateN") for each in wanted):
                request = q.AskQueue(log_id=queue.topic_id)
                self._doors.queues.ask_whole(
                    request, q.QueueCounts, TIMEOUT_MS, lambda found: on_counted(known, found)
                )
            else:
                answer(known)

        def on_counted(known: dict[str, str], found: q.QueueCounts | RequestRefused) -> None:
            if isinstance(found, RequestRefused):
                call.fail(found)
            else:
                answer({**known, **_counts_of(found)})

        def answer(known: dict[str, str]) -> None:
            shown = {key: value for key, value in known.items() if "All" in wanted or key in wanted}
            call.done(s.GetQueueAttributesResult(attributes=shown))

        self._finder.find(call, name, go_on)

    def set_attributes(self, call: Call[s.SetQueueAttributesRequest]) -> None:
        """Change attributes of a queue.

        Raises:
            SqsError: the URL is none, or an attribute is not known or not allowed.
        """
        name, attributes = read_url(call.request.queue_url), call.request.attributes
        changes = changed_options(name, attributes)

        def go_on(_: QueueState) -> None:
            self._with_dead_letters(
                call, name, attributes, changes, lambda: self._changing.change(call, name, changes)
            )

        self._finder.find(call, name, go_on)


def _expect_equal(call: Call[s.CreateQueueRequest], found: QueueState) -> None:
    """Answer with a queue that is there, if it is as it was asked for."""
    name, asked = call.request.queue_name, call.request.attributes
    rest = {key: value for key, value in asked.items() if key != "FifoQueue"}
    wanted = QueueOptions(changed(found.options, changed_options(name, rest))).shown()
    has = QueueOptions(found.options).shown()
    differing = sorted(each for each in asked if wanted.get(each) != has.get(each))
    if differing:
        raise SqsError(
            "QueueNameExists",
            f"A queue already exists with the same name and a different value for attribute "
            f"{differing[0]}",
        )
    call.done(s.CreateQueueResult(queue_url=call.url_of(name)))


def _facts_of(queue: QueueState) -> dict[str, str]:
    created = str(queue.created_ms // 1000)
    modified_ms = int(queue.options.get("modified.ms", queue.created_ms))
    return {
        "QueueArn": write_arn(queue.queue.name),
        "CreatedTimestamp": created,
        "LastModifiedTimestamp": str(modified_ms // 1000),
    }


def _counts_of(found: q.QueueCounts) -> dict[str, str]:
    return {
        "ApproximateNumberOfMessages": str(found.ready + found.parked),
        "ApproximateNumberOfMessagesNotVisible": str(found.in_flight),
        "ApproximateNumberOfMessagesDelayed": str(found.delayed),
    }


def _page(
    names: list[str], most: int | None, token: str | None, what: str
) -> tuple[list[str], str | None]:
    """Return the names of one answer, and what the next one begins after, if there is one."""
    if most is not None and not 1 <= most <= LISTED_MAX:
        raise invalid_value(
            f"Value {most} for parameter MaxResults is invalid. Reason: Must be between 1 and "
            f"{LISTED_MAX}."
        )
    if token is not None:
        words = read_handle(token, 2)
        if words is None or words[0] != what:
            raise invalid_value("Value for parameter NextToken is invalid.")
        names = [each for each in names if each > words[1]]
    listed = names[: most or LISTED_MAX]
    has_more = len(names) > len(listed) and most is not None
    return listed, write_handle([what, listed[-1]]) if has_more else None


def _answer(call: Call[RequestT], outcome: object) -> None:
    if isinstance(outcome, RequestRefused):
        call.fail(outcome)
    else:
        call.done()
