"""Where a stream that mirrors another one, or gathers from several, has its messages from."""

from __future__ import annotations

import re
import zlib
from typing import Final

import msgspec

from kafkaesque.gateway.nats.jetstream.times import read_time
from kafkaesque.protocols.nats.subjects import is_subject

#: How a destination names what a wildcard of the pattern stands for; they count from 1.
_TAKEN: Final = re.compile(r"\$([1-9][0-9]?)|\{\{ ?[wW]ildcard\( ?([1-9][0-9]?) ?\) ?\}\}")


class SubjectTransform(msgspec.Struct, frozen=True):
    """Messages of these subjects, under other ones; no destination: under their own."""

    src: str = ""
    dest: str = ""

    def apply(self, subject: str) -> str | None:
        """Return what a subject becomes; None: it is not meant."""
        levels, taken, tail = subject.split("."), list[str](), list[str]()
        wanted = (self.src or ">").split(".")
        for at, each in enumerate(wanted):
            if at >= len(levels):
                return None
            if each == ">":
                tail = levels[at:]
            elif each == "*":
                taken.append(levels[at])
            elif each != levels[at]:
                return None
        if len(levels) != len(wanted) and not tail:
            return None
        return self._written(taken, tail) if self.dest else subject

    def _written(self, taken: list[str], tail: list[str]) -> str:
        found: list[str] = []
        for each in self.dest.split("."):
            number = _number_of(each)
            if each == ">":
                found += tail
            else:
                found.append(taken[number - 1] if number else each)
        return ".".join(found)

    @property
    def is_good(self) -> bool:
        """Whether pattern and destination are subjects, and each placeholder has its wildcard."""
        pattern, words = (self.src or ">").split("."), self.dest.split(".")
        if not is_subject(self.src or ">"):
            return False
        if not self.dest:
            return True
        if not is_subject(self.dest) or "*" in words or any(each.isspace() for each in self.dest):
            return False
        if (">" in words) != (pattern[-1] == ">"):
            return False
        numbers = [_number_of(each) for each in words]
        known = pattern.count("*")
        return all(each is None or each <= known for each in numbers) and not any(
            "{{" in word and number is None for word, number in zip(words, numbers, strict=True)
        )


def _number_of(word: str) -> int | None:
    """Return which wildcard a word of a destination stands for; None: it stands for itself."""
    found = _TAKEN.fullmatch(word)
    return None if found is None else int(found[1] or found[2])


class StreamSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One origin."""

    name: str = ""
    opt_start_seq: int = 0
    opt_start_time: str | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransform] | None = None
    #: What is not built: refused, if it is asked for.
    external: object = None
    consumer: object = None

    @property
    def transforms(self) -> list[SubjectTransform]:
        """What is taken, and under which subjects."""
        return self.subject_transforms or [SubjectTransform(self.filter_subject)]

    def subject_of(self, subject: str) -> str | None:
        """Return the subject that a message of the origin gets; None: it is not taken."""
        for each in self.transforms:
            found = each.apply(subject)
            if found is not None:
                return found
        return None

    @property
    def start_ms(self) -> int:
        """Messages that are older are not taken."""
        return read_time(self.opt_start_time) if self.opt_start_time else 0

    @property
    def mark(self) -> bytes:
        """Tells it from another source that takes something else from the same origin."""
        taken = [(each.src, each.dest) for each in self.transforms]
        return b"%08x" % zlib.crc32(msgspec.json.encode(taken))
