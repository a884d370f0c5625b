"""Subjects, as far as a command has to be refused for them.

What a subject matches is decided by `routing`.
"""

from __future__ import annotations


def is_subject(text: str) -> bool:
    """Tell whether it can be subscribed to: no empty token, and `>` in the last one only."""
    if not text or text[0] == "." or text[-1] == "." or ".." in text:
        return False
    if ">" not in text:
        return True
    return ">" not in text.split(".")[:-1]


def is_literal(text: str) -> bool:
    """Tell whether it is a subject without wildcards; `a*` has none."""
    if not is_subject(text):
        return False
    if "*" not in text and ">" not in text:
        return True
    return not {"*", ">"}.intersection(text.split("."))
