"""What queues are called: a virtual host, as AMQP has it, and a name of any characters."""

from typing import NamedTuple

from kafkaesque.broker.metadata.topic_names import QUEUE_LOG_PREFIX
from kafkaesque.model.errors import InvalidRequest
from kafkaesque.model.ids import TopicId

#: Where protocols that know no virtual hosts have their queues.
DEFAULT_VHOST = "/"
NAME_BYTES_MAX = 255


class QueueName(NamedTuple):
    """A queue's name; queues and topics may have equal names."""

    vhost: str
    name: str

    def __str__(self) -> str:
        return (
            repr(self.name) if self.vhost == DEFAULT_VHOST else f"{self.name!r} in {self.vhost!r}"
        )


def check_queue_name(queue: QueueName) -> None:
    """Refuse what is no legal name.

    Raises:
        InvalidRequest: empty, or longer than 255 bytes.
    """
    for what, text in (("virtual host", queue.vhost), ("queue", queue.name)):
        size = len(text.encode())
        if not 1 <= size <= NAME_BYTES_MAX:
            raise InvalidRequest(
                f"the name of a {what} has 1 to {NAME_BYTES_MAX} bytes, this has {size}"
            )


def queue_log(log_id: TopicId) -> str:
    """Return the name of a queue's log: unlike the queue's own, it is never used again."""
    return QUEUE_LOG_PREFIX + log_id.hex()
