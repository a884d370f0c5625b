"""What a client may have said wrongly about names, selectors, exchanges and rules."""

from kafkaesque.model.errors import RequestRefused


class BadName(RequestRefused):
    """A text is no name, or no filter, in this protocol."""


class NotExpressible(RequestRefused):
    """A name or filter of one protocol has no counterpart in another."""


class BadSelector(RequestRefused):
    """A selector cannot be compiled; `position` counts characters from 0."""

    def __init__(self, what: str, position: int) -> None:
        super().__init__(f"{what} (at character {position + 1})")
        self.what = what
        self.position = position
