"""How long AMQP's hot path takes, in microseconds of one core for each message.

    .venv/bin/python -m bench.amqp_codec [messages]

Publishes of 100 bytes with a delivery mode, 64 in one read; acknowledgements, 64 in one read; and
deliveries of the same messages. The shortest of five rounds counts, in processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.connection import Connection
from kafkaesque.protocols.amqp.content_path import write_ack, write_content
from kafkaesque.protocols.amqp.frames import METHOD, PROTOCOL_HEADER, write_frame
from kafkaesque.protocols.amqp.method_codec import write_method

MESSAGES = 64_000
PER_READ = 64
BODY = bytes(100)
#: Only a delivery mode of 2.
PROPERTIES = b"\x10\0\2"
ROUNDS = 5


def opened() -> Connection:
    """Return a connection with channel 1 open."""
    connection = Connection()
    connection.receive(PROTOCOL_HEADER)
    connection.send(0, m.ConnectionStart())
    connection.receive(write_frame(METHOD, 0, write_method(m.ConnectionStartOk())))
    connection.send(0, m.ConnectionTune(channel_max=2047, frame_max=131_072))
    for channel, method in (
        (0, m.ConnectionTuneOk(channel_max=2047, frame_max=131_072)),
        (0, m.ConnectionOpen()),
        (1, m.ChannelOpen()),
    ):
        connection.receive(write_frame(METHOD, channel, write_method(method)))
    return connection


def measure(title: str, count: int, run: Callable[[], None]) -> None:
    """Print how long one of `count` takes that one run does."""
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    print(f"{title:10} {min(times) / count * 1e6:6.2f} us each")


def main(arguments: list[str]) -> None:
    """Measure one after the other."""
    count = int(arguments[0]) if arguments else MESSAGES
    reads = count // PER_READ
    connection = opened()
    method = write_method(m.BasicPublish(exchange="orders", routing_key="orders.eu"))
    publishes = write_content(1, method, PROPERTIES, BODY, 131_072) * PER_READ
    acks = b"".join(write_ack(1, tag) for tag in range(PER_READ))
    writer = connection.deliver_writer(1, "amq.ctag-1")

    def parse(data: bytes) -> None:
        for _ in range(reads):
            connection.receive(data)

    def deliver() -> None:
        for tag in range(reads * PER_READ):
            writer.write(tag, "orders", "orders.eu", PROPERTIES, BODY)

    def declare() -> None:
        found = m.QueueDeclare(queue="q", arguments={"x-max-length": 5})
        for _ in range(reads):
            write_method(found)

    measure("publish", reads * PER_READ, lambda: parse(publishes))
    measure("ack", reads * PER_READ, lambda: parse(acks))
    measure("deliver", reads * PER_READ, deliver)
    measure("declare", reads, declare)


if __name__ == "__main__":
    main(sys.argv[1:])
