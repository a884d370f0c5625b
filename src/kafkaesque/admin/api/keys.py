"""The keys of encrypted topics: listed, rotated, shredded, wrapped anew; no key is ever shown."""

import shlex

from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, Change, DryRun
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.topics import TopicPages
from kafkaesque.admin.api.values import KeyList, KeyView
from kafkaesque.model.errors import RequestRefused


class KeyPages:
    """See the module."""

    def __init__(self, context: Context, topics: TopicPages) -> None:
        self._context = context
        self._topics = topics

    def list_keys(self, call: Call[NoQuery, None]) -> None:
        """List all versions of all topics' keys."""
        keys = self._context.doors.keys
        found: list[KeyView] = []
        for topic in sorted(
            self._context.doors.cluster.state.topics.values(), key=lambda each: each.name
        ):
            here = keys.versions(topic.topic_id)
            wrapped = list(keys.wrapped_of(topic.topic_id))
            found += [
                KeyView(
                    topic=topic.name,
                    version=each.version,
                    seals=each is wrapped[-1],
                    keeper=each.keeper,
                    keeper_key=each.keeper_key,
                    is_here=each.version in here,
                )
                for each in wrapped
            ]
        call.answer(KeyList(as_of=self._context.now(), seen_by=self._context.node, keys=found))

    def rotate_key(self, call: Call[DryRun, None]) -> None:
        """Add a topic's next version, which seals what is produced from then on."""
        topic = self._topics.find(call)
        if topic is None:
            return
        what = f"topic {topic.name} {{}} a new version of its key for new batches"
        words = ["kafkaesque", "key", "rotate", topic.name]
        if call.query.dry_run:
            self._answer(call, what.format("would get"), words)
            return
        self._context.doors.keys.rotate(
            topic.topic_id,
            lambda outcome: self._end(call, outcome, what.format("has"), words),
            call.client,
        )

    def shred_key(self, call: Call[DryRun, None]) -> None:
        """Remove a version: what it has sealed can never be read again."""
        topic = self._topics.find(call)
        if topic is None:
            return
        text = call.params["version"]
        if not text.isdecimal() or len(text) > 9:
            call.refuse(404, "NotFound", f"{text} is no version of a key")
            return
        words = ["kafkaesque", "key", "shred", topic.name, text, "--yes"]
        what = f"what version {text} of the key of topic {topic.name} has sealed {{}} unreadable"
        if call.query.dry_run:
            self._answer(call, what.format("would be"), words)
            return
        self._context.doors.keys.shred(
            topic.topic_id,
            int(text),
            lambda outcome: self._end(call, outcome, what.format("is"), words),
            call.client,
        )

    def rewrap_keys(self, call: Call[DryRun, None]) -> None:
        """Wrap all keys by the keeper's newest key, so that its earlier ones can go."""
        words = ["kafkaesque", "key", "rewrap"]
        if call.query.dry_run:
            self._answer(call, "all keys would be wrapped by the keeper's newest key", words)
            return

        def on_done(outcome: int | RequestRefused) -> None:
            self._end(
                call, outcome, f"{outcome} keys are wrapped by the keeper's newest key", words
            )

        self._context.doors.keys.rewrap(on_done, call.client)

    def _end(self, call: Call[DryRun, None], outcome: object, what: str, words: list[str]) -> None:
        if isinstance(outcome, RequestRefused):
            call.refuse_with(outcome)
            return
        # What is asked next is to see it.
        self._context.doors.cluster.when_current(
            CHANGE_MS_MAX, lambda _: self._answer(call, what, words)
        )

    def _answer(self, call: Call[DryRun, None], what: str, words: list[str]) -> None:
        call.answer(
            Change(
                as_of=self._context.now(),
                seen_by=self._context.node,
                is_dry_run=call.query.dry_run,
                what=what,
                command=shlex.join(words),
            )
        )
