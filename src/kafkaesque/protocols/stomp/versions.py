"""Versions, and what differs between them."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from kafkaesque.protocols.stomp.errors import StompError


class Version(Enum):
    """A version of the protocol, by how CONNECTED names it."""

    V1_0 = "1.0"
    V1_1 = "1.1"
    V1_2 = "1.2"


#: As an ERROR names them.
SUPPORTED: Final = ",".join(each.value for each in Version)

#: Which letter behind a backslash stands for what ("Value Encoding").
_ESCAPES: Final[dict[Version, dict[str, str]]] = {
    Version.V1_0: {},
    Version.V1_1: {"\\n": "\n", "\\c": ":", "\\\\": "\\"},
    Version.V1_2: {"\\n": "\n", "\\c": ":", "\\\\": "\\", "\\r": "\r"},
}
#: Whatever is written in another way in some version.
_CARE: Final = re.compile(r"[\\:\n\r\0]")
_ESCAPE: Final = re.compile(r"\\.?", re.DOTALL)
_SPECIAL: Final = {
    version: re.compile("[" + "".join(map(re.escape, escapes.values())) + "]")
    for version, escapes in _ESCAPES.items()
    if escapes
}
_WRITTEN: Final = {
    version: {what: escape for escape, what in escapes.items()}
    for version, escapes in _ESCAPES.items()
}


def choose_version(accepted: str | None) -> Version:
    """Return the highest version that a client accepts; without a word that is 1.0.

    Raises:
        StompError: it accepts none of ours.
    """
    if accepted is None:
        return Version.V1_0
    offered = {each.strip() for each in accepted.split(",")}
    for version in reversed(Version):
        if version.value in offered:
            return version
    raise StompError("none of the versions that are accepted is spoken here", versions=SUPPORTED)


def unescape(text: str, version: Version) -> str:
    """Return what a part of a header says.

    Raises:
        StompError: it has an escape that the version does not know.
    """
    if "\\" not in text or version is Version.V1_0:
        return text
    escapes = _ESCAPES[version]

    def read(found: re.Match[str]) -> str:
        what = escapes.get(found[0])
        if what is None:
            raise StompError("a header holds an escape that does not exist")
        return what

    return _ESCAPE.sub(read, text)


def is_plain(text: str) -> bool:
    """Tell whether a part of a header is written as it is, in every version."""
    return _CARE.search(text) is None


def escape(text: str, version: Version) -> str:
    """Return how a part of a header is written.

    What the version cannot hold becomes a blank: line ends in 1.0, CR in 1.1, and NUL in all.
    """
    if is_plain(text):
        return text
    if version is Version.V1_0:
        return text.translate(_BLANKS)
    written = _WRITTEN[version]
    text = _SPECIAL[version].sub(lambda found: written[found[0]], text)
    return text.translate(_BLANKS)


_BLANKS: Final = {0: " ", 10: " ", 13: " "}
