"""Sealed record batches: the records are AES-256-GCM ciphertext, the header stays readable.

Theory of operation (ADR 32). A sealed batch is a valid batch of format v2 with bit 14 of its
attributes set. Its records section is 29 bytes, ciphertext and a tag of 16 bytes:

| bytes | what |
|---|---|
| 1 | format: 1, or 2 |
| 4 | version of the topic's key |
| 16 | salt: random, new for each leadership and for each compaction run |
| 8 | counter: each batch of a salt has another |
| … | ciphertext of the records as they were, still compressed |
| 16 | tag |

The key is HMAC-SHA-256 of the topic's key over topic id, partition and salt; the nonce is the
counter. What is authenticated with the ciphertext: topic id, partition, base offset, the header
from the attributes on, and the 29 bytes. So a batch that is changed, moved or put into another
topic does not open. Leader epoch and length are not covered: a leader epoch is stamped by whoever
appends, and the length is checked by the tag.

Format 2 has something to tell beside: a length of 4 bytes and that many bytes in the clear stand
before the ciphertext, and are authenticated with it. A queue's log says there what followers have
to know of its messages, who need no key for it.

Opening gives the bytes that were sealed, checksum and all. Control batches stay in the clear.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaesque.model import batch as layout
from kafkaesque.model.batch import (
    CHECKED_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_END,
    Attribute,
    BatchHeader,
    read_batch_header,
)
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.record_errors import KeyShredded, SealDamaged

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MadeT = TypeVar("MadeT", bound=bytearray)

FORMAT: Final = 1
#: With something in the clear before the ciphertext.
FORMAT_TELLING: Final = 2
KEY_BYTES: Final = 32
SALT_BYTES: Final = 16
TAG_BYTES: Final = 16
_PREFIX: Final = Struct(">BI16sQ")
_PREFIX_BYTES: Final = _PREFIX.size
_LENGTH: Final = Struct(">I")
#: What a sealed batch has beside the bytes that were sealed, and what it tells.
SEAL_BYTES: Final = _PREFIX_BYTES + TAG_BYTES
#: The same counter never comes twice with one salt, so there is a last one.
COUNTER_MAX: Final = 2**64 - 1
#: Keys of salts that are kept ready: reading goes through few leaderships at a time.
_CIPHERS_MAX: Final = 64

_SEALED: Final = int(Attribute.SEALED)
_PLACE: Final = Struct(">16siq")
_ATTRIBUTES_BYTE: Final = 21
_SEALED_IN_BYTE: Final = _SEALED >> 8
_NONCE: Final = Struct(">IQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchKeys:
    """The keys of one partition's batches; a plain value, for a worker process to be handed.

    It holds keys in the clear, prints none, and is written down nowhere.
    """

    topic_id: bytes
    partition: int
    #: The topic's keys by version.
    versions: Mapping[int, bytes] = field(repr=False)

    @property
    def newest(self) -> int:
        """The version that seals; 0: there is none."""
        return max(self.versions, default=0)


def is_sealed(batch: Buffer, at: int = 0) -> bool:
    """Tell whether the batch at byte `at` is sealed; its header must be there."""
    return batch[at + _ATTRIBUTES_BYTE] & _SEALED_IN_BYTE != 0


def key_version(batch: Buffer, header: BatchHeader) -> int:
    """Return which version of the topic's key has sealed a batch.

    Raises:
        SealDamaged: the batch is too short to be sealed, or of a format that is not known.
    """
    return _read_prefix(memoryview(batch), header)[0]


class BatchSealer:
    """Seals the batches of one partition with one key and one salt."""

    __slots__ = ("_cipher", "_counter", "_keys", "_salt", "version")

    def __init__(self, keys: BatchKeys, salt: bytes) -> None:
        """`salt` is 16 random bytes that were never used before."""
        if len(salt) != SALT_BYTES:
            raise InvariantBroken(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
        self._keys = keys
        self._salt = salt
        self._counter = 0
        #: Version of the topic's key.
        self.version = keys.newest
        self._cipher = _make_cipher(keys, self.version, salt)

    def seal(
        self, batch: Buffer, header: BatchHeader, told: bytes = b""
    ) -> tuple[bytearray, BatchHeader]:
        """Return a batch, sealed, and its header; `header` is that of `batch` as it stands there.

        Base offset and timestamps must be final: they are authenticated. `told` stands in the
        clear, and is authenticated, too.
        """
        if self._counter > COUNTER_MAX:
            raise InvariantBroken("a salt has sealed as many batches as it may")
        format_ = FORMAT_TELLING if told else FORMAT
        prefix = _PREFIX.pack(format_, self.version, self._salt, self._counter)
        if told:
            prefix += _LENGTH.pack(len(told)) + told
        nonce = _NONCE.pack(0, self._counter)
        self._counter += 1
        view = memoryview(batch)
        made = header._replace(
            at=0,
            batch_length=header.batch_length + len(prefix) + TAG_BYTES,
            attributes=header.attributes | _SEALED,
            crc=0,
        )
        out = bytearray(made.size_bytes)
        HEADER.pack_into(out, 0, *made[1:-1])
        aad = _authenticated(self._keys, made.base_offset, out, prefix)
        records_at = HEADER_BYTES + len(prefix)
        out[HEADER_BYTES:records_at] = prefix
        records = view[header.at + HEADER_BYTES : header.end]
        self._cipher.encrypt_into(nonce, records, aad, memoryview(out)[records_at:])
        return out, made._replace(crc=_put_checksum(out))


class BatchOpener:
    """Opens the sealed batches of one partition."""

    __slots__ = ("_ciphers", "keys")

    def __init__(self, keys: BatchKeys) -> None:
        self.keys = keys
        self._ciphers: dict[tuple[int, bytes], AESGCM] = {}

    def open(self, buffer: Buffer, header: BatchHeader) -> bytearray:
        """Return a sealed batch as it was before; one that is not sealed, as it is.

        Raises:
            KeyShredded: the version of the key that has sealed it is not among the keys.
            SealDamaged: it is not what was sealed, or not for this place.
        """
        return self.open_all(buffer, [header], bytearray)

    def open_all(
        self, buffer: Buffer, batches: list[BatchHeader], make: Callable[[int], MadeT]
    ) -> MadeT:
        """Return batches that lie one after another, in the clear, in what `make` makes.

        Where the first ones can be opened and a later one cannot, what comes before it. There is
        one buffer for all, as memory that is asked for and given back costs more than opening.

        Raises:
            KeyShredded, SealDamaged: the first one cannot be opened.
        """
        view = memoryview(buffer)
        out = make(sum(_opened_bytes(view, header) for header in batches))
        room, at = memoryview(out), 0
        for header in batches:
            end = at + _opened_bytes(view, header)
            try:
                self._open_into(room[at:end], view, header)
            except (KeyShredded, SealDamaged):
                if not at:
                    raise
                break
            at = end
        room.release()
        del out[at:]
        return out

    def _open_into(self, out: memoryview, view: memoryview, header: BatchHeader) -> None:
        if not header.attributes & _SEALED:
            out[:] = view[header.at : header.end]
            return
        version, salt, counter = _read_prefix(view, header)
        body_at = header.at + HEADER_BYTES + _PREFIX_BYTES + _told_bytes(view, header)
        prefix = view[header.at + HEADER_BYTES : body_at]
        head = view[header.at : header.at + HEADER_BYTES]
        aad = _authenticated(self.keys, header.base_offset, head, bytes(prefix))
        body = view[body_at : header.end]
        self._decrypt(header, (version, salt), counter, body, aad, out[HEADER_BYTES:])
        plain = header._replace(
            batch_length=len(out) - LENGTH_OVERHEAD, attributes=header.attributes & ~_SEALED
        )
        HEADER.pack_into(out, 0, *plain[1:-1])
        _put_checksum(out)

    def _decrypt(
        self,
        header: BatchHeader,
        sealed_by: tuple[int, bytes],
        counter: int,
        body: memoryview,
        aad: bytes,
        out: memoryview,
    ) -> None:
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(sealed_by)
        if cipher is None:
            if sealed_by[0] not in self.keys.versions:
                raise KeyShredded(
                    f"the batch at offset {header.base_offset} cannot be read: version "
                    f"{sealed_by[0]} of the topic's key, which has sealed it, was shredded",
                    header.at,
                    sealed_by[0],
                )
            if len(self._ciphers) >= _CIPHERS_MAX:
                self._ciphers.clear()
            cipher = self._ciphers[sealed_by] = _make_cipher(self.keys, *sealed_by)
        try:
            cipher.decrypt_into(_NONCE.pack(0, counter), body, aad, out)
        except (InvalidTag, ValueError):
            raise SealDamaged(
                f"the batch at offset {header.base_offset} is not what was sealed for this place",
                header.at,
            ) from None


def _make_cipher(keys: BatchKeys, version: int, salt: bytes) -> "AESGCM":
    # With the first sealed topic: loading takes 14 ms and 6 MB.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key = keys.versions[version]
    if len(key) != KEY_BYTES:
        raise InvariantBroken(f"version {version} of a topic's key is not 256 bits")
    place = b"kafkaesque batch" + keys.topic_id + keys.partition.to_bytes(4, "big") + salt
    return AESGCM(hmac.digest(key, place, "sha256"))


def _authenticated(keys: BatchKeys, base_offset: int, head: Buffer, prefix: bytes) -> bytes:
    place = _PLACE.pack(keys.topic_id, keys.partition, base_offset)
    return place + bytes(head[CHECKED_START:HEADER_BYTES]) + prefix


def _read_prefix(view: memoryview, header: BatchHeader) -> tuple[int, bytes, int]:
    """Return key version, salt and counter."""
    at = header.at + HEADER_BYTES
    if header.end - at < SEAL_BYTES or header.end > len(view):
        raise SealDamaged(f"the sealed batch at offset {header.base_offset} is cut", header.at)
    found, version, salt, counter = _PREFIX.unpack_from(view, at)
    if found not in (FORMAT, FORMAT_TELLING):
        raise SealDamaged(
            f"the batch at offset {header.base_offset} is sealed in format {found}, "
            f"and this release knows {FORMAT} and {FORMAT_TELLING}",
            header.at,
        )
    if header.end - at < SEAL_BYTES + _told_bytes(view, header):
        raise SealDamaged(f"the sealed batch at offset {header.base_offset} is cut", header.at)
    return version, salt, counter


def _told_bytes(view: memoryview, header: BatchHeader) -> int:
    """Return how many bytes a batch has between prefix and ciphertext."""
    at = header.at + HEADER_BYTES
    if header.end > len(view) or header.end - at < SEAL_BYTES + _LENGTH.size:
        return 0
    if view[at] != FORMAT_TELLING:
        return 0
    return int(_LENGTH.unpack_from(view, at + _PREFIX_BYTES)[0]) + _LENGTH.size


def told_by(batch: Buffer, header: BatchHeader) -> bytes:
    """Return what a sealed batch tells in the clear; nothing has been authenticated then.

    Raises:
        SealDamaged: the batch is cut, or of a format that is not known.
    """
    view = memoryview(batch)
    _read_prefix(view, header)
    begin = header.at + HEADER_BYTES + _PREFIX_BYTES + _LENGTH.size
    return bytes(view[begin : begin - _LENGTH.size + _told_bytes(view, header)])


def _opened_bytes(view: memoryview, header: BatchHeader) -> int:
    """Return how long a batch is in the clear; of one that is cut, at least a header."""
    if not header.attributes & _SEALED:
        return header.size_bytes
    return max(HEADER_BYTES, header.size_bytes - SEAL_BYTES - _told_bytes(view, header))


def _put_checksum(out: bytearray | memoryview) -> int:
    checksum = crc32c(memoryview(out)[layout.CHECKED_START :])
    out[MAGIC_END:CHECKED_START] = checksum.to_bytes(4, "big")
    return checksum


def seal_made(sealer: BatchSealer, batch: Buffer) -> bytearray:
    """Return a batch that was made here, sealed; see `BatchSealer.seal`."""
    return sealer.seal(batch, read_batch_header(batch))[0]
