"""Connections to a running broker: order, ends, nonsense and clients that take liberties."""

from __future__ import annotations

import pytest

from kafkaesque.broker.listeners import TEXT, default_listener
from kafkaesque.chassis.quota_table import BURST_S
from kafkaesque.env.network import Address
from kafkaesque.gateway.chassis_of import make_chassis
from kafkaesque.gateway.text import gateway
from kafkaesque.gateway.text.connection import TextConnection
from kafkaesque.protocols.text.lines import LINE_BYTES_MAX
from kafkaesque.storage.log_store import LogStore
from tests.unit.gateway_kafka.quotas import alter, clear_quotas
from tests.unit.gateway_text.person import Person, TextCluster


def test_lines_that_come_together_are_answered_in_order(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    lines = [f"PUBS {topic} {number}\r\n\r\nNONSENSE\r\n" for number in range(200)]
    person.type("".join(lines))
    for number in range(200):
        assert person.answer() == [f"OK {topic} 0 {number}"]
        assert person.answer()[0].startswith("ERROR there is no command 'NONSENSE'")


def test_a_line_may_come_byte_by_byte(cluster: TextCluster, person: Person) -> None:
    for byte in b"topics\r\n":
        person.type(bytes([byte]))
        cluster.live.run_for(0.001)
    assert person.answer()[-1].startswith("OK ")


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\xfd",
        b"\x00" * 100,
        b"GETS / HTTP/1.1",
        b'{"Body": "x"}',
        b"x" * (LINE_BYTES_MAX + 1),
        b"PUBS",
        b"CONS a b c",
    ],
)
def test_after_an_error_the_connection_is_as_good_as_before(person: Person, line: bytes) -> None:
    (answer,) = person.say(line)
    assert answer.startswith("ERROR ")
    assert "Example: " in answer
    assert len(answer) < 600
    assert person.say("TOPICS")[-1].startswith("OK ")


def test_quit_ends_what_was_said(cluster: TextCluster, person: Person, topic: str) -> None:
    person.type(f"TOPICS\nQUIT\nPUBS {topic} too late\n")
    assert person.answer()[-1].startswith("OK ")
    assert person.answer() == ["OK goodbye"]
    assert person.is_gone()
    assert topic not in cluster.live.broker.state.topics


@pytest.mark.parametrize("typed", [b"\x04", b"\xff\xec", b"\x04\r\n"])
def test_control_d_ends_the_connection(person: Person, typed: bytes) -> None:
    person.type(b"TOPICS\n" + typed)
    assert person.answer()[-1].startswith("OK ")
    assert person.is_gone()


def test_at_the_end_of_the_input_everything_is_still_answered(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    person.type("".join(f"PUBS {topic} {number}\n" for number in range(100)))
    person.hang_up()
    for number in range(100):
        assert person.answer() == [f"OK {topic} 0 {number}"]
    assert person.is_gone()


def test_half_a_line_at_the_end_of_the_input_is_not_published(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    cluster.live.create_topic(topic)
    person.type(f'PUBS {topic} whole\nPUBS {topic} {{"Key":"k","Body":{{"amount": 1000')
    person.hang_up()
    assert person.answer() == [f"OK {topic} 0 0"]
    (refusal,) = person.answer()
    assert refusal.startswith("ERROR the input ended within a line, which was discarded")
    assert "must end with a newline" in refusal
    assert person.is_gone()
    assert [record.value for record in cluster.records(topic)] == [b"whole"]


def test_a_client_that_goes_away_in_the_middle_leaves_nothing_behind(
    cluster: TextCluster, topic: str
) -> None:
    cluster.live.create_topic(topic)
    before = len(cluster.gateways[1].connections)
    for _ in range(5):
        person = cluster.person()
        person.type("".join(f"PUBS {topic} {number}\n" for number in range(50)))
        cluster.live.run_for(0.002)
        person.leave()
    cluster.live.wait(
        lambda: len(cluster.gateways[1].connections) == before, "connections are forgotten"
    )
    assert cluster.person().say("TOPICS")[-1].startswith("OK ")


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_web_page_that_sends_lines_in_a_request_is_hung_up_on(
    cluster: TextCluster, person: Person, topic: str, method: str
) -> None:
    person.type(f"{method} / HTTP/1.1\r\nHost: localhost:7070\r\n\r\nPUBS {topic} from the web\r\n")
    assert person.is_gone()
    assert topic not in cluster.live.broker.state.topics
    assert any("it sent an HTTP request" in line for line in cluster.live.reports)


def test_a_request_whose_line_is_too_long_to_read_is_no_way_around(
    cluster: TextCluster, person: Person, topic: str
) -> None:
    person.type(b"POST /" + b"x" * LINE_BYTES_MAX + f"\r\n\r\nPUBS {topic} x\r\n".encode())
    assert person.is_gone()
    assert topic not in cluster.live.broker.state.topics


def test_quotas_of_users_hold_for_lines(cluster: TextCluster, person: Person, topic: str) -> None:
    live = cluster.live
    live.create_topic(topic)
    rate = 2_000.0
    person.type(f"PUBS {topic} first\n")
    assert person.answer() == [f"OK {topic} 0 0"]
    quotas = {"producer_byte_rate": rate, "consumer_byte_rate": rate}
    assert alter(live, {"user": "ANONYMOUS"}, quotas).error_code == 0
    live.wait(lambda: cluster.gateways[1].chassis.quotas.is_active, "the broker has heard of it")
    try:
        written = "x" * int(BURST_S * rate + rate / 4)
        begun = live.loop.time()
        person.say(f"PUBS {topic} {written}")
        subscribed = person.ok(f"SUBS {topic} readers")
        assert live.loop.time() - begun > 0.2, "it waits for what it has written"
        begun = live.loop.time()
        (one, other), _ = person.consume(f"CONS {topic} {subscribed} earliest")
        assert [one[2], other[2]] == ["first", written]
        person.say("TOPICS")
        assert live.loop.time() - begun > 0.2, "it waits for what it has read"
    finally:
        clear_quotas(live)


def the_connection(cluster: TextCluster) -> TextConnection:
    """Return the broker's end of the only one there is."""
    (served,) = cluster.gateways[1].connections.values()
    assert isinstance(served, TextConnection)
    return served


def overwhelm(cluster: TextCluster, person: Person) -> TextConnection:
    """Ask for much more than anybody reads; return the broker's end."""
    served = the_connection(cluster)
    for _ in range(20):
        person.type("HELP\n" * 1000)
        cluster.live.run_for(0.001)
    cluster.live.wait(lambda: served._is_paused, "nothing more is read")
    return served


def test_a_client_that_does_not_read_is_not_answered_further(
    cluster: TextCluster, person: Person
) -> None:
    served = overwhelm(cluster, person)
    assert served.connection is not None
    assert served.connection.unsent_bytes() < gateway.UNSENT_BYTES_MAX + 100_000
    # Others do not notice.
    assert cluster.person().say("TOPICS")[-1].startswith("OK ")
    # When it reads after all, it gets everything.
    assert person.count_answers(20_000) == 20_000


def test_a_client_that_never_reads_is_cut_off(
    cluster: TextCluster, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    overwhelm(cluster, person)
    monkeypatch.setattr(gateway, "CONNECTION_IDLE_MS_MAX", 0)

    def is_gone_after_a_sweep() -> bool:
        cluster.gateways[1].ports[0].sweep()
        return not cluster.gateways[1].connections

    cluster.live.wait(is_gone_after_a_sweep, "it is gone")


def test_who_says_nothing_for_long_is_sent_away(
    cluster: TextCluster, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert person.say("TOPICS")[-1].startswith("OK ")
    cluster.gateways[1].ports[0].sweep()
    assert person.say("TOPICS")[-1].startswith("OK ")
    monkeypatch.setattr(gateway, "CONNECTION_IDLE_MS_MAX", 50)
    # Half a line is no sign of life.
    for _ in range(10):
        person.type("T")
        cluster.live.run_for(0.01)
    cluster.gateways[1].ports[0].sweep()
    assert person.answer()[0].startswith("ERROR no input for too long")
    assert person.is_gone()


def test_the_port_has_room_for_so_many(
    cluster: TextCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "CONNECTIONS_MAX", 3)
    doors, report = cluster.live.broker.doors, cluster.live.reports.append
    small = gateway.TextGateway(doors, make_chassis(doors, report))
    address = small.start(default_listener(TEXT, Address("127.0.0.1", 0)))
    people = [Person(cluster, address) for _ in range(3)]
    for person in people:
        assert person.say("HELP")[-1] == "OK"
    one_too_many = Person(cluster, address)
    assert one_too_many.is_gone()
    assert people[0].say("HELP")[-1] == "OK"
    small.stop()
    for person in [*people, one_too_many]:
        assert person.is_gone()
        person.leave()


def test_nothing_is_taken_while_the_broker_has_too_much_to_sync(
    cluster: TextCluster, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    overloaded = True
    monkeypatch.setattr(LogStore, "over_bound", property(lambda _: overloaded))
    person.type("TOPICS\n" * 70)
    held = the_connection(cluster)
    cluster.live.wait(lambda: len(held._waiting) == 70, "all have come")
    cluster.live.run_for(0.05)
    assert len(held._waiting) == 70
    assert held._is_paused
    overloaded = False
    for _ in range(70):
        assert person.answer()[-1].startswith("OK ")
    assert not held._is_paused
