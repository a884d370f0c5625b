"""What a command says when it cannot go on: one sentence, what to try, and an exit code."""

import sys

from kafkaesque.cli.exit_codes import FAILED


class CommandFailed(Exception):
    """Ends a command with a message that a person understands."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def show(self) -> None:
        """Write the message to stderr."""
        lines = [f"error: {line}" for line in self.message.splitlines()]
        if self.hint:
            lines.append(f"try:   {self.hint}")
        sys.stderr.write("\n".join(lines) + "\n")
