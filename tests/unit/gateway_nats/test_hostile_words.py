"""What others have written where JetStream reads its own words: it hurts nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkaesque.broker.options.nats import CONSUMER, STREAM
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.gateway.nats.jetstream.sweeping import SWEEP_MS
from tests.unit.gateway_nats.kit import PATIENCE_MS, Ground
from tests.unit.gateway_nats.test_jetstream import Api, new_stream
from tests.unit.gateway_nats.test_mirrors import await_messages

HUGE = 10**30


def submit(ground: Ground, command: Any) -> None:
    done: list[object] = []
    ground.cluster.brokers["b1"].doors.cluster.submit(command, 10_000, done.append)
    ground.loop.run_until(lambda: bool(done), PATIENCE_MS)
    assert not isinstance(done[0], Exception), done


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("nats/S/c", {"filter_subject": "a b"}),
        ("nats/S/c", {"filter_subjects": ["a..b"]}),
        ("nats/c", {}),
        ("nats/S/c", {"inactive_threshold": HUGE}),
        ("nats/S/c", {"deliver_subject": "listened", "idle_heartbeat": HUGE**20}),
        ("nats/S/c", {"deliver_subject": "listened", "backoff": [HUGE]}),
    ],
)
def test_an_option_that_says_no_consumer(
    ground: Ground, name: str, config: dict[str, object]
) -> None:
    """Whoever may make a queue may give it the option by Kafka's port."""
    client = ground.client()
    client.subscribe("listened")
    submit(ground, CreateQueue(vhost="/", name=name, options={CONSUMER: json.dumps(config)}))
    ground.wait(2 * SWEEP_MS)
    client.publish("listened", b"x")
    assert client.message()[4] == b"x"
    assert Api(ground).ask("INFO")["consumers"] <= 1


@pytest.mark.parametrize("subject", ["a b", "a..b", "", ".".join("x" * 200)])
def test_an_option_that_says_no_stream(ground: Ground, subject: str) -> None:
    configs = {STREAM: json.dumps({"subjects": [subject]})}
    submit(ground, CreateTopic(name="hostile", partition_count=1, configs=configs))
    client = ground.client()
    client.subscribe("heard")
    client.publish("heard", b"x")
    assert client.message()[4] == b"x"
    ground.wait(2 * SWEEP_MS)
    assert Api(ground).ask("INFO")["streams"] == 0


@pytest.mark.parametrize("number", [HUGE, -HUGE, -5, 2**63])
def test_numbers_that_fit_into_nothing(ground: Ground, number: int) -> None:
    api = Api(ground)
    stream = new_stream(api)
    api.publish(f"{stream}.a", b"x")

    def create(**config: object) -> dict[str, Any]:
        full = {"durable_name": "c", "ack_policy": "explicit", **config}
        made = api.ask(f"CONSUMER.CREATE.{stream}.c", stream_name=stream, config=full)
        api.ask(f"CONSUMER.DELETE.{stream}.c")
        return made

    start = {"deliver_policy": "by_start_sequence", "opt_start_seq": number}
    assert "error" in create(**start)
    for name in ("ack_wait", "inactive_threshold", "idle_heartbeat", "max_deliver"):
        create(**{name: number})
    create(backoff=[number])
    for words in ("STREAM.MSG.GET", "STREAM.MSG.DELETE", "DIRECT.GET"):
        body = json.dumps({"seq": number}).encode()
        reply = f"{api.inbox}.{words}.{number}".replace(".DIRECT.", "-")
        api.client.publish(f"$JS.API.{words}.{stream}", body, reply)
    api.ask(f"STREAM.PURGE.{stream}", seq=number, keep=number)
    create()
    api.client.publish(
        f"$JS.API.CONSUMER.CREATE.{stream}.d",
        json.dumps({"config": {"durable_name": "d", "ack_policy": "explicit"}}).encode(),
    )
    for wanted in ("batch", "expires", "max_bytes", "idle_heartbeat"):
        api.pull(stream, "d", **{wanted: number})
    ground.wait(2 * SWEEP_MS)
    # The broker is there, and so is the connection.
    api.client.flush()


@pytest.fixture(scope="module")
def three() -> Ground:
    return Ground(seed=3, brokers=3)


@pytest.mark.parametrize(
    "delay",
    [str(HUGE), f'{{"delay":{HUGE}}}', f'{{"delay":-{HUGE}}}', "9" * 18 + "h", "2562047h"],
)
@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_delay_that_fits_into_nothing(three: Ground, delay: str, broker: int) -> None:
    """Neither into the queue's log nor into a request to its leader, wherever that is."""
    ground = three
    api = Api(ground, broker)
    stream = new_stream(api)
    api.publish(f"{stream}.a", b"x")
    config = {"durable_name": "c", "ack_policy": "explicit"}
    api.ask(f"CONSUMER.CREATE.{stream}.c", stream_name=stream, config=config)
    api.pull(stream, "c", batch=1, expires=1_000_000_000)
    found = api.client.message()
    assert found[4] == b"x"
    api.client.publish(found[2], f"-NAK {delay}".encode())
    api.client.flush()
    ground.wait(1_000)
    api.client.flush()


def test_headers_with_half_an_end_of_a_line_are_told_and_copied(ground: Ground) -> None:
    api = Api(ground)
    stream = new_stream(api, allow_direct=True)
    copy = f"{stream}-copy"
    raw = b"NATS/1.0\r\nA: x\ny\r\n\r\n"
    api.client.write(b"HPUB %b.a %d %d\r\n%b1\r\n" % (stream.encode(), len(raw), len(raw) + 1, raw))
    api.publish(f"{stream}.a", b"2")
    made = api.ask(f"STREAM.CREATE.{copy}", name=copy, sources=[{"name": stream}])
    assert made.get("did_create") is True
    for name in (stream, copy):
        await_messages(ground, api, name, 2)
        api.client.publish(f"$JS.API.DIRECT.GET.{name}", b'{"seq":1}', f"{api.inbox}.direct")
        _, _, _, headers, payload = api.client.message()
        assert headers.startswith(raw.removesuffix(b"\r\n")), headers
        assert payload == b"1"


def test_a_start_that_is_no_time_makes_no_consumer(ground: Ground) -> None:
    api = Api(ground)
    stream = new_stream(api)
    config = {"durable_name": "c", "ack_policy": "explicit", "deliver_policy": "by_start_time"}
    wanted = {"stream_name": stream, "config": {**config, "opt_start_time": "soon"}}
    assert api.ask(f"CONSUMER.CREATE.{stream}.c", **wanted)["error"]["code"] == 400
    assert api.ask(f"CONSUMER.INFO.{stream}.c")["error"]["err_code"] == 10014
