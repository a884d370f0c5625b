"""What a command says when it cannot go on: one sentence, what to try, and an exit code."""

import json
import sys
from collections.abc import Sequence

from kafkaesque.cli.exit_codes import FAILED


class CommandFailed(Exception):
    """Ends a command with a message that a person understands."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def show(self) -> None:
        """Write the message to stderr; where the command prints JSON, as a JSON object."""
        if wants_json(sys.argv):
            told = {"error": self.message, "try": self.hint, "exit_code": self.exit_code}
            sys.stderr.write(json.dumps(told) + "\n")
            return
        lines = [f"error: {line}" for line in self.message.splitlines()]
        if self.hint:
            lines.append(f"try:   {self.hint}")
        sys.stderr.write("\n".join(lines) + "\n")


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether a command line asks for JSON."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options
