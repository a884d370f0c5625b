"""Why a rule cannot be, or cannot be applied to a message."""

from kafkaesque.model.errors import RequestRefused


class BadRule(RequestRefused):
    """A rule is none; says which step is wrong, counted from 1, and why."""


class TransformationFailed(RequestRefused):
    """A message does not have what a rule's step needs; it is as it was."""
