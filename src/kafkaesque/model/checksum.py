"""CRC-32C (Castagnoli), the checksum of every batch, log entry and peer message."""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Protocol, cast

from kafkaesque.model.buffers import Buffer


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
