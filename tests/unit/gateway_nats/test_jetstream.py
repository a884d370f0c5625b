"""JetStream at simulated brokers, request by request."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.exchange_commands import BindDestination
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.gateway.nats.jetstream.records import REMOVAL
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.live_message import LiveMessage
from kafkaesque.routing.names import MQTT
from tests.unit.gateway_nats.kit import PATIENCE_MS, Ground, NatsClient

_numbers = itertools.count()


@pytest.fixture
def three() -> Ground:
    return Ground(seed=3, brokers=3)


class Api:
    """A client with an inbox."""

    def __init__(self, ground: Ground, broker: int = 1) -> None:
        self.client: NatsClient = ground.client(broker)
        self.inbox = f"_INBOX.{next(_numbers)}"
        self.client.subscribe(f"{self.inbox}.*", "inbox")

    def ask(self, operation: str, **body: Any) -> dict[str, Any]:
        """Return the answer to a request."""
        return self.publish(f"$JS.API.{operation}", json.dumps(body).encode())

    def publish(self, subject: str, payload: bytes = b"", headers: str = "") -> dict[str, Any]:
        """Return what is answered to a message."""
        reply = f"{self.inbox}.{next(_numbers)}"
        if headers:
            raw = f"NATS/1.0\r\n{headers}\r\n\r\n".encode()
            sizes = f"{len(raw)} {len(raw) + len(payload)}"
            self.client.write(f"HPUB {subject} {reply} {sizes}\r\n".encode() + raw + payload)
            self.client.write(b"\r\n")
        else:
            self.client.publish(subject, payload, reply)
        found: dict[str, Any] = json.loads(self.client.message()[4])
        return found

    def pull(self, stream: str, consumer: str, **wanted: Any) -> None:
        body = json.dumps(wanted).encode()
        self.client.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, f"{self.inbox}.pulled"
        )

    def status(self) -> str:
        """Return the status of the next message."""
        return self.client.message()[3].split(b"\r\n")[0].decode()

    def ack(self, token: str, word: bytes = b"+ACK") -> None:
        """Acknowledge, and wait until that is committed."""
        self.client.publish(token, word, f"{self.inbox}.acked")
        assert self.client.message()[4] == b""


def new_stream(api: Api, **config: Any) -> str:
    name = f"S{next(_numbers)}"
    made = api.ask(f"STREAM.CREATE.{name}", name=name, subjects=[f"{name}.>"], **config)
    assert made["did_create"] is True
    return name


def new_consumer(api: Api, stream: str, **config: Any) -> str:
    name = f"C{next(_numbers)}"
    settings = {"durable_name": name, "ack_policy": "explicit", **config}
    made = api.ask(f"CONSUMER.CREATE.{stream}.{name}", stream_name=stream, config=settings)
    assert made["name"] == name, made
    return name


def test_what_was_given_out_comes_again_when_its_time_is_up(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream, ack_wait=2_000_000_000, max_deliver=2)
    api.publish(f"{stream}.a", b"x")
    for attempt in (1, 2):
        api.pull(stream, consumer, batch=1, expires=10_000_000_000)
        subject, _, token, _, payload = api.client.message()
        assert (subject, payload) == (f"{stream}.a", b"x")
        assert token.startswith(f"$JS.ACK.{stream}.{consumer}.{attempt}.1.")
    three.wait(3_000)
    api.pull(stream, consumer, batch=1, no_wait=True)
    assert api.status() == "NATS/1.0 404 No Messages"


def test_who_fails_often_has_longer_each_time(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    second = 1_000_000_000
    wrong = {"durable_name": "C", "ack_policy": "explicit", "backoff": [1, 2], "max_deliver": 2}
    refused = api.ask(f"CONSUMER.CREATE.{stream}.C", stream_name=stream, config=wrong)
    assert refused["error"]["err_code"] == 10116
    steps = [2 * second, 6 * second, 4 * second]
    consumer = new_consumer(api, stream, backoff=steps, max_deliver=4)
    info = api.ask(f"CONSUMER.INFO.{stream}.{consumer}")
    assert (info["config"]["ack_wait"], info["config"]["backoff"]) == (steps[0], steps)
    api.publish(f"{stream}.a", b"x")
    came: list[int] = []
    for attempt in range(1, 5):
        api.pull(stream, consumer, batch=1, expires=20 * second)
        token = api.client.message()[2]
        assert token.startswith(f"$JS.ACK.{stream}.{consumer}.{attempt}.1.")
        came.append(three.env.clock.now_ms())
    between = [(later - earlier) / 1_000 for earlier, later in itertools.pairwise(came)]
    # The last step counts for all that follow.
    assert [round(each) for each in between] == [2, 6, 4]


def test_work_in_progress_and_a_delayed_nak(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream, ack_wait=1_000_000_000)
    api.publish(f"{stream}.a", b"x")
    api.pull(stream, consumer, batch=1, expires=10_000_000_000)
    token = api.client.message()[2]
    for _ in range(4):
        three.wait(600)
        api.ack(token, b"+WPI")
    api.ack(token, b'-NAK {"delay": 3000000000}')
    began_ms = three.env.clock.now_ms()
    api.pull(stream, consumer, batch=1, expires=10_000_000_000)
    again = api.client.message()[2]
    assert three.env.clock.now_ms() - began_ms >= 2_900
    api.ack(again, b"+TERM")
    api.pull(stream, consumer, batch=1, no_wait=True)
    assert api.status() == "NATS/1.0 404 No Messages"


def test_an_acknowledgement_that_comes_too_late_is_not_answered(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream, ack_wait=1_000_000_000)
    api.publish(f"{stream}.a", b"x")
    api.pull(stream, consumer, batch=1, expires=5_000_000_000)
    late = api.client.message()[2]
    three.wait(1_500)
    api.pull(stream, consumer, batch=1, expires=5_000_000_000)
    token = api.client.message()[2]
    api.client.publish(late, b"+ACK", f"{api.inbox}.late")
    three.wait(1_000)
    assert b".late" not in api.client.take()
    api.ack(token)


def test_one_acknowledgement_for_all_before_it(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream, ack_policy="all", ack_wait=2_000_000_000)
    for number in range(5):
        api.publish(f"{stream}.a", b"%d" % number)
    api.pull(stream, consumer, batch=5, expires=5_000_000_000)
    tokens = [api.client.message()[2] for _ in range(5)]
    api.ack(tokens[3])
    three.wait(3_000)
    api.pull(stream, consumer, batch=5, no_wait=True)
    assert api.client.message()[4] == b"4"


def test_a_pull_says_why_it_ends(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream)
    api.pull(stream, consumer, batch=2, expires=1_000_000_000, idle_heartbeat=300_000_000)
    said = [api.status() for _ in range(4)]
    assert said[0] == "NATS/1.0 100 Idle Heartbeat"
    assert said[-1] == "NATS/1.0 408 Request Timeout"


def test_a_pull_that_does_not_wait_gets_what_was_stored_before_it(three: Ground) -> None:
    """The consumer's queue may not have read it yet, wherever that is led."""
    api = Api(three, 1)
    for _ in range(5):
        stream = new_stream(api)
        consumer = new_consumer(api, stream)
        for number in range(3):
            api.publish(f"{stream}.a", b"%d" % number)
            api.pull(stream, consumer, batch=1, no_wait=True)
            assert api.client.message()[4] == b"%d" % number


def test_what_takes_the_place_of_its_subject_s_oldest_does_not_fill_a_stream(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api, max_msgs=2, max_msgs_per_subject=1, discard="new")
    for subject in ("a", "b", "a"):
        assert "seq" in api.publish(f"{stream}.{subject}", b"x"), subject
    assert api.publish(f"{stream}.c", b"x")["error"]["err_code"] == 10077


def test_what_nobody_takes_is_given_back(three: Ground) -> None:
    api, gone = Api(three), Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream)
    gone.pull(stream, consumer, batch=10, expires=20_000_000_000)
    gone.client.flush()
    gone.client.client.link.abort()
    three.wait(100)
    api.publish(f"{stream}.a", b"x")
    api.pull(stream, consumer, batch=1, expires=15_000_000_000)
    assert api.client.message()[4] == b"x"


def test_a_consumer_that_nobody_asks_goes(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    made = api.ask(
        f"CONSUMER.CREATE.{stream}", stream_name=stream, config={"ack_policy": "explicit"}
    )
    assert api.ask(f"CONSUMER.NAMES.{stream}")["consumers"] == [made["name"]]
    three.wait(9_000)
    assert api.ask(f"CONSUMER.NAMES.{stream}")["consumers"] == []


def test_messages_go_by_age(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api, max_age=2_000_000_000)
    api.publish(f"{stream}.a", b"x")
    assert api.ask(f"STREAM.INFO.{stream}")["state"]["messages"] == 1
    three.wait(2_500)
    assert api.ask(f"STREAM.INFO.{stream}")["state"]["messages"] == 0


def test_an_id_counts_for_as_long_as_the_stream_says(three: Ground) -> None:
    api, other = Api(three, 1), Api(three, 2)
    stream = new_stream(api, duplicate_window=2_000_000_000)
    first = api.publish(f"{stream}.a", b"x", "Nats-Msg-Id: 1")
    assert first == {"stream": stream, "seq": 1}
    again = other.publish(f"{stream}.a", b"x", "Nats-Msg-Id: 1")
    assert again == {"stream": stream, "seq": 1, "duplicate": True}
    three.wait(2_500)
    assert other.publish(f"{stream}.a", b"x", "Nats-Msg-Id: 1") == {"stream": stream, "seq": 2}


def test_requests_that_make_no_sense(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    for operation, body, number in (
        ("STREAM.CREATE.X", {"name": "Y"}, 10056),
        ("STREAM.CREATE.X", {"retention": "none"}, 10025),
        ("STREAM.CREATE.X", {"subjects": ["a..b"]}, 10052),
        ("STREAM.CREATE.X", {"republish": {"src": "a", "dest": "b"}}, 10052),
        ("STREAM.CREATE.X", {"max_age": "one"}, 10025),
        ("STREAM.CREATE.X", {"subjects": [".".join(["a"] * 200)]}, 10052),
        ("STREAM.CREATE.a*b", {}, 10003),
        ("STREAM.INFO", {}, 10003),
        (f"STREAM.INFO.{stream}.more", {}, 10003),
        (f"STREAM.MSG.GET.{stream}", {"seq": 9}, 10037),
        (f"STREAM.MSG.DELETE.{stream}", {"seq": 9}, 10037),
        (f"CONSUMER.INFO.{stream}.none", {}, 10014),
        (f"CONSUMER.CREATE.{stream}.C", {"config": {"filter_subject": "other"}}, 10078),
        (f"CONSUMER.CREATE.{stream}.C", {"config": {"name": "D"}}, 10078),
    ):
        assert api.ask(operation, **body)["error"]["err_code"] == number, operation


def test_a_stream_is_a_topic_and_goes_with_it(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    state = three.cluster.brokers["b1"].doors.cluster.state
    assert len(state.topics[stream].partitions) == 1
    assert api.ask("STREAM.NAMES", subject=f"{stream}.a")["streams"] == [stream]
    assert api.ask(f"STREAM.DELETE.{stream}")["success"] is True
    assert stream not in state.topics


def test_a_topic_that_is_there_becomes_a_stream_and_stays(three: Ground) -> None:
    api = Api(three)
    doors = three.cluster.brokers["b1"].doors
    done: list[object] = []
    command = CreateTopic(name="adopted", partition_count=1)
    doors.cluster.submit(command, 10_000, done.append)
    three.loop.run_until(lambda: "adopted" in doors.cluster.state.topics, PATIENCE_MS)
    doors.publishing.publish(
        TopicPartition("adopted", 0),
        bytes(encode_batch([Record(0, 1, b"adopted.a", b"by Kafka"), Record(1, 2, None, b"bare")])),
        acks=-1,
        timeout_ms=10_000,
        on_done=done.append,
        is_wanted=lambda: True,
    )
    three.loop.run_until(lambda: len(done) == 2, PATIENCE_MS)
    made = api.ask("STREAM.CREATE.adopted", subjects=["adopted.>"])
    assert made["state"]["messages"] == 2
    found = api.ask("STREAM.MSG.GET.adopted", last_by_subj="adopted.a")
    assert (found["message"]["seq"], found["message"]["data"]) == (1, "YnkgS2Fma2E=")
    assert api.ask("STREAM.MSG.GET.adopted", seq=2)["message"]["subject"] == "adopted"
    assert api.ask("STREAM.DELETE.adopted")["success"] is True
    assert "adopted" in doors.cluster.state.topics


@pytest.mark.parametrize("name", ["nats.removal", REMOVAL])
def test_no_header_of_a_publisher_removes_anything(three: Ground, name: str) -> None:
    api = Api(three)
    stream = new_stream(api)
    api.publish(f"{stream}.a", b"1")
    forged = b'{"before": 1, "sequences": [1]}'
    assert api.publish(f"{stream}.b", forged, f"{name}: x")["seq"] == 2
    assert api.ask(f"STREAM.INFO.{stream}")["state"]["messages"] == 2
    assert api.ask(f"STREAM.MSG.GET.{stream}", seq=2)["message"]["subject"] == f"{stream}.b"


def bind(ground: Ground, destination: Destination, key: str) -> None:
    doors, done = ground.cluster.brokers["b1"].doors, list[object]()
    command = BindDestination(vhost="/", source="amq.topic", destination=destination, key=key)
    doors.exchanges.submit(command, 10_000, done.append)
    ground.loop.run_until(lambda: bool(done), PATIENCE_MS)
    ground.loop.run_until(
        lambda: all(
            each.doors.exchanges.has_names_bound for each in ground.cluster.brokers.values()
        ),
        PATIENCE_MS,
    )


def test_a_route_to_a_stream_brings_what_others_publish_and_nothing_twice(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    bind(three, Destination(stream, is_topic=True), f"{stream}.#")
    listener = three.client(2)
    listener.subscribe(f"{stream}.>")
    listener.flush()
    assert api.publish(f"{stream}.a", b"by NATS")["seq"] == 1
    live, outcomes = three.cluster.brokers["b2"].doors.live, list[object]()
    mqtt = LiveMessage(key=MQTT.key_of(f"{stream}/b/c"), body=b"by MQTT", content_type="text/plain")
    live.publish(mqtt, outcomes.append)
    three.loop.run_until(lambda: bool(outcomes), PATIENCE_MS)
    # The topic, and the listener.
    assert outcomes == [2]
    assert api.publish(f"{stream}.a", b"last")["seq"] == 3
    found = api.ask(f"STREAM.MSG.GET.{stream}", seq=2)["message"]
    assert (found["subject"], base64.b64decode(found["data"])) == (f"{stream}.b.c", b"by MQTT")
    assert "Content-Type: text/plain" in base64.b64decode(found["hdrs"]).decode()


def test_no_stream_has_the_name_of_a_queue_that_is_shown_as_a_topic(three: Ground) -> None:
    doors, done = three.cluster.brokers["b1"].doors, list[Any]()
    command = CreateQueue(vhost="/", name="seen", options={"kafka.topic": "SHOWN"})
    doors.cluster.submit(command, 10_000, done.append)
    three.loop.run_until(lambda: bool(done), PATIENCE_MS)
    refused = Api(three).ask("STREAM.CREATE.SHOWN", name="SHOWN", subjects=["shown.>"])
    assert "shows a queue" in refused["error"]["description"]


def test_queues_get_what_a_stream_stores_though_nobody_listens(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    doors, done = three.cluster.brokers["b1"].doors, list[Any]()
    doors.cluster.submit(CreateQueue(vhost="/", name="bound"), 10_000, done.append)
    three.loop.run_until(lambda: bool(done), PATIENCE_MS)
    bind(three, Destination("bound"), f"{stream}.#")
    assert api.publish(f"{stream}.a", b"x")["seq"] == 1
    queue = next(each for each in doors.cluster.state.queues.values() if each.queue.name == "bound")
    consumer, log_id = doors.queues.new_consumer(), queue.topic_id
    attach = q.AttachConsumer(log_id=log_id, consumer=consumer)
    doors.queues.ask(attach, q.AttachedConsumer, 10_000, done.append)
    three.loop.run_until(lambda: len(done) == 2, PATIENCE_MS)
    take = q.TakeMessages(
        log_id=log_id,
        consumer=consumer,
        messages_max=2,
        bytes_max=1_000_000,
        lock_ms=10_000,
        wait_ms=5_000,
    )
    taken: list[Any] = []
    doors.queues.ask(take, q.TakenMessages, 20_000, taken.append)
    three.loop.run_until(lambda: bool(taken), PATIENCE_MS)
    assert [each.value for each in taken[0].messages] == [b"x"]


def test_nothing_is_rolled_up_that_the_stream_has_not_let(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api, allow_rollup_hdrs=True)
    for number in range(2):
        api.publish(f"{stream}.a", b"%d" % number)
    doors, done = three.cluster.brokers["b1"].doors, list[object]()
    record = Record(0, 1, f"{stream}.a".encode(), b"by Kafka", (("Nats-Rollup", b"sub"),))
    doors.publishing.publish(
        TopicPartition(stream, 0),
        bytes(encode_batch([record])),
        acks=-1,
        timeout_ms=10_000,
        on_done=done.append,
        is_wanted=lambda: True,
    )
    three.loop.run_until(lambda: len(done) == 1, PATIENCE_MS)
    assert api.ask(f"STREAM.INFO.{stream}")["state"]["messages"] == 3
    assert api.publish(f"{stream}.a", b"all", "Nats-Rollup: sub")["seq"] == 4
    assert api.ask(f"STREAM.INFO.{stream}")["state"]["messages"] == 1
    shown = api.ask(f"STREAM.MSG.GET.{stream}", seq=4)["message"]
    assert "Nats-Rollup: sub" in base64.b64decode(shown["hdrs"]).decode()


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_what_all_consumers_are_done_with_is_gone(three: Ground, retention: str) -> None:
    api = Api(three)
    stream = new_stream(api, retention=retention)
    consumer = new_consumer(api, stream)
    for number in range(3):
        api.publish(f"{stream}.a", b"%d" % number)
    api.pull(stream, consumer, batch=3, expires=5_000_000_000)
    tokens = [api.client.message()[2] for _ in range(3)]
    api.ack(tokens[1])
    assert api.ask(f"STREAM.INFO.{stream}")["state"]["messages"] == 3
    api.ack(tokens[0])
    state = api.ask(f"STREAM.INFO.{stream}")["state"]
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (1, 3, 3)


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_what_came_after_a_pull_was_over_is_delivered_for_the_first_time(
    three: Ground, broker: int
) -> None:
    api = Api(three, broker)
    stream = new_stream(api)
    consumer = new_consumer(api, stream)
    api.pull(stream, consumer, batch=1, expires=6_000_000_000)
    assert api.status() == "NATS/1.0 408 Request Timeout"
    api.publish(f"{stream}.a", b"x")
    three.wait(500)
    api.pull(stream, consumer, batch=1, expires=1_000_000_000)
    assert api.client.message()[2].startswith(f"$JS.ACK.{stream}.{consumer}.1.1.")
