"""JetStream's own subjects: requests, acknowledgements."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkaesque.queues.requests import Claim

JETSTREAM_PREFIX: Final = "$JS."
API_PREFIX: Final = "$JS.API."
ACK_PREFIX: Final = "$JS.ACK."
FLOW_PREFIX: Final = "$JS.FC."
#: Tokens of an acknowledgement's subject, and of the longer form that has domain and account.
_ACK_TOKENS: Final = 9
_LONG_ACK_TOKENS: Final = 11
_DIGITS_MAX: Final = 19


class AckToken(NamedTuple):
    """What a delivered message's reply subject says."""

    stream: str
    consumer: str
    delivered: int
    stream_sequence: int
    consumer_sequence: int
    timestamp_ns: int
    pending: int

    @property
    def claim(self) -> Claim:
        """The message in its queue: sequences begin with 1, offsets with 0."""
        return Claim(self.stream_sequence - 1, self.stream_sequence, self.delivered)

    def write(self) -> str:
        """Return the subject."""
        return ACK_PREFIX + ".".join(map(str, self))


def read_ack(subject: str) -> AckToken | None:
    """Return what an acknowledgement's subject says; None: it is none."""
    words = subject.split(".")
    if len(words) >= _LONG_ACK_TOKENS:
        words = words[:2] + words[4:_LONG_ACK_TOKENS]
    if len(words) != _ACK_TOKENS:
        return None
    numbers = words[4:]
    if not all(each.isascii() and each.isdigit() and len(each) <= _DIGITS_MAX for each in numbers):
        return None
    delivered, stream, consumer, timestamp, pending = map(int, numbers)
    return AckToken(words[2], words[3], delivered, stream, consumer, timestamp, pending)
