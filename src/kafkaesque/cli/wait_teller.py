"""Says, when answers are long in coming, which replicas of the topics are missing."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import counted

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import TopicMetadata

    from kafkaesque.cli.kafka import Connection

#: So long nothing is said: an election is over by then.
PATIENCE_S = 5.0
TELL_AGAIN_S = 30.0
ASK_TIMEOUT_S = 5.0
NAMED_MAX = 5
NO_LEADER = "has no leader"


def missing_replicas(
    name: str, topic: "TopicMetadata", partitions: Sequence[int] | None = None
) -> list[str]:
    """Return a clause for each partition that has no leader or not all its replicas in sync."""
    found = []
    for number, each in sorted(topic.partitions.items()):
        if partitions is not None and number not in partitions:
            continue
        if each.leader < 0:
            found.append(f"{name}-{number} {NO_LEADER}")
        elif len(each.isrs) < len(each.replicas):
            count = f"{len(each.isrs)} of {counted(len(each.replicas), 'replica')}"
            found.append(f"{name}-{number} has {count} in sync")
    return found


def join_clauses(clauses: Sequence[str]) -> str:
    """Return the first clauses, and how many more there are."""
    rest = len(clauses) - NAMED_MAX
    return ", ".join(clauses[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")


class WaitTeller:
    """Watches one command's work on its topics."""

    def __init__(
        self,
        note: Callable[[str], None],
        connection: "Connection",
        client: "Consumer | Producer",
        topics: Sequence[str],
        waits_for: str,
    ) -> None:
        """`waits_for` completes "no ... for 5 s"."""
        self._note = note
        self._connection = connection
        self._client = client
        self._topics = topics
        self._waits_for = waits_for
        self._moved_at = time.monotonic()
        self._due_at = self._moved_at + PATIENCE_S

    def moved(self) -> None:
        """Something has come, or nothing is waited for."""
        self._moved_at = time.monotonic()
        self._due_at = self._moved_at + PATIENCE_S

    def maybe_tell(self, *, only_leaderless: bool = False) -> None:
        """Say what is missing, if nothing has come for long and it was not said lately.

        Where nothing has to come, only partitions without a leader are worth a word.
        """
        now = time.monotonic()
        if now < self._due_at:
            return
        self._due_at = now + TELL_AGAIN_S
        waited = f"no {self._waits_for} for {now - self._moved_at:.0f} s"
        missing = self.missing()
        is_leaderless = any(each.endswith(NO_LEADER) for each in missing)
        if only_leaderless and not is_leaderless:
            return
        why = f": {join_clauses(missing)}" if missing else ""
        if is_leaderless:
            why += " (kafkaesque doctor says why)"
        self._note(f"{waited}{why}; still trying (Ctrl-C ends it)")

    def missing(self, partitions: Sequence[tuple[str, int]] | None = None) -> list[str]:
        """Return what these partitions of the topics lack, as far as a broker can be asked."""
        clauses: list[str] = []
        for topic in self._topics:
            chosen = None if partitions is None else [n for name, n in partitions if name == topic]
            if chosen == []:
                continue
            try:
                found = self._connection.metadata(self._client, topic, ASK_TIMEOUT_S)
            except CommandFailed:
                return clauses
            clauses += missing_replicas(topic, found.topics[topic], chosen)
        return clauses
