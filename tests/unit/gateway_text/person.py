"""People with telnet at brokers that run on the loop of this thread."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from kafkaesque.broker.listeners import TEXT, AccessMode, default_listener
from kafkaesque.broker.requests.commands import EARLIEST, FetchResult
from kafkaesque.env.network import Address
from kafkaesque.gateway.text.gateway import TextGateway
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.options import OptionValue
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.text.lines import LINE_BYTES_MAX
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster

OPTIONS: dict[str, OptionValue] = {
    "offsets.topic.num.partitions": 8,
    "group.initial.rebalance.delay.ms": 0,
}


class TextCluster:
    """Brokers, each with its text port."""

    def __init__(
        self, root: Path, *, count: int = 1, access: AccessMode = AccessMode.OPEN, **more: Any
    ) -> None:
        self.live = LiveCluster(root, count=count, options=OPTIONS, **more)
        self.gateways: dict[int, TextGateway] = {}
        self.addresses: dict[int, Address] = {}
        self._people: list[Person] = []
        for number, node in self.live.nodes.items():
            gateway = TextGateway(node.broker.doors, node.chassis)
            self.gateways[number] = gateway
            listener = default_listener(TEXT, Address("127.0.0.1", 0), access=access)
            self.addresses[number] = gateway.start(listener)

    def person(self, *, node: int = 1) -> Person:
        """Somebody connects to a broker."""
        person = Person(self, self.addresses[node])
        self._people.append(person)
        return person

    def records(self, topic: str, partition: int = 0, *, node: int = 1) -> list[Record]:
        """Return what a partition holds, in whatever batches."""
        answers: list[Any] = []
        forwarder = self.live.nodes[node].broker.forwarder
        where = TopicPartition(topic, partition)
        forwarder.fetch(where, EARLIEST, 1024 * 1024, 5_000, answers.append)
        self.live.wait(lambda: bool(answers), "records are fetched")
        (result,) = answers
        assert isinstance(result, FetchResult), result
        records: list[Record] = []
        at = 0
        while at < len(result.records):
            records += decode_batch(result.records, 1024 * 1024, at=at)
            at += 12 + int.from_bytes(result.records[at + 8 : at + 12], "big")
        return records

    def leave(self) -> None:
        """Everybody goes."""
        people, self._people = self._people, []
        for person in people:
            person.leave()

    def close(self) -> None:
        self.leave()
        for gateway in self.gateways.values():
            gateway.stop()
        self.live.close()


class Person:
    """One connection to a text port."""

    def __init__(self, cluster: TextCluster, address: Address) -> None:
        self._live = cluster.live
        self._reader, self._writer = self._run(
            asyncio.open_connection(*address, limit=LINE_BYTES_MAX * 2)
        )

    def _run(self, work: Any) -> Any:
        result = self._live.loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))
        self._live._check()
        return result

    def type(self, text: str | bytes) -> None:
        """Send, and wait for nothing."""
        self._writer.write(text if isinstance(text, bytes) else text.encode())

    def line(self) -> str:
        """Return the next line; empty when the broker has closed."""
        data: bytes = self._run(self._reader.readline())
        assert not data or data.endswith(b"\r\n"), data
        return data.decode().removesuffix("\r\n")

    def answer(self) -> list[str]:
        """Return the lines of one answer."""
        lines = [self.line()]
        while lines[-1] and not lines[-1].startswith(("OK", "ERROR")):
            lines.append(self.line())
        return lines

    def say(self, text: str | bytes) -> list[str]:
        """Send one line and return the answer's."""
        self.type(text + "\n" if isinstance(text, str) else text + b"\n")
        return self.answer()

    def ok(self, text: str) -> str:
        """Say something that is answered with one line, and return what stands after OK."""
        (line,) = self.say(text)
        assert line.startswith("OK "), line
        return line[3:]

    def error(self, text: str) -> str:
        """Say something that is wrong, and return what is said about it."""
        (line,) = self.say(text)
        assert line.startswith("ERROR "), line
        assert ". Example: " in line
        return line[6:]

    def consume(self, text: str) -> tuple[list[tuple[int, int, Any]], str]:
        """Say CONS; return (partition, offset, Body) of each message, and the last line."""
        *messages, last = self.say(text)
        found = []
        for message in messages:
            word, partition, offset, _, shown = message.split(" ", 4)
            assert word == "MSG"
            found.append((int(partition), int(offset), json.loads(shown)["Body"]))
        assert last.startswith("OK "), last
        assert last.startswith(f"OK {len(found)} message")
        return found, last[3:]

    def count_answers(self, expected: int) -> int:
        """Read so many answers that end with a bare OK, and count them."""
        count, rest = 0, b""
        while count < expected:
            data: bytes = self._run(self._reader.read(1024 * 1024))
            assert data, f"closed after {count} answers"
            rest += data
            count += rest.count(b"\r\nOK\r\n")
            rest = rest[-6:] if not rest.endswith(b"\r\nOK\r\n") else b""
        return count

    def hang_up(self) -> None:
        """End our side and go on reading."""
        self._writer.write_eof()

    def is_gone(self) -> bool:
        """Whether the broker ends the connection, in good order, and says no more."""
        data: bytes = self._run(self._reader.read())
        return not data

    def leave(self) -> None:
        self._writer.close()
        self._live.run_for(0)


def way_on(last: str) -> str:
    """Return the command that the last line of CONS says to go on with."""
    _, _, rest = last.partition("go on with: ")
    return rest.partition(";")[0]
