"""What a client publishes without waiting is given out at once, and is what it would be singly."""

from __future__ import annotations

from kafkaesque.gateway.nats.runs import RUN_BYTES_MAX, RUN_MESSAGES_MAX
from tests.unit.gateway_nats.kit import Ground


def test_each_subscriber_gets_a_run_as_it_wants_it(ground: Ground) -> None:
    publisher = ground.client()
    plain, bare = ground.client(), ground.client(headers=False, no_responders=False)
    plain.subscribe("a.>", "10")
    bare.subscribe("a.>", "20")
    publisher.write(
        b"PUB a.b  1\r\nx\r\nHPUB a.c 12 13\r\nNATS/1.0\r\n\r\ny\r\n"
        b"PUB a.b r 1\r\nz\r\nPUB a.d 0\r\n\r\n"
    )
    publisher.flush()
    assert plain.flush() == (
        b"MSG a.b 10 1\r\nx\r\nHMSG a.c 10 12 13\r\nNATS/1.0\r\n\r\ny\r\n"
        b"MSG a.b 10 r 1\r\nz\r\nMSG a.d 10 0\r\n\r\n"
    )
    assert bare.flush() == (
        b"MSG a.b 20 1\r\nx\r\nMSG a.c 20 1\r\ny\r\nMSG a.b 20 r 1\r\nz\r\nMSG a.d 20 0\r\n\r\n"
    )


def test_commands_between_messages_hold_from_there_on(ground: Ground) -> None:
    client, other = ground.client(), ground.client(echo=False)
    client.write(
        b"SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\nUNSUB 1\r\nPUB a 1\r\n3\r\n"
        b"SUB a 2\r\nPUB a 1\r\n4\r\nPING\r\nPUB a 1\r\n5\r\n"
    )
    assert client.until(b"PONG\r\n") == b"MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nMSG a 2 1\r\n4\r\n"
    assert client.message() == ("a", "2", "", b"", b"5")
    other.write(b"SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\n")
    assert other.flush() == b""


def test_who_wants_to_be_told_is_told_of_each_message_before_it_comes(ground: Ground) -> None:
    client = ground.raw()
    client.connect(verbose=True)
    client.write(b"SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 1\r\n2\r\n")
    said = client.flush()
    assert said.endswith(b"+OK\r\nMSG a 1 1\r\n1\r\n+OK\r\nMSG a 1 1\r\n2\r\n")


def test_a_subject_that_is_none_is_nobodys_and_the_others_come(ground: Ground) -> None:
    client = ground.client()
    client.subscribe(">")
    client.write(b"PUB a 1\r\n1\r\nPUB a..b 1\r\n2\r\nPUB a 1\r\n3\r\n")
    assert client.flush() == b"MSG a 1 1\r\n1\r\nMSG a 1 1\r\n3\r\n"


def test_more_than_a_run_holds_comes_in_order(ground: Ground) -> None:
    client, other = ground.client(), ground.client()
    for each in (client, other):
        each.subscribe("a")
    bodies = [b"%d" % number for number in range(3 * RUN_MESSAGES_MAX + 5)]
    bodies += [bytes(RUN_BYTES_MAX // 3)] * 7 + [bytes(2 * RUN_BYTES_MAX), b"end"]
    client.write(b"".join(b"PUB a %d\r\n%b\r\n" % (len(each), each) for each in bodies))
    for each in (client, other):
        assert [each.message()[4] for _ in bodies] == bodies


def test_a_run_reaches_subscribers_and_groups_on_all_brokers() -> None:
    three = Ground(seed=3, brokers=3)
    here, there, publisher = three.client(1), three.client(2), three.client(1)
    for each in (here, there):
        each.subscribe("a")
        each.subscribe("shared", "2", group="g")
    lines = [b"PUB %b 2\r\n%02d\r\n" % (to, n) for n in range(20) for to in (b"a", b"shared")]
    publisher.write(b"".join(lines))
    bodies = [b"%02d" % number for number in range(20)]
    found = [here.message() for _ in range(40)]
    assert [each[4] for each in found if each[0] == "a"] == bodies
    assert [each[4] for each in found if each[0] == "shared"] == bodies
    assert [there.message()[4] for _ in bodies] == bodies
    assert there.flush() == b""


def test_what_a_member_of_a_group_takes_no_more_goes_to_another_broker() -> None:
    two = Ground(seed=3, brokers=2)
    here, there, publisher = two.client(1), two.client(2), two.client(1)
    for each in (here, there):
        each.subscribe("shared", "1", group="g")
    here.write(b"UNSUB 1 2\r\n")
    here.flush()
    publisher.write(b"".join(b"PUB shared 1\r\n%d\r\n" % number for number in range(6)))
    assert [here.message()[4] for _ in range(2)] == [b"0", b"1"]
    assert [there.message()[4] for _ in range(4)] == [b"2", b"3", b"4", b"5"]
