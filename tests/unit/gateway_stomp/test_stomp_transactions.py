"""BEGIN, COMMIT and ABORT."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.stomp import transactions
from tests.unit.gateway_stomp.kit import Ground, StompClient, new_name


def test_a_commit_sends_and_acknowledges(ground: Ground, client: StompClient) -> None:
    source, target = new_name(), new_name()
    client.publish(f"/queue/{source}", b"in")
    client.subscribe(f"/queue/{source}", ack="client")
    message = client.message()
    client.call("BEGIN", {"transaction": "t"})
    client.call("SEND", {"destination": f"/queue/{target}", "transaction": "t"}, b"1")
    client.call("SEND", {"destination": f"/queue/{target}", "transaction": "t"}, b"2")
    client.ack(message, transaction="t")
    ground.wait(200)
    amqp = ground.amqp()
    assert amqp.count(target) == (0, 0)
    client.call("COMMIT", {"transaction": "t"})
    assert amqp.count(target) == (2, 0)
    client.close()
    assert amqp.count(source) == (0, 0)


@pytest.mark.parametrize("end", ["ABORT", "close"])
def test_what_is_aborted_was_never_said(ground: Ground, client: StompClient, end: str) -> None:
    source, target = new_name(), new_name()
    client.publish(f"/queue/{source}", b"in")
    client.subscribe(f"/queue/{source}", ack="client")
    message = client.message()
    client.call("BEGIN", {"transaction": "t"})
    client.call("SEND", {"destination": f"/queue/{target}", "transaction": "t"}, b"1")
    client.ack(message, transaction="t")
    if end == "ABORT":
        client.call("ABORT", {"transaction": "t"})
        # It can still be acknowledged.
        client.ack(message)
        ground.wait(200)
        assert ground.amqp().count(source) == (0, 1)
    else:
        client.close()
        ground.wait(200)
        assert ground.amqp().count(source) == (1, 0)
    assert ground.amqp().count(target) == (0, 0)


def test_transactions_are_apart(client: StompClient) -> None:
    name = new_name()
    client.subscribe(f"/queue/{name}")
    for transaction in ("a", "b"):
        client.send("BEGIN", {"transaction": transaction})
        headers = {"destination": f"/queue/{name}", "transaction": transaction}
        client.send("SEND", headers, transaction.encode())
    client.publish(f"/queue/{name}", b"plain")
    client.call("COMMIT", {"transaction": "b"})
    client.call("ABORT", {"transaction": "a"})
    assert [client.message().body, client.message().body] == [b"plain", b"b"]
    assert client.silent()


def test_transactions_are_bounded(client: StompClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "BYTES_MAX", 1_000)
    client.send("BEGIN", {"transaction": "t"})
    headers = {"destination": f"/queue/{new_name()}", "transaction": "t"}
    client.call("SEND", headers, b"a" * 1_000)
    client.send("SEND", {**headers, "receipt": "r"}, b"a")
    assert client.error("at most 1000 bytes").get("receipt-id") == "r"


@pytest.mark.parametrize("number", ["1", "9" * 5_000])
def test_an_acknowledgement_of_nothing_is_refused_in_a_transaction(
    client: StompClient, number: str
) -> None:
    client.send("BEGIN", {"transaction": "t"})
    client.send("ACK", {"id": f"{number}.none", "transaction": "t"})
    client.error(f"no message waits for the acknowledgement '{f'{number}.none'[:100]}'")


def test_a_transaction_that_is_refused_in_part_is_told(ground: Ground, client: StompClient) -> None:
    name = new_name()
    options = {"x-max-length": "1", "x-overflow": "reject-publish"}
    client.call("SEND", {"destination": f"/queue/{name}", **options}, b"full")
    client.send("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": f"/queue/{name}", "transaction": "t"}, b"more")
    client.send("COMMIT", {"transaction": "t", "receipt": "r"})
    assert client.error("not committed as a whole").get("receipt-id") == "r"
