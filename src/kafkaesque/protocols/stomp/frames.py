"""Frames: a command, headers, a body, and NUL.

Theory of operation. Lines are taken as they come, each within bounds on the command and on all
headers together. A body has the length that `content-length` says, and ends at the first NUL
otherwise; its bound is checked before any of it is kept, or as it grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.stomp.alike import Alike, cut_alike
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.heads import ODD, PLAIN_HEAD_BYTES_MAX
from kafkaesque.protocols.stomp.versions import Version, escape, unescape

_LF, _CR, _NUL = 0x0A, 0x0D, 0x00
#: Their headers are written as they are in every version, so that 1.0 can read them.
_UNESCAPED: Final = frozenset(("CONNECT", "STOMP", "CONNECTED"))
_LENGTH_DIGITS_MAX: Final = 12

#: After so many frames in a row that are unlike those before them, a client is taken to say
#: something else in each. It is looked again so many frames later.
MISSES_MAX: Final = 4
UNLOOKED: Final = 16

Headers = tuple[tuple[str, str], ...]


class Frame(NamedTuple):
    """One frame; of headers with one name the first counts."""

    command: str
    headers: Headers = ()
    body: bytes = b""

    def get(self, name: str) -> str | None:
        """Return a header's value; None if there is none."""
        for each, value in self.headers:
            if each == name:
                return value
        return None


class _Part(Enum):
    """What comes next."""

    #: Line ends between frames, or a command.
    COMMAND = "command"
    HEADERS = "headers"
    BODY = "body"


# To look a member up in its class takes as long as three calls.
_COMMAND: Final = _Part.COMMAND


class FrameReader:
    """One connection's bytes that are not consumed yet."""

    __slots__ = (
        "_at",
        "_buffer",
        "_command",
        "_head_bytes",
        "_headers",
        "_length",
        "_misses",
        "_part",
        "_plain_head",
        "_searched",
        "_unlooked",
        "body_bytes_max",
        "command_bytes_max",
        "head_bytes_max",
        "headers_max",
        "version",
    )

    def __init__(
        self, *, command_bytes_max: int, headers_max: int, head_bytes_max: int, body_bytes_max: int
    ) -> None:
        self.command_bytes_max = command_bytes_max
        self.headers_max = headers_max
        #: All headers together.
        self.head_bytes_max = head_bytes_max
        self.body_bytes_max = body_bytes_max
        #: None until it is agreed upon: CONNECT is in all of them.
        self.version: Version | None = None
        self._buffer = bytearray()
        self._at = 0
        #: How far the buffer is known to hold no end of what comes next.
        self._searched = 0
        self._part = _Part.COMMAND
        self._command = ""
        self._headers: list[tuple[str, str]] = []
        self._head_bytes = 0
        #: The body's, if the frame says it.
        self._length: int | None = None
        #: Of the last frame, with the empty line, if it was read at once; else empty.
        self._plain_head = b""
        #: How often in a row a next frame was not alike, and frames for which it is not looked.
        self._misses = self._unlooked = 0

    @property
    def kept_bytes(self) -> int:
        """How much has come and is not consumed; headers of a half frame are not counted."""
        return len(self._buffer) - self._at

    @property
    def receipt_id(self) -> str | None:
        """What the frame that is being read asks for, as far as it has come."""
        return next((value for name, value in self._headers if name == "receipt"), None)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take in what has come."""
        if self._at:
            del self._buffer[: self._at]
            self._searched = max(self._searched - self._at, 0)
            self._at = 0
        self._buffer += data

    def next_frame(self) -> Frame | None:
        """Return the next frame; None if more has to come.

        Raises:
            StompError: the bytes are no frame, or beyond a bound.
        """
        if self._part is _COMMAND and self.version is not None:
            self._read_plain_head()
        while True:
            match self._part:
                case _Part.COMMAND:
                    is_done = self._read_command()
                case _Part.HEADERS:
                    is_done = self._read_header()
                case _Part.BODY:
                    return self._read_body()
            if not is_done:
                return None

    def _read_plain_head(self) -> None:
        """Read a command and its headers at once, if all of them are there and nothing is odd.

        Whatever else it may be is left to those who read it line by line, and tell what is wrong.
        """
        self._plain_head = b""
        buffer, at = self._buffer, self._at
        while buffer.startswith(b"\n", at):
            at += 1
        end = buffer.find(b"\n\n", at, at + min(self.head_bytes_max, PLAIN_HEAD_BYTES_MAX))
        if end < 0:
            return
        head = bytes(buffer[at:end])
        if ODD.search(head) is not None:
            return
        command, *lines = head.decode("ascii").split("\n")
        if len(command) > self.command_bytes_max or len(lines) > self.headers_max:
            return
        headers: list[tuple[str, str]] = []
        is_stripped = self.version is Version.V1_0 and command not in _UNESCAPED
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name:
                return
            headers.append((name.strip(" "), value.strip(" ")) if is_stripped else (name, value))
        self._command, self._headers, self._length = command, headers, None
        self._at = end + 2
        self._part = _Part.BODY
        self._plain_head = head + b"\n\n"
        self._take_length()

    def take_alike(self, varying: Sequence[str], *, has_bodies: bool) -> Alike | None:
        """Take in the whole frames that follow the last one and say the same, as far as they came.

        The first header of each name of `varying` may differ, and so may the body, if frames of
        this kind have any. None: the next frame is another one, or not whole. In 1.0, whose blanks
        mean nothing, it is always None.
        """
        head, at = self._plain_head, self._at
        if self._unlooked:
            self._unlooked -= 1
            return None
        if not head or len(self._buffer) == at or self.version is Version.V1_0:
            return None
        found = cut_alike(
            self._buffer,
            at,
            head,
            varying,
            head_bytes_max=self.head_bytes_max,
            body_bytes_max=self.body_bytes_max if has_bodies else 0,
        )
        if found is not None:
            self._at = found.end
            self._misses = 0
        else:
            self._misses += 1
            self._unlooked = 0 if self._misses < MISSES_MAX else UNLOOKED
        return found

    # -- lines

    def _next_line(self, bytes_max: int, too_long: str) -> bytes | None:
        """Return the next line without its end; None if it is not whole.

        Which of two mistakes is told does not depend on how the bytes were cut: the first one.
        """
        buffer, at = self._buffer, self._at
        end = buffer.find(b"\n", max(at, self._searched))
        limit = end if end >= 0 else len(buffer)
        nul = buffer.find(b"\0", at, min(limit, at + bytes_max + 1))
        if nul >= 0:
            raise StompError("a frame ends before its headers do")
        if limit - at > bytes_max:
            raise StompError(too_long)
        if end < 0:
            self._searched = len(buffer)
            return None
        self._at = end + 1
        line = bytes(buffer[at:end])
        # CR belongs to a line's end in 1.2 only, and while the version is open.
        if self.version in (None, Version.V1_2):
            return line.removesuffix(b"\r")
        return line

    def _read_command(self) -> bool:
        line = self._next_line(self.command_bytes_max, "there is no such command")
        if line is None:
            return False
        if line:
            self._command = str(line, "utf-8", "replace")
            self._part = _Part.HEADERS
            self._headers = []
            self._head_bytes = 0
            self._length = None
        return True

    def _read_header(self) -> bool:
        left = self.head_bytes_max - self._head_bytes
        start = self._at
        line = self._next_line(left, f"headers have more than {self.head_bytes_max} bytes")
        if line is None:
            return False
        self._head_bytes += self._at - start
        if not line:
            self._part = _Part.BODY
            self._take_length()
            return True
        if len(self._headers) == self.headers_max:
            raise StompError(f"a frame has more than {self.headers_max} headers")
        self._headers.append(self._split(line))
        return True

    def _split(self, line: bytes) -> tuple[str, str]:
        try:
            name, colon, value = line.decode().partition(":")
        except UnicodeDecodeError:
            raise StompError("a header is not UTF-8") from None
        if not colon or not name:
            raise StompError("a header has no name, or no colon")
        version = self.version
        if version is None or self._command in _UNESCAPED:
            return name, value
        if version is Version.V1_0:
            return name.strip(" "), value.strip(" ")
        return unescape(name, version), unescape(value, version)

    def _take_length(self) -> None:
        text = next((value for name, value in self._headers if name == "content-length"), None)
        if text is None:
            return
        digits = text.strip(" ")
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= _LENGTH_DIGITS_MAX
        if not is_number:
            raise StompError("content-length is no number")
        self._length = int(digits)
        if self._length > self.body_bytes_max:
            raise self._too_long()

    # -- the body

    def _read_body(self) -> Frame | None:
        buffer, at, length = self._buffer, self._at, self._length
        if length is not None:
            end = at + length
            if len(buffer) <= end:
                return None
            if buffer[end] != _NUL:
                raise StompError("a body is longer than its content-length")
        else:
            end = buffer.find(b"\0", max(at, self._searched))
            if (end if end >= 0 else len(buffer)) - at > self.body_bytes_max:
                raise self._too_long()
            if end < 0:
                self._searched = len(buffer)
                return None
        self._at = end + 1
        self._part = _Part.COMMAND
        headers = tuple(self._headers)
        self._headers = []
        return Frame(self._command, headers, bytes(buffer[at:end]))

    def _too_long(self) -> StompError:
        return StompError(f"a body has more than {self.body_bytes_max} bytes")


def write_frame(frame: Frame, version: Version) -> bytes:
    """Return a frame; its body's length is written where there is a body.

    Raises:
        InvariantBroken: it has a length of its own.
    """
    if frame.get("content-length") is not None:
        raise InvariantBroken("content-length is written here")
    headers = frame.headers
    if frame.body:
        headers = (*headers, ("content-length", str(len(frame.body))))
    is_plain = frame.command in _UNESCAPED
    head = write_headers(headers, Version.V1_0 if is_plain else version)
    return b"".join((frame.command.encode(), b"\n", head, b"\n", frame.body, b"\0"))


def write_headers(headers: Headers, version: Version) -> bytes:
    """Return headers, a line each."""
    lines = [f"{escape(name, version)}:{escape(value, version)}\n" for name, value in headers]
    return "".join(lines).encode(errors="replace")
