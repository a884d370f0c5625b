"""Real brokers with admin ports where people log in, and clients of the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkaesque.admin.gateway import AdminGateway
from kafkaesque.admin.hosts import CHANGE_HEADER
from kafkaesque.broker.listeners import ADMIN, AccessMode, Listener
from kafkaesque.console.pages import ConsolePages
from kafkaesque.env.network import Address
from tests.unit.admin.told import Told
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster
from tests.unit.gateway_kafka.secured import PASSWORD, SECRET, SUPER

CHANGE = {CHANGE_HEADER: "1", "Content-Type": "application/json"}


class Visit:
    """One connection to an admin port."""

    def __init__(self, live: LiveCluster, address: Address) -> None:
        self._live = live
        self._address = address
        self._reader, self._writer = live.loop.run_until_complete(asyncio.open_connection(*address))
        live.closers.append(self.close)

    def close(self) -> None:
        """Hangs up."""
        self._writer.close()

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> None:
        """Sends a request, and waits for nothing."""
        data = b"" if body is None else json.dumps(body).encode()
        every = {"Host": str(self._address), "Content-Length": str(len(data)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in every.items())
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Told:
        """Returns the answer to a request; nothing else is sent but what is given."""
        self.send(method, path, headers, body)
        told: Told = self._run(self._receive())
        return told

    def head(self) -> str:
        """Returns the head of the next answer, as it is."""
        return str(self._run(self._reader.readuntil(b"\r\n\r\n")).decode())

    def is_closed(self, within_s: float) -> bool:
        """Whether the broker hangs up within a time, whatever it has sent before."""

        async def read() -> None:
            while await self._reader.read(65536):
                pass

        try:
            self._live.loop.run_until_complete(asyncio.wait_for(read(), within_s))
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def _run(self, work: Any) -> Any:
        return self._live.loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))

    async def _receive(self) -> Told:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        raw = dict(line.split(": ", 1) for line in lines)
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        kept = {name.lower(): value for name, value in raw.items()}
        return Told(status=int(first.split()[1]), headers=kept, body=body)


class AdminCluster:
    """Brokers, each with an admin port of the same access."""

    def __init__(
        self, root: Path, *, count: int = 1, access: AccessMode = AccessMode.REQUIRED
    ) -> None:
        self.live = LiveCluster(
            root, count=count, access=AccessMode.REQUIRED, secrets=[SECRET], super_users=[SUPER]
        )
        self.gateways: dict[int, AdminGateway] = {}
        self.addresses: dict[int, Address] = {}
        for number, node in self.live.nodes.items():
            gateway = AdminGateway(node.broker.doors, node.chassis, "1.2.3", ConsolePages())
            listener = Listener(
                protocol=ADMIN, name="admin", advertised=Address("127.0.0.1", 0), access=access
            )
            self.gateways[number] = gateway
            self.addresses[number] = gateway.start(listener)

    def visit(self, node: int = 1) -> Visit:
        """Connects to a broker."""
        return Visit(self.live, self.addresses[node])

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        token: str = "",
        node: int = 1,
    ) -> Told:
        """Asks on a connection of its own, with the headers that a change needs."""
        visit = self.visit(node)
        every = {**({} if method == "GET" else CHANGE), **(headers or {})}
        if token:
            every["Authorization"] = f"Bearer {token}"
        told = visit.ask(method, path, every, body)
        visit.close()
        return told

    def log_in(
        self, user: str, password: str = PASSWORD, code: str = "", *, node: int = 1, **more: Any
    ) -> Told:
        """Asks for a session."""
        body = {"user": user, "password": password, "code": code, **more}
        return self.ask("POST", "/api/v1/session", body=body, node=node)

    def token(self, user: str, password: str = PASSWORD, code: str = "") -> str:
        """Returns the token of a session, which has to be given."""
        told = self.log_in(user, password, code)
        assert told.status == 201, told
        return str(told.json["token"])

    def close(self) -> None:
        for gateway in self.gateways.values():
            gateway.stop()
        self.live.close()
