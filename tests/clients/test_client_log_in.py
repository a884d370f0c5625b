"""Our own Python client logs in, over TLS and without, and says why it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque import AsyncClient, Client, Event
from kafkaesque.client import errors
from kafkaesque.client.tls import Tls
from tests.certificates import TestAuthority
from tests.clients import test_log_in
from tests.clients.test_log_in import FORBIDDEN, MECHANISMS, NAME, PASSWORD, TOPIC, Secured

TIMEOUT_S = 20.0

#: The same broker, in a process of its own for this module.
broker = test_log_in.broker


@pytest.fixture
def client(broker: Secured) -> Iterator[Client]:
    with Client(broker.secured, user=NAME, password=PASSWORD, timeout=TIMEOUT_S) as made:
        yield made


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_log_in_by_a_password(broker: Secured, mechanism: str) -> None:
    options = {"user": NAME, "password": PASSWORD, "mechanism": mechanism, "timeout": TIMEOUT_S}
    with Client(broker.secured, **options) as client:  # type: ignore[arg-type]
        assert client.queues() == []
        assert client.publish(Event(TOPIC, mechanism)).topic == TOPIC

    async def main() -> None:
        async with AsyncClient(broker.secured, **options) as client:  # type: ignore[arg-type]
            assert await client.queues() == []

    asyncio.run(main())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_log_in_over_tls(broker: Secured, mechanism: str) -> None:
    with Client(
        broker.encrypted,
        user=NAME,
        password=PASSWORD,
        mechanism=mechanism,
        tls=Tls(ca=broker.ca),
        timeout=TIMEOUT_S,
    ) as client:
        assert client.queues() == []
        assert client.publish(Event(TOPIC, mechanism)).topic == TOPIC

    async def main() -> None:
        async with AsyncClient(
            broker.encrypted, user=NAME, password=PASSWORD, tls=Tls(ca=broker.ca)
        ) as client:
            assert await client.queues() == []

    asyncio.run(main())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_at_once(broker: Secured, mechanism: str) -> None:
    with (
        Client(broker.secured, user=NAME, password="wrong", mechanism=mechanism) as client,
        pytest.raises(errors.LogInRefused, match="refused the log-in of 'app'"),
    ):
        client.queues()


def test_a_token_that_is_none_is_refused(broker: Secured) -> None:
    asked = []

    def token() -> str:
        asked.append(1)
        return "no.such.token"

    with Client(broker.secured, token=token) as client:
        for _ in range(2):
            with pytest.raises(errors.LogInRefused):
                client.queues()
    assert len(asked) == 2


def test_a_mechanism_that_is_not_offered(broker: Secured) -> None:
    with (
        Client(
            broker.encrypted,
            user=NAME,
            password=PASSWORD,
            mechanism="SCRAM-SHA-256",
            tls=Tls(ca=broker.ca),
        ) as client,
        pytest.raises(errors.LogInRefused, match="it offers"),
    ):
        client.queues()


def test_a_broker_that_others_have_certified_is_not_trusted(
    broker: Secured, tmp_path: Path
) -> None:
    other = TestAuthority(tmp_path / "other")
    with (
        Client(broker.encrypted, tls=Tls(ca=other.ca)) as client,
        pytest.raises(errors.BrokerNotTrusted, match="certificate"),
    ):
        client.queues()


def test_who_does_not_log_in_or_speak_tls_finds_no_broker(broker: Secured) -> None:
    for address in (broker.secured, broker.encrypted):
        with (
            Client(address, timeout=1.0) as client,
            pytest.raises((errors.BrokerUnavailable, errors.NotABroker)),
        ):
            client.queues()


def test_what_no_rule_allows_is_refused(client: Client) -> None:
    with pytest.raises(errors.NotAuthorized):
        client.create_queue("tasks")
    with pytest.raises(errors.NotAuthorized):
        client.put("tasks", "a")
    with pytest.raises(errors.NotAuthorized):
        client.publish(Event(FORBIDDEN, 1))
    with (
        client.consumer(FORBIDDEN, group="orders-readers") as consumer,
        pytest.raises(errors.NotAuthorized),
    ):
        consumer.get(TIMEOUT_S)
