"""CRC-32C (Castagnoli), the checksum of every batch, log entry and peer message."""

from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol, cast

from kafkaesque.model.buffers import Buffer

#: Castagnoli's polynomial, and 1, with the lowest power of x in the highest bit.
_POLYNOMIAL: Final = 0x82F63B78
_ONE: Final = 1 << 31


class Checksum(Protocol):
    """Takes bytes and the checksum of what came before them; returns 0 to 2**32 - 1."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _load() -> Checksum:
    """Return the C function of the package `crc32c`.

    Its `__init__` imports argparse and importlib.metadata (with all of `email`), which takes about
    28 ms, a tenth of a broker's start. So the extension module is loaded by itself, and the whole
    package only where it is laid out in another way.
    """
    package = PathFinder.find_spec("crc32c")
    inner = PathFinder.find_spec(
        "_crc32c", package.submodule_search_locations if package is not None else None
    )
    if inner is None or inner.loader is None:
        from crc32c import crc32c as whole

        return whole
    module = module_from_spec(inner)
    inner.loader.exec_module(module)
    return cast(Checksum, module.crc32c)


crc32c: Checksum = _load()


def shifted(value: int, count: int) -> int:
    """Return a checksum's share in that of `count` more bytes, whatever these are; below 2**32.

    `crc32c(data, value)` is `shifted(value, len(data)) ^ crc32c(data)`: so checksums of any pieces
    of a file follow from those of its beginnings. Source: `crc32_combine` of zlib.
    """
    for powers in _powers():
        if count & 0xFF:
            value = _times(powers[count & 0xFF], value)
        count >>= 8
    return value


@cache
def _powers() -> list[list[int]]:
    """Return x to the power of 8 * n, for each byte of n."""
    table, step = [], _ONE >> 8
    for _ in range(4):
        powers = [_ONE]
        for _ in range(256):
            powers.append(_times(powers[-1], step))
        step = powers.pop()
        table.append(powers)
    return table


def _times(a: int, b: int) -> int:
    """Multiply two polynomials modulo Castagnoli's."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
    return product
