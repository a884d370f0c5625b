"""What keeps a pipeline from running; each message is one sentence for people."""

from __future__ import annotations


class PipelineError(Exception):
    """Base of what ends a command on pipelines: what is wrong and where, and what helps."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class WrongProject(PipelineError):
    """The project, a setting or a command line cannot be meant like that; nothing was run."""


class RunFailed(PipelineError):
    """What was to be run could not be run to its end."""


class BrokersAway(PipelineError):
    """No broker answered."""


class Interrupted(PipelineError):
    """Somebody wanted the run to end before its end."""

    def __init__(self) -> None:
        super().__init__("the run was stopped before its end: the next one continues from there")
