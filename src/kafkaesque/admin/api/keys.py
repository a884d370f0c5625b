"""The keys of encrypted topics and queues: listed, rotated, shredded, wrapped anew; never shown."""

from __future__ import annotations

from typing import Any

from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, DryRun, answer_change
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.queue_values import QueueDryRun
from kafkaesque.admin.api.queues import QueuePages
from kafkaesque.admin.api.topics import TopicPages
from kafkaesque.admin.api.values import KeyList, KeyView
from kafkaesque.broker.metadata.cluster_state import QueueState, TopicState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.model.counted import are, counted
from kafkaesque.model.errors import RequestRefused


class KeyPages:
    """See the module."""

    def __init__(self, context: Context, topics: TopicPages, queues: QueuePages) -> None:
        self._context = context
        self._topics = topics
        self._queues = queues

    def list_keys(self, call: Call[NoQuery, None]) -> None:
        """List all versions of all keys."""
        state = self._context.doors.cluster.state
        topics = sorted(state.topics.values(), key=lambda each: each.name)
        queues = sorted(state.queues.values(), key=lambda each: each.queue)
        found = [view for holder in (*topics, *queues) for view in self._views(holder)]
        call.answer(KeyList(as_of=self._context.now(), seen_by=self._context.node, keys=found))

    def _views(self, holder: TopicState) -> list[KeyView]:
        keys = self._context.doors.keys
        here = keys.versions(holder.topic_id)
        wrapped = list(keys.wrapped_of(holder.topic_id))
        is_queue = isinstance(holder, QueueState)
        return [
            KeyView(
                topic="" if is_queue else holder.name,
                queue=holder.queue.name if isinstance(holder, QueueState) else "",
                vhost=holder.queue.vhost if isinstance(holder, QueueState) else "",
                version=each.version,
                seals=each is wrapped[-1],
                keeper=each.keeper,
                keeper_key=each.keeper_key,
                is_here=each.version in here,
            )
            for each in wrapped
        ]

    def rotate_key(self, call: Call[DryRun, None]) -> None:
        """Add a topic's next version, which seals what is produced from then on."""
        self._rotate(call, self._topics.find(call))

    def rotate_queue_key(self, call: Call[QueueDryRun, None]) -> None:
        """Add a queue's next version, which seals what is put from then on."""
        self._rotate(call, self._queues.find(call))

    def shred_key(self, call: Call[DryRun, None]) -> None:
        """Remove a version of a topic's key: what it has sealed can never be read again."""
        self._shred(call, self._topics.find(call))

    def shred_queue_key(self, call: Call[QueueDryRun, None]) -> None:
        """Remove a version of a queue's key: what it has sealed can never be read again."""
        self._shred(call, self._queues.find(call))

    def _rotate(self, call: Call[Any, None], holder: TopicState | None) -> None:
        if holder is None:
            return
        what = f"{_shown(holder)} {{}} a new version of its key for new batches"
        words = ["kafkaesque", "key", "rotate", *_words(holder)]
        if call.query.dry_run:
            answer_change(self._context, call, what.format("would get"), words)
            return
        self._context.doors.keys.rotate(
            holder.topic_id,
            lambda outcome: self._end(call, outcome, what.format("has"), words),
            call.client,
        )

    def _shred(self, call: Call[Any, None], holder: TopicState | None) -> None:
        if holder is None:
            return
        text = call.params["version"]
        if not text.isdecimal() or len(text) > 9:
            call.refuse(404, "NotFound", f"{text} is no version of a key")
            return
        name, *where = _words(holder)
        words = ["kafkaesque", "key", "shred", name, text, *where, "--yes"]
        what = f"what version {text} of the key of {_shown(holder)} has sealed {{}} unreadable"
        if call.query.dry_run:
            answer_change(self._context, call, what.format("would be"), words)
            return
        self._context.doors.keys.shred(
            holder.topic_id,
            int(text),
            lambda outcome: self._end(call, outcome, what.format("is"), words),
            call.client,
        )

    def rewrap_keys(self, call: Call[DryRun, None]) -> None:
        """Wrap all keys by the keeper's newest key, so that its earlier ones can go."""
        words = ["kafkaesque", "key", "rewrap"]
        if call.query.dry_run:
            answer_change(
                self._context, call, "all keys would be wrapped by the keeper's newest key", words
            )
            return

        def on_done(outcome: int | RequestRefused) -> None:
            count = outcome if isinstance(outcome, int) else 0
            what = f"{counted(count, 'key')} {are(count)} wrapped by the keeper's newest key"
            self._end(call, outcome, what, words)

        self._context.doors.keys.rewrap(on_done, call.client)

    def _end(self, call: Call[Any, None], outcome: object, what: str, words: list[str]) -> None:
        if isinstance(outcome, RequestRefused):
            call.refuse_with(outcome)
            return
        # What is asked next is to see it.
        self._context.doors.cluster.when_current(
            CHANGE_MS_MAX, lambda _: answer_change(self._context, call, what, words)
        )


def _shown(holder: TopicState) -> str:
    if isinstance(holder, QueueState):
        return f"queue {holder.queue.name}"
    return f"topic {holder.name}"


def _words(holder: TopicState) -> list[str]:
    """Return how the command line names what has a key."""
    if not isinstance(holder, QueueState):
        return [holder.name]
    vhost, name = holder.queue
    return [name, "--queue", *([] if vhost == DEFAULT_VHOST else ["--vhost", vhost])]
