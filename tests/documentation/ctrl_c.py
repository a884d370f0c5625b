"""Runs a command on a terminal, and types Ctrl-C when it shows some words.

`python tests/documentation/ctrl_c.py WORDS -- COMMAND`. What it shows goes on to standard output.
"""

from __future__ import annotations

import os
import pty
import sys

_CTRL_C = b"\x03"


def main(words: list[str]) -> int:
    """Return the exit code of the command; 1 if it has never shown the words."""
    at = words.index("--")
    awaited, command = " ".join(words[:at]).encode(), words[at + 1 :]
    shown = bytearray()
    is_typed = False

    def read(screen: int) -> bytes:
        nonlocal is_typed
        printed = os.read(screen, 1024)
        # The words may come in parts.
        shown.extend(printed)
        if not is_typed and awaited in shown:
            is_typed = True
            os.write(screen, _CTRL_C)
        del shown[: -len(awaited)]
        return printed.replace(b"\r\n", b"\n")

    code = os.waitstatus_to_exitcode(pty.spawn(command, read))
    return code if is_typed else code or 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
