"""JetStream's clauses go to nats-server: it answers as we do, but where a row says why not."""

from __future__ import annotations

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clients.nats_server import nats_server
from tests.unit.gateway_nats.clauses import ROWS, Actor, Came, Row
from tests.unit.protocols_nats.clauses import connect

#: So long an answer may take; what is known to differ may not come at all.
ANSWER_S, DIFFERENCE_S, SILENCE_S = 5.0, 0.5, 0.02
#: nats-server confirms a message a moment before its consumers know of it.
SETTLES_S = 0.01
AT_ONCE = 12
_MESSAGE = re.compile(rb"(H?)MSG (\S+) (\S+) (?:(\S+) )??(?:(\d+) )?(\d+)\r\n")


class TheirPeer:
    """A connection with nats-server."""

    def __init__(self, port: int, answer_s: float) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=answer_s)
        self._answer_s = answer_s
        self._data = b""
        while b"\n" not in self._data:
            self._data += self.socket.recv(1 << 16)
        self._data = self._data.split(b"\n", 1)[1]
        self.write(connect(headers=True, no_responders=True))

    def write(self, raw: bytes) -> None:
        if b" $JS.API.CONSUMER." in raw:
            time.sleep(SETTLES_S)
        self.socket.sendall(raw)

    def next(self) -> Came:
        self.socket.settimeout(self._answer_s)
        while True:
            self._data = self._data.removeprefix(b"PING\r\n")
            found = _MESSAGE.match(self._data)
            if found is not None and len(self._data) >= found.end() + int(found[6]) + 2:
                break
            try:
                piece = self.socket.recv(1 << 16)
            except TimeoutError:
                raise AssertionError(f"no message has come, but {self._data!r}") from None
            assert piece, self._data
            self._data += piece
        end = found.end() + int(found[6])
        body, split = self._data[found.end() : end], int(found[5] or 0)
        self._data = self._data[end + 2 :]
        return Came(found[2].decode(), (found[4] or b"").decode(), body[:split], body[split:])

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1_000)

    def rest(self) -> bytes:
        self.socket.settimeout(SILENCE_S)
        try:
            self._data += self.socket.recv(1 << 16)
        except TimeoutError:
            pass
        return self._data.removeprefix(b"PING\r\n")


def failure_of(port: int, row: Row, number: int) -> str:
    """Return how a row fails; empty: it does not."""
    peer = TheirPeer(port, DIFFERENCE_S if row.differs else ANSWER_S)
    try:
        Actor(peer).run(row, number)
    except AssertionError as error:
        return str(error)
    finally:
        peer.socket.close()
    return ""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """How each row fails; rows wait for most of their time, so many are run at once."""
    folder = tmp_path_factory.mktemp("nats")
    with (
        nats_server(folder, "-js", "-sd", str(folder / "store")) as port,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        tasks = [
            (row, pool.submit(failure_of, port, row, number))
            for number, row in enumerate(ROWS, start=1)
        ]
        return {row.number: task.result() for row, task in tasks}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_clause(failures: dict[int, str], row: Row) -> None:
    found = failures[row.number]
    if row.differs:
        assert found, "nats-server does the same: the row need not say why not"
    else:
        assert not found, found
