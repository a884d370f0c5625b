"""The tags of queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.gateway.sqs.attributes import QueueOptions, write_tags
from kafkaesque.gateway.sqs.call import Call, RequestT
from kafkaesque.gateway.sqs.changing import Changing
from kafkaesque.gateway.sqs.finding import QueueFinder
from kafkaesque.protocols.sqs import service as s
from kafkaesque.protocols.sqs.errors import invalid_value
from kafkaesque.protocols.sqs.names import read_url

TAGS_MAX: Final = 50
TAG_KEY_LENGTH_MAX: Final = 128
TAG_VALUE_LENGTH_MAX: Final = 256


class Tags:
    """See the module."""

    __slots__ = ("_changing", "_finder")

    def __init__(self, changing: Changing, finder: QueueFinder) -> None:
        self._changing = changing
        self._finder = finder

    def tag(self, call: Call[s.TagQueueRequest]) -> None:
        """Add tags to a queue, or give them other values.

        Raises:
            SqsError: the URL is none, or a tag is not allowed.
        """
        self._change_tags(call, call.request.queue_url, lambda tags: tags | call.request.tags)

    def untag(self, call: Call[s.UntagQueueRequest]) -> None:
        """Remove tags of a queue; those that there are not are well.

        Raises:
            SqsError: the URL is none.
        """
        gone = set(call.request.tag_keys)
        self._change_tags(
            call,
            call.request.queue_url,
            lambda tags: {key: value for key, value in tags.items() if key not in gone},
        )

    def _change_tags(
        self,
        call: Call[RequestT],
        url: str,
        change: Callable[[dict[str, str]], dict[str, str]],
    ) -> None:
        name = read_url(url)

        def go_on(queue: QueueState) -> None:
            tags = change(QueueOptions(queue.options).tags)
            check_tags(tags)
            self._changing.change(call, name, {"tags": write_tags(tags) if tags else None})

        self._finder.find(call, name, go_on)

    def list_tags(self, call: Call[s.ListQueueTagsRequest]) -> None:
        """List tags of a queue.

        Raises:
            SqsError: the URL is none.
        """
        self._finder.find(
            call,
            read_url(call.request.queue_url),
            lambda queue: call.done(s.ListQueueTagsResult(tags=QueueOptions(queue.options).tags)),
        )


def check_tags(tags: Mapping[str, str]) -> None:
    """Refuse tags of a queue.

    Raises:
        SqsError: there are too many, or one is too long.
    """
    if len(tags) > TAGS_MAX:
        raise invalid_value(f"Too many tags added for queue: the maximum is {TAGS_MAX}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= TAG_KEY_LENGTH_MAX or len(value) > TAG_VALUE_LENGTH_MAX:
            raise invalid_value(
                f"A tag's key has 1 to {TAG_KEY_LENGTH_MAX} characters, its value at most "
                f"{TAG_VALUE_LENGTH_MAX}."
            )
        if key.lower().startswith("aws:"):
            raise invalid_value("Tag keys must not begin with aws:.")
