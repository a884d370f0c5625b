"""Topic expressions: RE2, so that none takes longer than its length and the names' allow."""

from typing import Any

from kafkaesque.groups.consumer.topics import TopicCatalog
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.pattern_errors import reason_of

#: What one compiled expression may take; longer ones are refused as too large.
MEMORY_BYTES_MAX = 1024 * 1024
#: Expressions that are kept compiled, with what they matched. More are compiled again.
CACHED_MAX = 1_000


class BadExpression(KafkaesqueError):
    """Not an expression that RE2 takes."""


class Expressions:
    """Expressions of all groups of a table, and what they match."""

    __slots__ = ("_compiled", "_matched", "_topics")

    def __init__(self) -> None:
        self._compiled: dict[str, Any] = {}
        #: What expressions match in `_topics`.
        self._matched: dict[str, tuple[str, ...]] = {}
        self._topics: TopicCatalog | None = None

    def check(self, expression: str) -> None:
        """Make sure that an expression is one.

        Raises:
            BadExpression: it is not, with the reason.
        """
        if expression:
            self._compile(expression)

    def matches(self, expression: str, topics: TopicCatalog) -> tuple[str, ...]:
        """Return the names of the topics that an expression matches as a whole, sorted.

        One that cannot be compiled, which only a record can have brought, matches nothing.
        """
        if self._topics is not topics:
            self._topics = topics
            self._matched = {}
        found = self._matched.get(expression)
        if found is None:
            found = self._match(expression, topics)
            if len(self._matched) >= CACHED_MAX:
                self._matched.clear()
            self._matched[expression] = found
        return found

    def _match(self, expression: str, topics: TopicCatalog) -> tuple[str, ...]:
        if not expression:
            return ()
        try:
            compiled = self._compile(expression)
        except BadExpression:
            return ()
        names = (
            name
            for name, topic in topics.by_name.items()
            if not topic.is_internal and compiled.fullmatch(name) is not None
        )
        return tuple(sorted(names))

    def _compile(self, expression: str) -> Any:
        compiled = self._compiled.get(expression)
        if compiled is None:
            # With the first expression: most brokers never see one.
            import re2

            options = re2.Options()
            options.log_errors = False
            options.max_mem = MEMORY_BYTES_MAX
            try:
                compiled = re2.compile(expression, options)
            except re2.error as error:
                raise BadExpression(reason_of(error)) from error
            if len(self._compiled) >= CACHED_MAX:
                self._compiled.clear()
            self._compiled[expression] = compiled
        return compiled
