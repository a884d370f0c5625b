"""Numbers with their nouns, as sentences for people have them."""


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, which takes an s for more than one or none."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def are(count: int) -> str:
    """Return the verb for so many."""
    return "is" if count == 1 else "are"


def have(count: int) -> str:
    """Return the verb for so many."""
    return "has" if count == 1 else "have"
