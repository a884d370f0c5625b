"""Tells from two words of a name which shapes may have a filter that matches it.

Theory of operation. Each shape has an *anchor*: two levels at which its filters have words. A
filter is entered under the hash of its two words there. To look a name up, the words at each anchor
in use are hashed; shapes that nothing was entered for cannot match. So with hundreds of shapes only
those few are looked up that have a filter with the same two words. A hint may be false, never
missing.

Entries are in buckets. A bucket is a text, because to find a character in a text takes 0.03 µs, and
an entry takes six bytes: its *mark*, which is part of the hash, its shape, and a count of
filters. Buckets are found by the hash's last bits. When there are too many entries, the list of
buckets is put behind itself, and each bucket is there twice; marks have the further bit of the
hash, so a bucket loses what is not its own when it is next written at a certain length.

Anchors are chosen where shapes had different words when they were new, because a word that all
filters have tells nothing. Hashes of texts are secret to each process, so a client cannot choose
words of the same hash.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kafkaesque.routing.names import FilterLevels

#: Numbers of shapes are below this.
NUMBERS_MAX: Final = 1024
#: Entries of a bucket, on average, before there are more buckets.
BUCKET_ENTRIES_MAX: Final = 32

#: The first levels' hash and the second's, and what tells the anchor from others.
Anchor = tuple[int, int, int]

#: Characters of an entry: mark, number, and how many filters.
_ENTRY: Final = 3
#: Filters that an entry counts; further ones are counted elsewhere.
_COUNT_MAX: Final = 0xFFFF
#: There are 1 << this many buckets at first.
_FIRST_BITS: Final = 10
#: A mark has the hash's bits behind these.
_MARK_MASK: Final = 0xFFFF
_KEY_MASK: Final = (1 << (_FIRST_BITS + 16)) - 1
#: The second word's hash is taken from here on.
_SECOND_SHIFT: Final = 30
#: Bits by which different words are told at a level.
_SKETCH_MASK: Final = 127


class ShapeHints:
    """Numbers of shapes by the words of their filters."""

    __slots__ = ("_buckets", "_count", "_full", "_last")

    def __init__(self) -> None:
        self._buckets = [""] * (1 << _FIRST_BITS)
        self._last = len(self._buckets) - 1
        self._count = 0
        #: Hash and number -> filters beyond those that the entry counts.
        self._full: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        """How many entries there are."""
        return self._count

    def find(self, words: Sequence[str], anchors: Iterable[Anchor]) -> set[int]:
        """Return the shapes with these anchors that may match a name of these words."""
        hashes = list(map(hash, words))
        buckets, last = self._buckets, self._last
        found: set[int] = set()
        for first, second, salt in anchors:
            hashed = hashes[first] ^ hashes[second] >> _SECOND_SHIFT ^ salt
            bucket = buckets[hashed & last]
            mark = chr(hashed >> _FIRST_BITS & _MARK_MASK)
            if mark in bucket:
                at = bucket.find(mark)
                while at >= 0:
                    if not at % _ENTRY:
                        found.add(ord(bucket[at + 1]))
                    at = bucket.find(mark, at + 1)
        return found

    def add(self, levels: FilterLevels, anchor: Anchor, number: int) -> None:
        """Enter a filter of a shape."""
        key = _key(levels, anchor)
        place = key & self._last
        bucket, mark = self._buckets[place], chr(key >> _FIRST_BITS)
        at = _entry_at(bucket, mark + chr(number))
        if at < 0:
            bucket += mark + chr(number) + chr(1)
            if len(bucket) % (_ENTRY * BUCKET_ENTRIES_MAX) == 0:
                bucket = self._own(bucket, place)
            self._buckets[place] = bucket
            self._count += 1
            if self._count > BUCKET_ENTRIES_MAX * len(self._buckets):
                self._double()
        elif ord(bucket[at + 2]) < _COUNT_MAX:
            self._buckets[place] = _counted(bucket, at, 1)
        else:
            self._full[key, number] = self._full.get((key, number), 0) + 1

    def remove(self, levels: FilterLevels, anchor: Anchor, number: int) -> None:
        """Take out a filter that was entered."""
        key = _key(levels, anchor)
        further = self._full.get((key, number), 0)
        if further > 1:
            self._full[key, number] = further - 1
            return
        if further:
            del self._full[key, number]
            return
        place = key & self._last
        bucket = self._buckets[place]
        at = _entry_at(bucket, chr(key >> _FIRST_BITS) + chr(number))
        if ord(bucket[at + 2]) > 1:
            self._buckets[place] = _counted(bucket, at, -1)
            return
        self._buckets[place] = bucket[:at] + bucket[at + _ENTRY :]
        self._count -= 1
        if not self._count:
            self._buckets = [""] * (1 << _FIRST_BITS)
            self._last = len(self._buckets) - 1

    def _double(self) -> None:
        """Make twice as many buckets, as long as marks tell which entries are whose."""
        if len(self._buckets) <= _KEY_MASK:
            self._buckets += self._buckets
            self._last = len(self._buckets) - 1

    def _own(self, bucket: str, place: int) -> str:
        """Return a bucket without the entries that belong to others."""
        told = self._last >> _FIRST_BITS
        wanted = place >> _FIRST_BITS
        return "".join(
            bucket[at : at + _ENTRY]
            for at in range(0, len(bucket), _ENTRY)
            if ord(bucket[at]) & told == wanted
        )


class Anchors:
    """Chooses anchors."""

    __slots__ = ("_seen", "_uses")

    def __init__(self) -> None:
        #: Level -> a bit for each word that was there, by its hash.
        self._seen: dict[int, int] = {}
        self._uses: dict[Anchor, int] = {}

    def note(self, levels: FilterLevels, words_at: Iterable[int]) -> None:
        """See the words that the first filter of a shape has."""
        for at in words_at:
            self._seen[at] = self._seen.get(at, 0) | 1 << (hash(levels[at]) & _SKETCH_MASK)

    def use(self, words_at: Sequence[int]) -> Anchor:
        """Return an anchor for a shape that has one word or more."""
        anchor = self._choose(words_at)
        self._uses[anchor] = self._uses.get(anchor, 0) + 1
        return anchor

    def release(self, anchor: Anchor) -> None:
        """Say that a shape is gone."""
        self._uses[anchor] -= 1
        if not self._uses[anchor]:
            del self._uses[anchor]

    def _choose(self, words_at: Sequence[int]) -> Anchor:
        seen = {at: self._seen.get(at, 0).bit_count() for at in words_at}
        best = sorted(words_at, key=lambda at: -seen[at])[:2]
        first, second = min(best), max(best)
        # With few anchors in use less is hashed: one that tells half as much will do.
        told = {at for at in words_at if 2 * seen[at] >= seen[best[-1]]}
        for used in self._uses:
            if used[0] in told and used[1] in told and (used[0] != used[1] or len(told) == 1):
                return used
        return first, second, hash((first, second))


def _key(levels: FilterLevels, anchor: Anchor) -> int:
    first, second, salt = anchor
    return (hash(levels[first]) ^ hash(levels[second]) >> _SECOND_SHIFT ^ salt) & _KEY_MASK


def _entry_at(bucket: str, beginning: str) -> int:
    """Return where the entry with a mark and a number is; -1: there is none."""
    at = bucket.find(beginning)
    while at % _ENTRY and at >= 0:
        at = bucket.find(beginning, at + 1)
    return at


def _counted(bucket: str, at: int, more: int) -> str:
    """Return a bucket with an entry that counts so many filters more."""
    count = ord(bucket[at + 2]) + more
    return bucket[: at + 2] + chr(count) + bucket[at + _ENTRY :]
