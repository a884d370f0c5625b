"""Why RE2 does not take a pattern, in its words."""


def reason_of(error: Exception) -> str:
    """Return the reason in an error of RE2, which has it as bytes."""
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
