"""Apache Kafka's own command-line tools, run against a cluster and asked what they print."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from bench.apache_kafka import tool_command

TOOL_TIMEOUT_S = 120.0


class ToolError(AssertionError):
    """A tool failed, or said something else than it should have."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Runs the tools against one cluster."""

    bootstrap_servers: str

    def run(self, tool: str, *arguments: str, text: str = "") -> str:
        """Run a tool and return what it prints.

        Raises:
            ToolError: it ended with an error or not at all.
        """
        command = [*tool_command(tool), "--bootstrap-server", self.bootstrap_servers, *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise ToolError(f"{tool} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def expect(self, tool: str, *arguments: str, says: str, text: str = "") -> str:
        """Run a tool and return what it prints, in which `says` must stand."""
        printed = self.run(tool, *arguments, text=text)
        if says not in printed:
            raise ToolError(f"{tool} {' '.join(arguments)} does not say {says!r}: {printed}")
        return printed
