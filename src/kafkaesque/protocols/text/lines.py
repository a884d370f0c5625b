"""Cuts a stream of bytes into lines, within bounds.

Theory of operation. A line ends with LF; a CR before that belongs to the ending, as telnet sends
it. A line that grows past the bound is given up at once: `TOO_LONG` stands in for it, its bytes are
dropped as they come, and the next line is read as usual. What stands after the last ending when the
stream ends may be half of a line whose sender has died: it is dropped, and `UNFINISHED` stands in
for it. Ctrl-D is the end of the input wherever a line could begin; telnet sends it as itself or as
IAC EOF (RFC 1184).
"""

from enum import Enum

#: The longest line, without its ending.
LINE_BYTES_MAX = 1024 * 1024

_CTRL_D = b"\x04"
_TELNET_EOF = b"\xff\xec"


class Mark(Enum):
    """What comes in place of a line."""

    #: A line was longer than the bound and is dropped.
    TOO_LONG = "too long"
    #: The stream ended within a line, which is dropped.
    UNFINISHED = "unfinished"
    #: The person has pressed Ctrl-D.
    END = "end"


class LineReader:
    """One connection's lines."""

    __slots__ = ("_line_bytes_max", "_rest", "_skips", "_tail_searched")

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._rest = bytearray()
        #: How much of `_rest` is known to hold no line's end.
        self._tail_searched = 0
        #: Whether the line that is being received was too long already.
        self._skips = False

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | Mark]:
        """Return the lines that are complete now, without their endings."""
        rest = self._rest
        rest += data
        lines: list[bytes | Mark] = []
        start = 0
        end = rest.find(b"\n", self._tail_searched)
        while end >= 0:
            self._take(bytes(rest[start:end]), lines)
            start = end + 1
            end = rest.find(b"\n", start)
        if start:
            del rest[:start]
        if rest in (_CTRL_D, _TELNET_EOF):
            rest.clear()
            lines.append(Mark.END)
        elif self._skips or len(rest) > self._line_bytes_max + 1:
            # One more, because the last may be the ending's CR.
            if not self._skips:
                self._skips = True
                lines.append(Mark.TOO_LONG)
            rest.clear()
        self._tail_searched = len(rest)
        return lines

    def finish(self) -> list[bytes | Mark]:
        """The stream has ended: return `UNFINISHED` if there is more than blanks after a line."""
        is_unfinished = bool(self._rest.strip())
        self._rest.clear()
        self._tail_searched = 0
        return [Mark.UNFINISHED] if is_unfinished else []

    def _take(self, line: bytes, lines: list[bytes | Mark]) -> None:
        if self._skips:
            self._skips = False
            return
        line = line.removesuffix(b"\r")
        if line in (_CTRL_D, _TELNET_EOF):
            lines.append(Mark.END)
        elif len(line) > self._line_bytes_max:
            lines.append(Mark.TOO_LONG)
        else:
            lines.append(line)
