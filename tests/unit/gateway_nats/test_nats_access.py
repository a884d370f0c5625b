"""Log-ins and rights over NATS: nats-py logs in, and brokers judge."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from threading import Thread
from typing import Any, TypeVar

import nats
import nats.js.errors
import pytest
from nats.aio.client import Client

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.listeners import NATS, AccessMode, default_listener
from kafkaesque.env.network import Address
from kafkaesque.gateway.nats.gateway import NatsGateway
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import PASSWORD, SECRET, SUPER, add_user, allow, forget_rules
from tests.unit.protocols_nats.clauses import connect

ResultT = TypeVar("ResultT")


class Secured:
    """A broker with a port for NATS where clients log in, and one where they may."""

    def __init__(self, live: LiveCluster) -> None:
        self.live = live
        node = live.nodes[1]
        self.gateway = NatsGateway(node.broker.doors, node.chassis)
        self.ports: dict[AccessMode, int] = {}
        for mode in AccessMode:
            listener = default_listener(NATS, Address("127.0.0.1", 0), access=mode)
            named = replace(listener, name=f"nats-{mode.value}")
            self.ports[mode] = self.gateway.start(named).port
        for user in ("root", "other"):
            add_user(live, user)

    def do(
        self,
        act: Callable[[Client, list[str]], Awaitable[ResultT]],
        mode: AccessMode = AccessMode.REQUIRED,
        **options: Any,
    ) -> ResultT:
        """Do something with a client; `act` also gets what the broker has said of its mistakes."""
        told = {"user": "root", "password": PASSWORD, **options}

        async def run() -> ResultT:
            errors: list[str] = []

            async def on_error(error: Exception) -> None:
                errors.append(str(error))

            client = await nats.connect(
                f"nats://127.0.0.1:{self.ports[mode]}",
                allow_reconnect=False,
                error_cb=on_error,
                **{name: value for name, value in told.items() if value is not None},
            )
            try:
                return await act(client, errors)
            finally:
                await client.close()

        return self.in_thread(lambda: asyncio.run(run()))

    def in_thread(self, act: Callable[[], ResultT]) -> ResultT:
        """Do something in another thread: the broker runs in this one."""
        end: Future[ResultT] = Future()

        def run() -> None:
            try:
                end.set_result(act())
            except BaseException as error:
                end.set_exception(error)

        Thread(target=run, daemon=True).start()
        self.live.wait(end.done, "the client is done")
        return end.result()

    def answer(self, mode: AccessMode = AccessMode.REQUIRED, **options: Any) -> bytes:
        """Return what is said behind INFO to a CONNECT and a PING (nats-py leaks its sockets)."""

        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", self.ports[mode]), timeout=30) as link:
                found = b""
                link.sendall(connect(**options) + b"PING\r\n")
                while b"PONG\r\n" not in found and (piece := link.recv(65_536)):
                    found += piece
                return found.split(b"\r\n", 1)[1]

        return self.in_thread(ask)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    live = LiveCluster(
        tmp_path_factory.mktemp("nats"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
    )
    found = Secured(live)
    yield found
    found.gateway.stop()
    live.close()


@pytest.fixture(autouse=True)
def without_rules(secured: Secured) -> Iterator[None]:
    yield
    forget_rules(secured.live, "other")


def password(text: str) -> dict[str, Any]:
    """A password as CONNECT has it: Python has another use for the word."""
    return {"pass": text}


async def flush(client: Client, errors: list[str]) -> list[str]:
    """Return what the broker has said."""
    await client.flush()
    await client.flush()
    return errors


def test_a_password_lets_in_and_a_wrong_one_does_not(secured: Secured) -> None:
    assert secured.do(flush) == []
    refused = b"-ERR 'Authorization Violation'\r\n"
    assert secured.answer() == refused
    assert secured.answer(user="root", **password("wrong")) == refused
    assert secured.answer(user="nobody", **password(PASSWORD)) == refused
    assert secured.answer(auth_token="none of ours") == refused


def test_where_a_log_in_is_optional_nobody_in_particular_comes_in(secured: Secured) -> None:
    assert secured.answer(AccessMode.OPTIONAL) == b"PONG\r\n"
    wrong = secured.answer(AccessMode.OPTIONAL, user="root", **password("wrong"))
    assert wrong == b"-ERR 'Authorization Violation'\r\n"


def test_subjects_are_judged(secured: Secured) -> None:
    async def act(client: Client, errors: list[str]) -> list[str]:
        for subject in ("orders.*", "orders.new", ">", "other"):
            await client.subscribe(subject)
        await client.publish("orders.new", b"x")
        await client.publish("other", b"x")
        return await flush(client, errors)

    allow(secured.live, "other", Operation.READ, ResourceType.SUBJECT, "orders/*")
    said = secured.do(act, user="other")
    # nats-py says it in small letters.
    assert said == [
        'nats: permissions violation for subscription to ">"',
        'nats: permissions violation for subscription to "other"',
        'nats: permissions violation for publish to "orders.new"',
        'nats: permissions violation for publish to "other"',
    ]


def test_streams_are_judged_as_the_topics_that_they_are(secured: Secured) -> None:
    async def make(client: Client, errors: list[str]) -> None:
        await client.jetstream(timeout=30).add_stream(name="JUDGED")

    async def look(client: Client, errors: list[str]) -> int:
        return (await client.jetstream(timeout=30).stream_info("JUDGED")).state.messages

    with pytest.raises(nats.js.errors.APIError) as caught:
        secured.do(make, user="other")
    assert caught.value.err_code == 10016
    secured.do(make)
    with pytest.raises(nats.js.errors.APIError):
        secured.do(look, user="other")
    allow(secured.live, "other", Operation.DESCRIBE, ResourceType.TOPIC, "JUDGED")
    assert secured.do(look, user="other") == 0
