"""What a peer can do wrong, by AMQP's reply codes."""

from enum import IntEnum

from kafkaesque.model.errors import KafkaesqueError


class ReplyCode(IntEnum):
    """Reply codes (AMQP 0-9-1, section 1.1 of the reference)."""

    SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541

    @property
    def closes_channel(self) -> bool:
        """Whether an error of this code ends the channel, and not the whole connection."""
        return self in _CHANNEL_CODES


_CHANNEL_CODES = frozenset(
    (
        ReplyCode.CONTENT_TOO_LARGE,
        ReplyCode.NO_CONSUMERS,
        ReplyCode.ACCESS_REFUSED,
        ReplyCode.NOT_FOUND,
        ReplyCode.RESOURCE_LOCKED,
        ReplyCode.PRECONDITION_FAILED,
    )
)

#: A reply text is a short string.
TEXT_BYTES_MAX = 255


class AmqpError(KafkaesqueError):
    """A peer's mistake, and what it is to be told: code, text, and the method that was wrong."""

    def __init__(self, code: ReplyCode, what: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(f"{code.name} - {what}")
        self.code = code
        self.class_id = class_id
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        """The text as RabbitMQ writes it, cut to what fits."""
        raw = str(self).encode(errors="replace")[:TEXT_BYTES_MAX]
        return raw.decode(errors="ignore")
