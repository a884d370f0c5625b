"""What a stream holds, beside a model that keeps every message in a list."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaesque.gateway.nats.jetstream.view import Arrived, Bounds, Removal, View

SUBJECTS = ("a", "a.b", "a.c", "b.c")
FILTERS = ("", ">", "a", "a.*", "*.c", "b.>")


def fits(subject: str, wanted: str) -> bool:
    """The simplest way to tell whether a filter matches."""
    if wanted in ("", ">"):
        return True
    words, tokens = wanted.split("."), subject.split(".")
    if words[-1] == ">":
        return len(tokens) >= len(words) and fits_all(tokens, words[:-1])
    return len(tokens) == len(words) and fits_all(tokens, words)


def fits_all(tokens: list[str], words: list[str]) -> bool:
    return all(word in ("*", token) for token, word in zip(tokens, words, strict=False))


@dataclass
class Kept:
    sequence: int
    subject: str
    size: int
    at_ms: int


class ViewMachine(RuleBasedStateMachine):
    """Messages come, and go in every way there is."""

    @initialize(
        per_subject=st.sampled_from((0, 1, 2)),
        messages=st.sampled_from((0, 4)),
        size=st.sampled_from((0, 25)),
        age=st.sampled_from((0, 50)),
    )
    def begin(self, per_subject: int, messages: int, size: int, age: int) -> None:
        self.bounds = Bounds(per_subject, messages, size, age, 20)
        self.view = View(self.bounds)
        self.kept: list[Kept] = []
        self.ids: dict[str, tuple[int, int]] = {}
        self.last = 0
        self.now_ms = 1_000

    @rule(
        subject=st.sampled_from(SUBJECTS),
        size=st.integers(1, 10),
        rollup=st.sampled_from(("", "", "", "sub", "all")),
        message_id=st.sampled_from(("", "", "x", "y")),
        gap=st.sampled_from((0, 0, 0, 2)),
    )
    def add(self, subject: str, size: int, rollup: str, message_id: str, gap: int) -> None:
        self.last += 1 + gap
        message = Arrived(self.last, subject, size, self.now_ms, message_id, rollup)
        self.view.add(message)
        if rollup:
            mine = rollup == "sub"
            self.kept = [each for each in self.kept if mine and each.subject != subject]
        self.kept.append(Kept(self.last, subject, size, self.now_ms))
        most = self.bounds.per_subject_max
        if most and not rollup:
            own = [each for each in self.kept if each.subject == subject][:-most]
            self.kept = [each for each in self.kept if each not in own]
        while self.is_too_much():
            self.kept.pop(0)
        if message_id:
            before = self.ids.get(message_id)
            if before is None or before[1] + self.bounds.ids_max_ms <= self.now_ms:
                self.ids[message_id] = (self.last, self.now_ms)

    def is_too_much(self) -> bool:
        bounds = self.bounds
        size = sum(each.size for each in self.kept)
        is_over = bool(bounds.messages_max) and len(self.kept) > bounds.messages_max
        return is_over or (bool(bounds.bytes_max) and size > bounds.bytes_max < size)

    @rule(sequence=st.integers(1, 30))
    def remove(self, sequence: int) -> None:
        self.last += 1
        self.view.take_removal(Removal(self.last, self.now_ms, (sequence,)))
        self.kept = [each for each in self.kept if each.sequence != sequence]

    @rule(before=st.integers(1, 30), wanted=st.sampled_from(FILTERS), keep=st.integers(0, 2))
    def purge(self, before: int, wanted: str, keep: int) -> None:
        expected = self.view.count_before(wanted, before, keep)
        self.last += 1
        removal = Removal(self.last, self.now_ms, (), before, wanted, keep)
        gone = []
        for subject in SUBJECTS:
            own = [each for each in self.kept if each.subject == subject]
            if fits(subject, wanted):
                free = own[: max(0, len(own) - keep)]
                gone += [each for each in free if each.sequence <= before]
        assert self.view.take_removal(removal) == len(gone) == expected
        self.kept = [each for each in self.kept if each not in gone]

    @rule(sequence=st.integers(1, 20))
    def start(self, sequence: int) -> None:
        if sequence <= self.last:
            self.view.start_at(sequence)
            self.kept = [each for each in self.kept if each.sequence >= sequence]

    @rule(ms=st.integers(1, 40))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.view.expire(self.now_ms)
        age_ms = self.bounds.age_max_ms
        if age_ms:
            self.kept = [each for each in self.kept if each.at_ms + age_ms > self.now_ms]

    @invariant()
    def is_the_same(self) -> None:
        if not hasattr(self, "view"):
            return
        view, kept = self.view, self.kept
        assert view.message_count == len(kept)
        assert view.byte_count == sum(each.size for each in kept)
        assert view.last_sequence == self.last
        assert view.first_sequence == (kept[0].sequence if kept else self.last + 1)
        assert view.subject_count == len({each.subject for each in kept})
        there = {each.sequence for each in kept}
        assert all(view.has(each) == (each in there) for each in range(self.last + 2))
        for wanted in FILTERS:
            fitting = [each.sequence for each in kept if fits(each.subject, wanted)]
            assert view.last_of(wanted) == (fitting[-1] if fitting else 0)
            assert view.pending([wanted] if wanted else [], 5) == sum(e >= 5 for e in fitting)
            assert view.pending_behind([wanted] if wanted else [], 4) == sum(e > 4 for e in fitting)
            assert view.next_of(wanted, 5) == next((e for e in fitting if e >= 5), 0)
        for name, (sequence, at_ms) in self.ids.items():
            is_young = at_ms + self.bounds.ids_max_ms > self.now_ms
            expected = sequence if is_young else None
            assert view.sequence_of_id(name, self.now_ms) == expected


TestView = ViewMachine.TestCase
