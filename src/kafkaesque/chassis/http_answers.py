"""Writes HTTP/1.1 answers: their heads, and bodies in chunks."""

from collections.abc import Mapping
from typing import Final

CONTINUE: Final = b"HTTP/1.1 100 \r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"


def write_head(status: int, headers: Mapping[str, str]) -> bytes:
    """Return an answer's head.

    Raises:
        ValueError: a header's name or value cannot be written.
    """
    lines = [f"HTTP/1.1 {status} "]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    text = "\r\n".join(lines)
    # Each line is one that was meant: a value that began another would answer in our name.
    is_printable = text.isascii() and text.replace("\r\n", "").isprintable()
    if not is_printable or text.count("\r\n") != len(headers):
        raise ValueError("a header of an answer has characters that no header can have")
    return f"{text}\r\n\r\n".encode("ascii")


def write_chunk(data: bytes) -> bytes:
    """Return a piece of a body as a chunk; it is not empty, which would be the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)
