"""What the emitters of readers and writers share: indented lines, local names, struct formats."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

#: Names that generated functions use for themselves.
RESERVED = " buf pos end left n m out append error str bytes list len range unpack_from pack "


class Formats:
    """The `struct` formats that a generated module needs, each as one module constant."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, str], None] = {}

    def name(self, method: str, fmt: str) -> str:
        """Returns the constant for `method` (`unpack_from` or `pack`) of `fmt`."""
        self._used[method, fmt] = None
        spelled = fmt.replace("16s", "U").replace("?", "o")
        return f"_{'r' if method == 'unpack_from' else 'w'}_{spelled}"

    def lines(self) -> Iterator[str]:
        """Yields the definitions of the constants."""
        for method, fmt in sorted(self._used):
            yield f'{self.name(method, fmt)} = Struct(">{fmt}").{method}'


class Emitter:
    """Collects the lines of one function."""

    def __init__(self, formats: Formats) -> None:
        self.formats = formats
        self.lines: list[str] = []
        self._depth = 1
        self._names: dict[str, int] = {}

    def emit(self, line: str) -> None:
        """Adds a line at the current depth."""
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Adds `head`, and whatever is emitted inside one step deeper."""
        self.emit(head)
        self._depth += 1
        yield
        self._depth -= 1

    def local(self, name: str) -> str:
        """Returns a local name that is not in use yet."""
        count = self._names.get(name, 0) + 1
        self._names[name] = count
        return f"{name}_{count}" if count > 1 or f" {name} " in RESERVED else name


def format_bytes(fmt: str) -> int:
    """Returns how many bytes a format takes on the wire."""
    return struct.calcsize(">" + fmt)
