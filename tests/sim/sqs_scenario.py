"""A simulated cluster that clients of SQS speak to, byte by byte."""

import json
from typing import Any, Final

from kafkaesque.chassis.link import ClientConnection
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions
from kafkaesque.sim.cluster import SQS_GATEWAYS, SQS_PORT
from tests.sim.queue_scenario import TIMEOUT_MS, QueueScenario

JSON_TYPE: Final = "application/x-amz-json-1.0"


class SqsScenario(QueueScenario):
    """Three brokers, and clients of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, gateways=SQS_GATEWAYS)
        self._count = 0

    def client(self, broker: str = "") -> "SqsClient":
        """Connect to a broker."""
        self._count += 1
        return SqsClient(self, broker or self.running()[0], f"client{self._count}")

    def connections(self, broker: str) -> list[ClientConnection]:
        """Return the connections that a broker's port has."""
        return list(self.cluster._gateways[broker][SQS_PORT].connections.values())

    def make(self, name: str, **attributes: str) -> str:
        """Make a queue over SQS, and return its URL."""
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        client = self.client()
        made = client.do("CreateQueue", QueueName=name, Attributes={**fifo, **attributes})
        client.leave()
        return str(made["QueueUrl"])


class Answer:
    """What came back."""

    def __init__(self, head: bytes, body: bytes) -> None:
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        pairs = [line.partition(": ") for line in lines[1:]]
        self.headers = {name.lower(): value for name, _, value in pairs}
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """What the error is called; empty if there is none."""
        return "" if self.status == 200 else str(self.json["__type"].partition("#")[2])


class SqsClient:
    """One connection: sends bytes, keeps what comes."""

    def __init__(self, scenario: SqsScenario, broker: str, name: str) -> None:
        self.received = b""
        self.is_closed = False
        self.connection: Connection | None = None
        self._loop = scenario.loop
        env = scenario.world.add_machine(name).boot()
        options = ListenOptions(framing=Framing.STREAM)
        address = Address(broker, SQS_PORT)
        env.network.connect(address, options, self, lambda _: self.on_close(None))
        self._loop.run_until(lambda: self.connection is not None or self.is_closed, TIMEOUT_MS)

    # -- see `ConnectionHandler`

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        self.received += bytes(data)

    def on_writable(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        self.is_closed = True

    # -- speaking

    def say(self, data: bytes) -> None:
        """Send bytes, and wait for nothing."""
        assert self.connection is not None
        self.connection.write([data])

    def send(self, operation: str, headers: dict[str, str] | None = None, **asked: Any) -> None:
        """Send a request, and wait for nothing."""
        body = json.dumps(asked).encode()
        self.say(request_bytes(operation, body, headers))

    def has_answer(self) -> bool:
        """Whether a whole answer has come."""
        return self._cut() is not None

    def _cut(self) -> tuple[Answer, bytes] | None:
        head, blank, rest = self.received.partition(b"\r\n\r\n")
        if not blank:
            return None
        answer = Answer(head, b"")
        length = int(answer.headers.get("content-length", 0))
        if len(rest) < length:
            return None
        answer.body = rest[:length]
        return answer, rest[length:]

    def answer(self, within_ms: int = 60_000) -> Answer:
        """Return the next answer."""
        self._loop.run_until(lambda: self.has_answer() or self.is_closed, within_ms)
        cut = self._cut()
        assert cut is not None, (self.is_closed, self.received[:200])
        answer, self.received = cut
        return answer

    def ask(self, operation: str, **asked: Any) -> Answer:
        """Return the answer to a request."""
        self.send(operation, **asked)
        return self.answer()

    def do(self, operation: str, **asked: Any) -> Any:
        """Return what a request, which succeeds, is answered."""
        answer = self.ask(operation, **asked)
        assert answer.status == 200, (operation, answer.body)
        return answer.json

    def receive(self, url: str, **asked: Any) -> list[dict[str, Any]]:
        """Return messages."""
        found = self.do("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, **asked)
        messages: list[dict[str, Any]] = found.get("Messages", [])
        return messages

    def leave(self) -> None:
        """Hang up."""
        if self.connection is not None:
            self.connection.close()


def request_bytes(operation: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    """Return a request of the JSON protocol."""
    every = {
        "Host": "b1:9324",
        "Content-Type": JSON_TYPE,
        "X-Amz-Target": f"AmazonSQS.{operation}",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in every.items())
    return f"POST / HTTP/1.1\r\n{head}\r\n".encode() + body


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [each["Body"] for each in messages]
