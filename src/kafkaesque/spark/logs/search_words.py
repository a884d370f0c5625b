"""What people type to find lines, as FTS5 takes it."""

from __future__ import annotations

import re

from kafkaesque.spark.errors import ConnectorError

_WORDS_MAX = 64
_WORD = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')


def to_match(text: str) -> str:
    """Return an expression for FTS5: all words and "phrases", beginnings*, and no -words.

    Signs within a word, as in an address or a path, make it a phrase of what is between them.

    Raises:
        ConnectorError: there is nothing to be looked for, or too much.
    """
    wanted: list[str] = []
    unwanted: list[str] = []
    for minus, phrase, word in _WORD.findall(text):
        body, star = (phrase, "") if phrase else (word.rstrip("*"), "*" if word[-1:] == "*" else "")
        if re.search(r"\w", body):
            (unwanted if minus else wanted).append(f'"{body}"{star}')
    if not wanted:
        raise ConnectorError(f"there is no word to be looked for in {text!r}")
    if len(wanted) + len(unwanted) > _WORDS_MAX:
        raise ConnectorError(f"these are more than {_WORDS_MAX} words to be looked for")
    found = " AND ".join(wanted)
    return f"({found}) NOT ({' OR '.join(unwanted)})" if unwanted else found
