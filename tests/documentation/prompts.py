"""Runs a command on a terminal, and types an answer at each prompt.

`python tests/documentation/prompts.py ANSWER... -- COMMAND`. A prompt is what ends with a colon
and a blank. Answers that are left over are an error.
"""

from __future__ import annotations

import os
import pty
import sys

_PROMPT = b": "


def main(words: list[str]) -> int:
    """Return the exit code of the command."""
    at = words.index("--")
    answers, command = words[:at], words[at + 1 :]

    shown = bytearray()

    def read(screen: int) -> bytes:
        printed = os.read(screen, 1024)
        # A prompt may come in parts.
        shown.extend(printed)
        if shown.endswith(_PROMPT) and answers:
            shown.clear()
            os.write(screen, f"{answers.pop(0)}\n".encode())
        return printed.replace(b"\r\n", b"\n")

    code = os.waitstatus_to_exitcode(pty.spawn(command, read))
    return code or len(answers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
