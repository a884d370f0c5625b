"""SQS on simulated brokers: long polls, hang-ups, failovers, and what HTTP bounds."""

import pytest

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.http_connection import IDLE_MS_MAX, REQUEST_MS_MAX
from kafkaesque.gateway.sqs.connection import BODY_BYTES_MAX
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from tests.sim.scenario import TOPIC
from tests.sim.sqs_scenario import SqsScenario, bodies, request_bytes

LONG = 20


def test_a_message_goes_from_any_broker_to_any_other() -> None:
    sqs = SqsScenario(1)
    url = sqs.make("jobs")
    first, *others = [sqs.client(name) for name in sqs.running()]
    sent = first.do("SendMessage", QueueUrl=url, MessageBody="hello")
    for other in others:
        (message,) = other.receive(url, VisibilityTimeout=0)
        assert (message["Body"], message["MessageId"]) == ("hello", sent["MessageId"])
        sqs.loop.run_for(10)
    (message,) = first.receive(url)
    others[0].do("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sqs.counts("jobs").removed["settled"] == 1


def test_a_long_poll_waits_and_costs_nothing_meanwhile() -> None:
    sqs = SqsScenario(2)
    url = sqs.make("jobs")
    polls = [sqs.client(name) for name in sqs.running() for _ in range(4)]
    for poll in polls:
        poll.send("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=LONG)
    sqs.loop.run_for(1_000)
    log_end = sqs.counts("jobs").log_end
    sqs.loop.run_for(15_000)
    assert sqs.counts("jobs").log_end == log_end
    assert not any(poll.has_answer() for poll in polls)
    sqs.client().do("SendMessage", QueueUrl=url, MessageBody="at last")
    sqs.loop.run_for(100)
    answered = [poll for poll in polls if poll.has_answer()]
    assert [bodies(poll.answer().json["Messages"]) for poll in answered] == [["at last"]]
    sqs.loop.run_for(5_000)
    assert [poll.answer().json for poll in polls if poll not in answered] == [{}] * 11


def test_what_is_given_to_a_client_that_has_hung_up_is_given_back_at_once() -> None:
    sqs = SqsScenario(3)
    url = sqs.make("jobs", VisibilityTimeout="3600")
    gone = sqs.client()
    gone.send("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=LONG)
    sqs.loop.run_for(1_000)
    gone.leave()
    sqs.loop.run_for(100)
    there = sqs.client()
    there.do("SendMessage", QueueUrl=url, MessageBody="hello")
    sqs.loop.run_for(100)
    (message,) = there.receive(url, MessageSystemAttributeNames=["All"])
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_a_leader_that_dies_takes_no_lock_and_no_receipt_with_it() -> None:
    sqs = SqsScenario(4)
    url = sqs.make("jobs", VisibilityTimeout="600")
    leader = sqs.queue_leader("jobs")
    client = sqs.client(sqs.follower("jobs"))
    entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(10)]
    client.do("SendMessageBatch", QueueUrl=url, Entries=entries)
    held = client.do("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=4)["Messages"]
    sqs.kill(leader)
    sqs.loop.run_for(5_000)
    rest = client.receive(url, WaitTimeSeconds=5)
    assert sorted(bodies(held + rest)) == sorted(f"m{n}" for n in range(10))
    for message in held + rest:
        client.do("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sqs.counts("jobs").removed["settled"] == 10


def test_a_long_poll_at_a_leader_that_dies_ends_as_one_that_may_be_repeated() -> None:
    sqs = SqsScenario(5)
    url = sqs.make("jobs")
    leader = sqs.queue_leader("jobs")
    client = sqs.client(sqs.follower("jobs"))
    client.send("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=LONG)
    sqs.loop.run_for(1_000)
    sqs.kill(leader)
    answer = client.answer()
    assert answer.status in (200, 503)
    sqs.loop.run_for(5_000)
    client.do("SendMessage", QueueUrl=url, MessageBody="hello")
    assert bodies(client.receive(url, WaitTimeSeconds=LONG)) == ["hello"]


def test_a_long_poll_ends_when_its_queue_is_deleted() -> None:
    sqs = SqsScenario(6)
    url = sqs.make("jobs")
    polls = [sqs.client(name) for name in sqs.running()]
    for poll in polls:
        poll.send("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=LONG)
    sqs.loop.run_for(1_000)
    sqs.client().do("DeleteQueue", QueueUrl=url)
    sqs.loop.run_for(1_000)
    assert [poll.answer().error for poll in polls] == ["QueueDoesNotExist"] * 3


def test_a_purge_that_has_failed_may_be_repeated_at_once() -> None:
    sqs = SqsScenario(7)
    url = sqs.make("jobs")
    here = sqs.follower("jobs")
    client = sqs.client(here)
    client.do("SendMessage", QueueUrl=url, MessageBody="hello")
    others = [name for name in sqs.running() if name != here]
    for name in others:
        sqs.kill(name)
    client.send("PurgeQueue", QueueUrl=url)
    sqs.loop.run_for(40_000)
    assert client.answer().status == 503
    for name in others:
        sqs.boot(name)
    sqs.loop.run_for(10_000)
    client.do("PurgeQueue", QueueUrl=url)
    assert client.receive(url) == []


def test_requests_that_come_ahead_are_answered_in_order() -> None:
    sqs = SqsScenario(6)
    url = sqs.make("jobs")
    client = sqs.client()
    for number in range(20):
        client.send("SendMessage", QueueUrl=url, MessageBody=f"m{number}")
    ids = [client.answer().json["MessageId"] for _ in range(20)]
    assert len(set(ids)) == 20
    assert bodies(client.receive(url) + client.receive(url)) == [f"m{n}" for n in range(20)]


def test_a_client_that_sends_far_ahead_of_a_long_poll_is_not_read() -> None:
    sqs = SqsScenario(7)
    url = sqs.make("jobs")
    client = sqs.client()
    client.send("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=LONG)
    sqs.loop.run_for(100)
    (connection,) = sqs.connections(sqs.running()[0])
    body = b'{"QueueUrl": "%s", "MessageBody": "%s"}' % (url.encode(), b"x" * 1000)
    for _ in range(1_000):
        client.say(request_bytes("SendMessage", body))
    sqs.loop.run_for(1_000)
    assert connection.is_full()
    assert connection.connection is not None
    assert connection.connection.received_bytes() < 1_000_000
    sqs.loop.run_for(LONG * 1_000)
    assert [client.answer().status for _ in range(1_001)] == [200] * 1_001


def test_a_body_is_asked_for_before_it_is_sent() -> None:
    sqs = SqsScenario(8)
    url = sqs.make("jobs")
    client = sqs.client()
    body = b'{"QueueUrl": "%s", "MessageBody": "hello"}' % url.encode()
    request = request_bytes("SendMessage", body, {"Expect": "100-continue"})
    head = request[: -len(body)]
    client.say(head)
    assert client.answer().status == 100
    client.say(body)
    assert client.answer().status == 200


def test_a_body_that_is_too_long_is_refused_by_its_head() -> None:
    sqs = SqsScenario(9)
    client = sqs.client()
    client.say(request_bytes("SendMessage", b"", {"Content-Length": str(BODY_BYTES_MAX + 1)}))
    answer = client.answer()
    assert (answer.status, answer.error) == (413, "RequestEntityTooLargeException")
    sqs.loop.run_for(1_000)
    assert client.is_closed


def test_clients_that_are_slow_or_idle_are_hung_up_on() -> None:
    sqs = SqsScenario(10)
    silent, slow, idle = (sqs.client() for _ in range(3))
    slow.say(request_bytes("ListQueues", b"{}")[:-1])
    idle.do("ListQueues")
    sqs.loop.run_for(REQUEST_MS_MAX + 1_000)
    assert (silent.is_closed, slow.is_closed, idle.is_closed) == (True, True, False)
    sqs.loop.run_for(2 * IDLE_MS_MAX)
    assert idle.is_closed


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"HELLO\r\n\r\n", b"GET\r\n\r\n"],
    ids=["tls", "word", "half"],
)
def test_what_is_no_http_is_refused_and_the_broker_goes_on(garbage: bytes) -> None:
    sqs = SqsScenario(11)
    client = sqs.client()
    client.say(garbage)
    assert client.answer().status == 400
    assert sqs.client().do("ListQueues")["QueueUrls"]


def test_a_queue_that_another_broker_made_is_known_at_once() -> None:
    sqs = SqsScenario(12)
    clients = [sqs.client(name) for name in sqs.running()]
    for number in range(10):
        maker, user = clients[number % 3], clients[(number + 1) % 3]
        url = maker.do("CreateQueue", QueueName=f"q{number}")["QueueUrl"]
        assert user.do("GetQueueUrl", QueueName=f"q{number}")["QueueUrl"] == url
        user.do("SendMessage", QueueUrl=url, MessageBody="hello")
    assert len(clients[2].do("ListQueues")["QueueUrls"]) == 11


def test_a_queue_is_known_at_a_broker_that_hears_of_it_late() -> None:
    sqs = SqsScenario(19)
    controller = sqs.cluster.controller
    assert controller is not None
    late = next(name for name in sqs.running() if name != controller)
    maker, user = sqs.client(controller), sqs.client(late)
    sqs.world.wire.link(controller, late).extra_ms = 300.0
    maker.do("CreateQueue", QueueName="new")
    assert sqs.broker(late).state.queues.keys() < sqs.broker(controller).state.queues.keys()
    assert user.ask("GetQueueUrl", QueueName="new").status == 200
    assert user.ask("GetQueueUrl", QueueName="none").error == "QueueDoesNotExist"


def test_too_many_in_flight_are_said_of_a_standard_queue_and_not_of_a_fifo_one() -> None:
    sqs = SqsScenario(13)
    client = sqs.client()
    sqs.create("bounded", {"max.in.flight": "2"})
    url = "http://b1:9324/000000000000/bounded"
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(5)]
    client.do("SendMessageBatch", QueueUrl=url, Entries=entries)
    held = client.receive(url)
    assert len(held) == 2
    answer = client.ask("ReceiveMessage", QueueUrl=url)
    assert (answer.error, answer.headers["x-amzn-query-error"]) == ("OverLimit", "OverLimit;Sender")
    assert client.do("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=1).get("Messages", []) == []
    client.do("DeleteMessage", QueueUrl=url, ReceiptHandle=held[0]["ReceiptHandle"])
    assert len(client.receive(url)) == 1
    sqs.create("bounded.fifo", {"max.in.flight": "1", "ordered.groups": "true"})
    fifo = url + ".fifo"
    for group in "ab":
        more = {"MessageGroupId": group, "MessageDeduplicationId": group}
        client.do("SendMessage", QueueUrl=fifo, MessageBody=group, **more)
    assert bodies(client.receive(fifo)) == ["a"]
    assert client.receive(fifo) == []


def test_a_full_queue_throttles() -> None:
    sqs = SqsScenario(14)
    client = sqs.client()
    sqs.create("full", {"max.length": "2", "overflow": "reject-publish"})
    url = "http://b1:9324/000000000000/full"
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(3)]
    found = client.do("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in found["Successful"]] == ["0", "1"]
    assert [each["Code"] for each in found["Failed"]] == ["RequestThrottled"]
    assert client.ask("SendMessage", QueueUrl=url, MessageBody="x").error == "RequestThrottled"


def test_options_go_beyond_the_limits_of_amazon() -> None:
    sqs = SqsScenario(15)
    client = sqs.client()
    month = 30 * 24 * 3600
    sqs.create("long", {"delay.max.ms": str(month * 1000), "max.message.bytes": "2097152"})
    url = "http://b1:9324/000000000000/long"
    client.do("SendMessage", QueueUrl=url, MessageBody="later", DelaySeconds=month)
    client.do("SendMessage", QueueUrl=url, MessageBody="x" * 2_000_000)
    assert len(client.receive(url)[0]["Body"]) == 2_000_000
    assert sqs.counts("long").delayed == 1


def test_messages_of_other_protocols_are_shown() -> None:
    sqs = SqsScenario(16)
    headers = (("text", "grün".encode()), ("raw", b"\xff"), ("not a name!", b"x"), ("none", None))
    sqs.put(NewMessage(b"hello", headers=headers), NewMessage(b"\xff\xfe"), NewMessage(None))
    url = "http://b1:9324/000000000000/orders"
    first, *others = sqs.client().receive(url, MessageAttributeNames=["All"])
    assert first["MessageAttributes"] == {
        "text": {"DataType": "String", "StringValue": "grün"},
        "raw": {"DataType": "Binary", "BinaryValue": "/w=="},
    }
    assert bodies(others) == ["\ufffd\ufffd", ""]


@pytest.mark.parametrize(
    "header",
    [
        ("kafkaesque.origin", b'{"log": "zz", "offset": 1, "at_ms": 1}'),
        ("kafkaesque.origin", b'{"log": "abc", "offset": 1, "at_ms": 1}'),
        ("kafkaesque.origin", b'{"log": "aa", "offset": -1, "at_ms": -1}'),
        ("kafkaesque.origin", b"\xff"),
        ("kafkaesque.death", b'{"queue": 5}'),
        ("kafkaesque.group", b"\xff"),
        ("sqs.message", b"[]"),
        ("sqs.message", b'{"types": {"a": "Number"}, "trace": "\\u0000"}'),
        ("sqs.message", b"\xff"),
    ],
)
def test_headers_that_somebody_has_made_up_are_only_headers(header: tuple[str, bytes]) -> None:
    sqs = SqsScenario(20)
    record = Record(0, 0, None, b"hello", (header, ("a", b"x")))
    request = q.PutMessages(
        log_id=sqs.queue().topic_id, records=bytes(encode_batch([record])), timeout_ms=5_000
    )
    sqs.ask(request, q.PutResult)
    url = "http://b1:9324/000000000000/orders"
    wanted = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    (message,) = sqs.client().receive(url, **wanted)
    assert message["Body"] == "hello"
    assert len(message["MessageId"]) == 36


def test_attributes_are_headers_to_other_protocols() -> None:
    sqs = SqsScenario(17)
    url = "http://b1:9324/000000000000/orders"
    attributes = {"colour": {"DataType": "String", "StringValue": "grün"}}
    sqs.client().do("SendMessage", QueueUrl=url, MessageBody="hello", MessageAttributes=attributes)
    (message,) = sqs.take()
    assert (message.value, dict(message.headers)["colour"]) == (b"hello", "grün".encode())


def form_bytes(host: str, query: str, method: str = "POST", **headers: str) -> bytes:
    """A request of the query protocol, as a page's form would send it."""
    every = {"Host": host, **headers}
    target, body = "/", query
    if method == "GET":
        target, body = f"/?{query}", ""
    if body:
        every["Content-Type"] = "application/x-www-form-urlencoded"
    every["Content-Length"] = str(len(body))
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in every.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n{body}".encode()


@pytest.mark.parametrize(
    ("request_bytes_", "status"),
    [
        (form_bytes("localhost:9324", "Action=ListQueues"), 200),
        (form_bytes("localhost:9324", "Action=ListQueues", "GET"), 200),
        (form_bytes("127.0.0.1:9324", "Action=ListQueues", "GET"), 200),
        (form_bytes("[::1]:9324", "Action=ListQueues", "GET"), 200),
        (form_bytes("sqs.example.org", "Action=ListQueues"), 200),
        (form_bytes("evil.example", "Action=ListQueues", "GET"), 403),
        (form_bytes("localhost", "Action=ListQueues", Origin="http://evil.example"), 403),
        (form_bytes("localhost", "Action=ListQueues", Origin="null"), 403),
        (form_bytes("localhost", "Action=ListQueues", "GET", Sec_Fetch_Site="cross-site"), 403),
        (form_bytes("localhost", "Action=ListQueues", "GET", Sec_Fetch_Site="none"), 200),
    ],
)
def test_what_web_pages_send_is_refused(request_bytes_: bytes, status: int) -> None:
    client = SqsScenario(18).client()
    client.say(request_bytes_)
    assert client.answer().status == status


def test_a_queue_over_a_topic_is_not_shown() -> None:
    sqs = SqsScenario(21)
    sqs.create("view", {"source.topic": TOPIC})
    client = sqs.client()
    assert client.ask("GetQueueUrl", QueueName="view").error == "QueueDoesNotExist"
    assert client.ask("CreateQueue", QueueName="view").error == "QueueNameExists"
    assert not any(url.endswith("/view") for url in client.do("ListQueues")["QueueUrls"])
