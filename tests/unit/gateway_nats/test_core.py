"""The core protocol at simulated brokers: subscribers, groups, requests, how connections end."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.nats.connection import PENDING_BYTES_MAX
from kafkaesque.gateway.nats.stored import raw_headers, record_headers
from tests.unit.gateway_nats.kit import Ground


@pytest.fixture
def three() -> Ground:
    return Ground(seed=2, brokers=3)


def test_the_broker_says_what_it_is(three: Ground) -> None:
    info = three.raw(2).info
    assert info["server_name"] == "kafkaesque-2"
    assert info["version"].startswith("2.10.0-kafkaesque.")
    assert (info["headers"], info["jetstream"], info["max_payload"]) == (True, True, 1_048_576)
    assert info["connect_urls"] == ["b1:4222", "b2:4222", "b3:4222"]
    assert "auth_required" not in info


def test_what_is_published_behind_a_pong_reaches_the_subscriber(three: Ground) -> None:
    client, other = three.client(1), three.client(3)
    for number in range(20):
        client.subscribe(f"behind.{number}", str(number))
        other.publish(f"behind.{number}", b"x")
        assert client.message() == (f"behind.{number}", str(number), "", b"", b"x")


def test_headers_and_replies_are_the_same_across_brokers(three: Ground) -> None:
    client, other = three.client(1), three.client(2)
    client.subscribe("same.>")
    raw = b"NATS/1.0\r\nContent-Type: a/b\r\nn: 1\r\nn:2\r\nKafkaesque: no\r\n\r\n"
    for headers, reply in ((raw, "answers.to"), (b"NATS/1.0\r\n\r\n", "a..b"), (b"odd", "r")):
        sizes = f"{len(headers)} {len(headers) + 1}"
        other.write(f"HPUB same.a {reply} {sizes}\r\n".encode() + headers + b"x\r\n")
        assert client.message() == ("same.a", "1", reply, headers, b"x")


def test_a_header_that_is_called_like_everybodys_reply_is_kept(three: Ground) -> None:
    client, other = three.client(1), three.client(2)
    client.subscribe("named.>")
    raw = b"NATS/1.0\r\nreply-to: answers.here\r\nn: 1\r\n\r\n"
    for reply in ("", "answers.to"):
        other.write(f"HPUB named.a {reply} {len(raw)} {len(raw) + 1}\r\n".encode() + raw + b"x\r\n")
        assert client.message() == ("named.a", "1", reply, raw, b"x")


def test_a_group_gets_each_message_once_in_the_cluster(three: Ground) -> None:
    members = [three.client(number) for number in (1, 2, 3)]
    for member in members:
        member.subscribe("group", group="workers")
    publisher = three.client(1)
    for number in range(30):
        publisher.publish("group", b"%d" % number)
    publisher.flush()
    three.wait(200)
    found = b"".join(member.take() for member in members)
    assert found.count(b"MSG group") == 30


def test_a_request_meets_somebody_or_nobody_on_any_broker(three: Ground) -> None:
    client, server = three.client(1), three.client(2)
    client.subscribe("inbox.1")
    client.publish("asked", b"?", "inbox.1")
    subject, _, _, headers, payload = client.message()
    assert (subject, payload) == ("inbox.1", b"")
    assert headers.startswith(b"NATS/1.0 503\r\n")
    server.subscribe("asked")
    client.publish("asked", b"?", "inbox.1")
    assert server.message() == ("asked", "1", "inbox.1", b"", b"?")
    server.publish("inbox.1", b"!")
    assert client.message()[4] == b"!"


def test_unsub_ends_a_subscription_in_the_cluster(three: Ground) -> None:
    client, other = three.client(1), three.client(2)
    client.subscribe("ends")
    client.write(b"UNSUB 1 2\r\n")
    client.flush()
    for number in range(4):
        other.publish("ends", b"%d" % number)
    other.flush()
    three.wait(200)
    assert client.take().count(b"MSG ends") == 2


def test_who_does_not_read_is_cut_off_and_others_get_everything(ground: Ground) -> None:
    slow, quick, publisher = ground.client(), ground.client(), ground.client()
    slow.subscribe("slow")
    quick.subscribe("slow")
    slow.client.link.pause_reading()
    count = PENDING_BYTES_MAX // 500_000 + 8
    for _ in range(count):
        publisher.publish("slow", bytes(500_000))
        assert len(quick.message()[4]) == 500_000
    slow.client.link.resume_reading()
    slow.wait_for(lambda: slow.is_closed)


def test_a_silent_client_is_pinged_and_hung_up_on(ground: Ground) -> None:
    client = ground.client()
    ground.wait(125_000)
    assert client.take() == b"PING\r\n"
    client.write(b"PONG\r\n")
    ground.wait(125_000)
    assert client.take() == b"PING\r\n"
    ground.wait(240_000)
    assert client.is_closed
    assert b"-ERR 'Stale Connection'" in client.take()


def test_a_broker_that_stops_says_so(three: Ground) -> None:
    client = three.client(2)
    client.subscribe("lame.duck")
    broker = three.cluster.names[1]
    gateways = three.cluster._gateways[broker]
    drained: list[bool] = []
    gateways[4222].drain(lambda: drained.append(True))
    client.wait_for(lambda: client.is_closed)
    found = client.take()
    assert b'"ldm":true' in found
    assert b'"connect_urls":["b1:4222","b3:4222"]' in found


def test_what_only_sqs_reads_is_shown_where_a_client_of_nats_has_sent_it() -> None:
    types = ("sqs.message", b'{"types":{"n":"Number"}}')
    assert raw_headers((("n", b"1"), types)) == b"NATS/1.0\r\nn: 1\r\n\r\n"
    own = b"NATS/1.0\r\nsqs.message: 1\r\n\r\n"
    assert raw_headers(record_headers(own)) == own
