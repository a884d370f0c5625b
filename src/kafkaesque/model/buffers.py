"""What counts as bytes."""

from typing import TypeAlias

#: Contiguous bytes that somebody else may own; a memory map is passed as `memoryview(map)`.
Buffer: TypeAlias = bytes | bytearray | memoryview
