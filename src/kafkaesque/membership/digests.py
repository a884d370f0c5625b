"""Checksums over all entries, so that two members find in a few bytes where they differ.

Every entry lies in a bucket, by a hash of its key. A bucket's checksum is the exclusive or of the
hashes of its entries' keys and versions, and the root is that of all of them: one entry that
changes costs one hash, however many there are. The hash is a cryptographic one because checksums of
linear codes cancel each other out when two versions change alike.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkaesque.membership.entries import Key
from kafkaesque.membership.messages import BUCKETS

_CHECKSUM_MASK: Final = 2**32 - 1


def bucket_of(key: Key) -> int:
    """Return where an entry with this key lies."""
    node, name = key
    return hashlib.blake2b(f"{node} {name}".encode(), digest_size=1).digest()[0]


class DigestTable:
    """The versions of all entries, by bucket."""

    __slots__ = ("_buckets", "_checksums", "_root")

    def __init__(self) -> None:
        self._buckets: Final[dict[int, dict[Key, int]]] = {}
        self._checksums: Final[dict[int, int]] = {}
        self._root = 0

    @property
    def root(self) -> int:
        """The checksum of everything."""
        return self._root

    def put(self, key: Key, version: int) -> None:
        """Note an entry's version in place of the one it had."""
        number = bucket_of(key)
        bucket = self._buckets.setdefault(number, {})
        before = bucket.get(key)
        change = _hash(key, version)
        if before is not None:
            change ^= _hash(key, before)
        bucket[key] = version
        self._toggle(number, change)

    def remove(self, key: Key) -> None:
        """Forget an entry that is there."""
        number = bucket_of(key)
        version = self._buckets[number].pop(key)
        self._toggle(number, _hash(key, version))

    def _toggle(self, number: int, change: int) -> None:
        self._root ^= change
        self._checksums[number] = self._checksums.get(number, 0) ^ change & _CHECKSUM_MASK

    def checksums(self) -> tuple[int, ...]:
        """Return every bucket's checksum."""
        get = self._checksums.get
        return tuple(get(number, 0) for number in range(BUCKETS))

    def differing(self, checksums: Sequence[int]) -> list[int]:
        """Return the buckets whose checksums are not these."""
        get = self._checksums.get
        return [number for number in range(BUCKETS) if get(number, 0) != checksums[number]]

    def versions(self, number: int) -> Mapping[Key, int]:
        """Return what lies in a bucket, to be read only."""
        return self._buckets.get(number, {})

    def version_of(self, key: Key) -> int | None:
        """Return an entry's version."""
        return self._buckets.get(bucket_of(key), {}).get(key)

    def newer(
        self, buckets: Iterable[int], theirs: Mapping[Key, int]
    ) -> tuple[list[Key], list[Key]]:
        """Return of these buckets what is newer here than there, and what is newer there."""
        ours: list[Key] = []
        covered = set(buckets)
        for number in covered:
            for key, version in self.versions(number).items():
                if theirs.get(key, -1) < version:
                    ours.append(key)
        wanted = []
        for key, version in theirs.items():
            known = self.version_of(key)
            if known is None or known < version:
                wanted.append(key)
        return ours, wanted


def _hash(key: Key, version: int) -> int:
    node, name = key
    text = f"{node} {version} {name}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
