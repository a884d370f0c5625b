"""Where a broker is in its life, for the parts that do nothing before, or nothing more."""


class Life:
    """Set by the broker alone; its parts look."""

    __slots__ = ("failure", "is_ready", "is_stopping")

    def __init__(self) -> None:
        #: Whether the controller has committed this process's registration: clients may come.
        self.is_ready = False
        #: Whether the broker is stopping in order.
        self.is_stopping = False
        #: The disk's failure, after which this process takes no part any more.
        self.failure: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing new is to be begun: the broker stops, or its disk has failed."""
        return self.is_stopping or self.failure is not None
