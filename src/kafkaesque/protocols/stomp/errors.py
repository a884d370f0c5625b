"""What a peer can do wrong."""

from kafkaesque.model.errors import KafkaesqueError


class StompError(KafkaesqueError):
    """A peer's mistake: it is told by an ERROR frame, and the connection is closed.

    `receipt_id` is that of the frame that was wrong, if it asked for one.
    """

    def __init__(self, what: str, *, receipt_id: str | None = None, versions: str = "") -> None:
        super().__init__(what)
        self.receipt_id = receipt_id
        #: The versions that the peer could have asked for, where it asked for none of them.
        self.versions = versions
