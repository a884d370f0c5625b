"""What a group has committed for topics of one name, and what it may read.

Every commit has a number of its own, which is its offset, too, so that an offset says which commit
it is of, and which topic that was meant for. What holds: an offset that was acknowledged, and meant
for the topic that there is, is there until that topic's deletion is asked for, or a later one; and
it is not there for the next topic. A commit that nobody has answered may take effect at any later
time, by name for a later topic, too. A coordinator that lags may give who asks by name what was
committed for the topic before, until it hears of its end (ADR 22).

A commit by name does not say which topic it means. Where its coordinator lags, times tell; so where
clocks go wrong only little holds.
"""

from typing import Final, NamedTuple

from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.namesakes.topic import Namesake

NOT_COMMITTED: Final = -1


class Question(NamedTuple):
    """What is known when a group's offsets are asked for."""

    topic: Namesake
    #: The last commit for that topic that was acknowledged, or `NOT_COMMITTED`.
    wanted: int
    #: Whether it names the topic by its id.
    is_by_id: bool
    #: Whether all is healed, and nothing on its way any more.
    is_final: bool


class OffsetHistory:
    """The commits of one group."""

    def __init__(
        self, findings: Findings, group_id: str, *, is_by_id: bool, do_clocks_tell: bool
    ) -> None:
        self.group_id: Final = group_id
        self._findings: Final = findings
        self._is_by_id: Final = is_by_id
        self._is_sure: Final = is_by_id or do_clocks_tell
        #: By number, which topic it was meant for.
        self._meant: Final[list[int]] = []
        #: What nobody has answered, or what was refused in a way that leaves open what it has done.
        self._stray: Final[set[int]] = set()
        #: Stored while there was no other topic than the one that was meant.
        self._certain: Final[set[int]] = set()
        #: Of transactions that were not, or not yet, committed.
        self._undecided: Final[set[int]] = set()
        #: By the number of the topic: the last that counts.
        self._acknowledged: Final[dict[int, int]] = {}
        #: How many commits were acknowledged.
        self.count = 0

    # -- committing

    def send(self, topic: Namesake, *, is_transactional: bool = False) -> int:
        """Return the number of a new commit for a topic."""
        number = len(self._meant)
        self._meant.append(topic.number)
        if is_transactional:
            self._undecided.add(number)
        return number

    def note_stray(self, number: int) -> None:
        """It is not known whether, and when, the commit will be done."""
        self._stray.add(number)

    def note_stored(self, number: int, topic: Namesake) -> None:
        """It was acknowledged; in a transaction it does not count yet."""
        if not topic.is_doomed:
            self._certain.add(number)

    def note_counts(self, number: int, topic: Namesake) -> None:
        """It counts, as far as anybody knows: it was stored, and its transaction committed."""
        self._undecided.discard(number)
        self.count += 1
        if number in self._certain and not topic.is_doomed:
            newest = self._acknowledged.get(topic.number, NOT_COMMITTED)
            self._acknowledged[topic.number] = max(newest, number)

    def note_commit_asked(self, number: int) -> None:
        """From now on it may count."""
        self._undecided.discard(number)

    def note_aborted(self, number: int) -> None:
        """Its transaction was aborted, or given up without having been committed."""
        self._undecided.add(number)

    def note_refused(self, code: int) -> None:
        """A group was told what it never should be."""
        self._note(f"refused with {ErrorCode(code).name}")

    # -- reading

    def ask(self, topic: Namesake, *, is_by_id: bool, is_final: bool) -> Question:
        """Return what an answer to a question from now on will be compared with."""
        wanted = self._acknowledged.get(topic.number, NOT_COMMITTED)
        return Question(topic, wanted, is_by_id, is_final)

    def judge(self, question: Question, partition: int, found: int) -> None:
        """Compare what was read with what was committed."""
        topic = question.topic
        if found >= len(self._meant):
            self._note(f"partition {partition} has {found} committed, and nobody has committed it")
        elif found in self._undecided:
            self._note(f"aborted offset: partition {partition} has {found}")
        elif topic.is_doomed:
            return
        elif found == NOT_COMMITTED:
            if question.wanted != NOT_COMMITTED and self._is_sure:
                self._note_lost(question, partition, found)
        elif self._meant[found] != topic.number and self._is_foreign(question, found):
            self._note(
                f"namesake's offset: partition {partition} of {topic.number} has {found}, which "
                f"was committed for {self._meant[found]}"
            )
        elif found < question.wanted and found not in self._stray:
            self._note_lost(question, partition, found)

    def _is_foreign(self, question: Question, found: int) -> bool:
        """Return whether what was meant for another topic must not be read from this one."""
        if not (question.is_by_id or question.is_final):
            return False
        is_certain = found in self._certain and found not in self._stray
        return self._is_by_id or (self._is_sure and is_certain)

    def _note_lost(self, question: Question, partition: int, found: int) -> None:
        self._note(
            f"lost commit: partition {partition} of {question.topic.number} has {found} committed "
            f"after {question.wanted} was acknowledged"
        )

    def _note(self, what: str) -> None:
        self._findings.note(f"group {self.group_id}: {what}")
