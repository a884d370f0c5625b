"""What reads bytes of strangers, each as a function of any bytes, and bytes to begin with.

`scripts/fuzz` lets a fuzzer loose on these, guided by what the code does with its bytes; the suite
gives them the beginnings, cut and changed, and what the fuzzer has found. A target returns,
whatever it is given. The parser's own error is what it has to raise; anything else is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kafkaesque.access.oauthbearer import BearerMessageRefused, read_bearer
from kafkaesque.access.plain import PlainMessageRefused, read_plain
from kafkaesque.access.scram_messages import (
    ScramMessageRefused,
    read_client_final,
    read_client_first,
)
from kafkaesque.admin.decoding.bounds import Allowance, UndecodableError
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.schema_book import SchemaBook
from kafkaesque.chassis.amqp.arguments import read_declaration
from kafkaesque.chassis.amqp.outgoing import read_outgoing
from kafkaesque.chassis.http_basic import read_basic
from kafkaesque.chassis.http_requests import BodyPiece, Event, HttpRequests, NotUnderstood
from kafkaesque.gateway.nats.jetstream.configs import (
    ConsumerConfig,
    StreamConfig,
    check_stream,
    completed,
    read_config,
)
from kafkaesque.gateway.nats.jetstream.consumer_checks import check_consumer
from kafkaesque.gateway.nats.jetstream.errors import ApiError
from kafkaesque.gateway.nats.jetstream.pulling import PullRequest, refusal_of
from kafkaesque.gateway.nats.jetstream.records import read_demands
from kafkaesque.gateway.nats.jetstream.subjects import read_ack
from kafkaesque.gateway.nats.jetstream.times import read_duration, write_duration
from kafkaesque.gateway.sqs.attributes import changed_options, new_options
from kafkaesque.gateway.stomp.destinations import read_destination
from kafkaesque.model.batch import check_batches, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.events import Published
from kafkaesque.protocols.amqp.method_codec import read_method, write_method
from kafkaesque.protocols.amqp.properties import (
    Properties,
    PropertiesChecker,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.amqp.stored_message import read_stored
from kafkaesque.protocols.amqp.wire import MALFORMED, read_table, write_table
from kafkaesque.protocols.kafka.api import (
    SUPPORTED,
    ApiKey,
    read_request_header,
    write_request_header,
)
from kafkaesque.protocols.kafka.errors import MalformedRequest, UnsupportedApi
from kafkaesque.protocols.kafka.fetch_path import read_fetch_request
from kafkaesque.protocols.kafka.frames import read_request
from kafkaesque.protocols.kafka.produce_path import read_produce_request
from kafkaesque.protocols.mqtt.packets import Version as MqttVersion
from kafkaesque.protocols.nats.headers import read_headers
from kafkaesque.protocols.sqs.calls import FORM_TYPE, HttpRequest, read_call
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.service import OPERATIONS
from kafkaesque.protocols.sqs.signatures import read_signature
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.versions import Version as StompVersion
from kafkaesque.protocols.text.commands import read_command
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.lines import LineReader
from kafkaesque.protocols.text.messages import read_message
from kafkaesque.protocols.text.positions import read_start
from kafkaesque.registry.errors import InvalidSchema
from kafkaesque.registry.json_text import read_json
from kafkaesque.routing.errors import BadSelector
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.selectors.selector import Selector
from kafkaesque.routing.transformations.errors import BadRule, TransformationFailed
from kafkaesque.routing.transformations.rules import read_rule
from kafkaesque.routing.transformations.transformation import Transformation
from tests.property import web_socket_target
from tests.property.decoding_book import SCHEMAS
from tests.unit.protocols_amqp import peer as amqp_peer
from tests.unit.protocols_mqtt import clauses as mqtt_clauses
from tests.unit.protocols_mqtt import peer as mqtt_peer
from tests.unit.protocols_nats import clauses as nats_clauses
from tests.unit.protocols_nats import peer as nats_peer
from tests.unit.protocols_stomp import clauses as stomp_clauses
from tests.unit.protocols_stomp import peer as stomp_peer

DECOMPRESSED_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Something that reads bytes."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]


# -- AMQP


_AMQP_STARTS: Final = (
    b"",
    amqp_peer.HANDSHAKE[:8],
    amqp_peer.HANDSHAKE,
    amqp_peer.OPENED,
    amqp_peer.OPENED + amqp_peer.method(2, m.ChannelOpen()),
)


def _amqp(data: bytes) -> None:
    """A connection: the first byte says what has come before, the second one where it is cut."""
    if len(data) < 2:
        return
    start, cut, rest = data[0] % len(_AMQP_STARTS), data[1], data[2:]
    broker = amqp_peer.Broker()
    broker.receive(_AMQP_STARTS[start])
    broker.receive(rest[:cut])
    broker.receive(rest[cut:])


def _amqp_seeds() -> list[bytes]:
    properties = write_properties(Properties(content_type="t", headers={"a": 1}, expiration="5"))
    frames = [
        amqp_peer.publish(1, b"hello", pieces=2),
        amqp_peer.method(1, m.BasicPublish(routing_key="q"))
        + amqp_peer.header(1, 1, properties)
        + b"\x03\0\x01\0\0\0\x01x\xce",
        amqp_peer.method(1, m.BasicAck(delivery_tag=1, multiple=True)),
        amqp_peer.method(1, m.ChannelClose()) + amqp_peer.method(1, m.ChannelOpen()),
        amqp_peer.method(0, m.ConnectionClose()),
    ]
    return [bytes((4, 7)) + each for each in frames] + [bytes((0, 3)) + amqp_peer.OPENED]


def _amqp_method(data: bytes) -> None:
    """A method: what is read can be written, and is the same when it is read again."""
    try:
        method = read_method(data)
    except AmqpError:
        return
    again = read_method(write_method(method))
    assert repr(again) == repr(method), (method, again)
    if isinstance(method, m.QueueDeclare):
        with suppress(AmqpError):
            read_declaration(method, "", lambda _: False)


def _amqp_method_seeds() -> list[bytes]:
    arguments: dict[str, object] = {"x-max-length": 5, "x-overflow": "drop-head", "a": [1, {}]}
    return [
        *(write_method(kind()) for kind in m.METHODS.values()),
        write_method(m.QueueDeclare(queue="q", arguments=arguments)),
        write_method(m.ExchangeDeclare(exchange="e", type="topic", arguments={"f": 1.5})),
    ]


def _amqp_content(data: bytes) -> None:
    """Properties and tables, and what a publish makes of them."""
    is_bad = PropertiesChecker().check(data) is not None
    try:
        properties = read_properties(data)
    except AmqpError:
        assert is_bad
    else:
        assert not is_bad
        assert repr(read_properties(write_properties(properties))) == repr(properties)
        event = Published(
            channel=1, exchange="e", routing_key="k", mandatory=False, properties=data, body=b"{}"
        )
        with suppress(AmqpError):
            outgoing = read_outgoing(event, "guest", 0)
            outgoing.message(event)
            Selector("a = 1 AND $.b IS NULL").value(outgoing.routed(event))
    with suppress(AmqpError, *MALFORMED):
        table, _ = read_table(data, 0)
        write_table(table)
    read_stored(data)


def _amqp_content_seeds() -> list[bytes]:
    headers: dict[str, object] = {"CC": ["q"], "BCC": ["r"], "x-delay": 5, "n": {"a": [None, 2.5]}}
    return [
        write_properties(Properties()),
        write_properties(Properties(headers=headers, priority=3, expiration="1", user_id="guest")),
        write_properties(Properties(correlation_id="c", reply_to="r", type="t", app_id="a")),
        write_table(headers),
        b"\x01\x01e\x01k\0\0",
    ]


# -- the light protocols


def _mqtt(data: bytes) -> None:
    """A connection: the first byte says the version, and whether it is connected yet."""
    if not data:
        return
    version = tuple(MqttVersion)[data[0] & 1]
    broker = mqtt_peer.Broker() if data[0] & 2 else mqtt_peer.opened(version)
    broker.receive(data[1:])
    broker.tick(1_000_000)


def _mqtt_seeds() -> list[bytes]:
    versions = list(MqttVersion)
    return [
        bytes((versions.index(row.version) | (2 if section == "CONNECT" else 0),)) + row.sent
        for section, rows in mqtt_clauses.ROWS.items()
        for row in rows
        if len(row.sent) < 200
    ]


def _stomp(data: bytes) -> None:
    """A connection: the first byte says the version; 3: it is not connected yet."""
    if not data:
        return
    kind = data[0] & 3
    versions = list(StompVersion)
    is_new = kind >= len(versions)
    broker = stomp_peer.Broker() if is_new else stomp_peer.opened(versions[kind])
    broker.receive(data[1:])
    if not is_new:
        # Frames that say the same are read together; one by one they say the same.
        singly = stomp_peer.opened(versions[kind])
        for each in data[1:].split(b"\0"):
            singly.receive(each)
            singly.receive(b"\0")
        whole = [str(event) for event in broker.events]
        assert whole == [str(event) for event in singly.events][: len(whole)]
    broker.tick(1_000_000)


def _stomp_seeds() -> list[bytes]:
    versions = list(StompVersion)
    runs = (
        b"SEND\ndestination:/q\nreceipt:%d\n\nbody\0",
        b"SEND\ndestination:/q\ncontent-length:%d\n\n" + b"x\0" * 3 + b"\0",
        b"ACK\nmessage-id:%d\nsubscription:s\n\n\0",
        b"ACK\nid:%d\n\n\0",
    )
    together = [
        bytes((number,)) + b"".join(each % (number + 5) for number in range(3))
        for number in range(len(versions))
        for each in runs
    ]
    return together + [
        bytes((versions.index(row.version),)) + row.sent
        for rows in stomp_clauses.ROWS.values()
        for row in rows
        if len(row.sent) < 200
    ]


def _stomp_destination(data: bytes) -> None:
    with suppress(StompError):
        read_destination(data.decode(errors="replace"))


def _nats(data: bytes) -> None:
    """A connection, its subjects and its headers."""
    broker = nats_peer.Broker()
    broker.receive(data)
    broker.tick(1_000_000)
    read_headers(data)
    read_demands(data)
    read_ack(data.decode(errors="replace"))


def _nats_seeds() -> list[bytes]:
    return [
        *(row.sent for row in nats_clauses.ROWS if len(row.sent) < 200),
        b"NATS/1.0 503 none\r\nA: b\r\n\r\n",
        b"NATS/1.0\r\nNats-Expected-Last-Sequence: 5\r\nNats-Rollup: all\r\n\r\n",
        b"$JS.ACK.S.C.1.2.3.4.5",
    ]


def _jetstream(data: bytes) -> None:
    """What streams, consumers and pulls are asked to be, and what acknowledgements say."""
    with suppress(ApiError):
        check_stream(completed(read_config(data, StreamConfig)))
    with suppress(ApiError):
        consumer = read_config(data, ConsumerConfig)
        check_consumer(consumer, StreamConfig(name="S", subjects=["a.>"]))
        refusal_of(consumer, read_config(data, PullRequest))
    duration = read_duration(data.decode(errors="replace"))
    if duration is not None:
        write_duration(duration)


_JETSTREAM_SEEDS: Final = (
    b'{"name":"S","subjects":["a.>"]}',
    b'{"name":"S","subjects":["a.*","b"],"max_age":5,"duplicate_window":4,"retention":"workqueue"}',
    b'{"ack_policy":"explicit","deliver_subject":"b","flow_control":true,"idle_heartbeat":1000}',
    b'{"filter_subjects":["a.b","a.*"],"backoff":[1,2],"max_deliver":3,"deliver_policy":"new"}',
    b'{"batch":5,"expires":1000,"max_bytes":10,"idle_heartbeat":100,"max_batch":3}',
    b"1h2m3.5s",
)


def _text(data: bytes) -> None:
    """Lines, and what each of them says."""
    reader = LineReader(200)
    for line in (*reader.feed(data), *reader.finish()):
        if not isinstance(line, bytes):
            continue
        with suppress(BadCommand):
            read_command(line)
        text = line.decode(errors="replace")
        with suppress(BadCommand):
            read_message(text)
        with suppress(BadCommand):
            read_start(text)


_TEXT_SEEDS: Final = (
    b"PUBS flights hello\r\n",
    b'PUBS flights {"Body":"b","Key":"k","Header":{"a":"b"}}\r\n',
    b'PUT q {"Body":"b","Delay":5,"Priority":3}\nGET q 5\nACK q 5 1\nNACK q 5 1 30\n',
    b"SUB flights group\nCON flights group next\nCON flights 0:5,1:7\nTOPICS\nHELP\nQUIT\n",
    b"AUTH name password\n",
)


# -- Amazon SQS


def _http(data: bytes) -> None:
    """Requests, which are the same however they come; the first byte says where they are cut."""
    cut = data[0] if data else 0
    whole, pieces = _http_events(data[1:]), _http_events(data[1 : cut + 1], data[cut + 1 :])
    if pieces != whole:
        raise AssertionError(f"{whole} in one piece, and {pieces} in two")


def _http_events(*pieces: bytes) -> list[object]:
    """Return the heads and ends of requests; bodies may come in other pieces."""
    requests, found = HttpRequests(2_000), list[object]()
    event: Event | None
    for piece in pieces:
        requests.receive(piece)
        with suppress(NotUnderstood):
            while (event := requests.next_event()) is not None:
                if not isinstance(event, BodyPiece):
                    found.append(event)
                if requests.is_done:
                    requests.start_next()
    return found


_HTTP_GET, _HTTP_POST = b"GET / HTTP/1.1\r\nHost: a\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n"
_HTTP_SEEDS: Final = (
    b"\x10" + _HTTP_GET + b"Connection: close\r\n\r\n",
    b"\x40" + _HTTP_POST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    b"\x50" + _HTTP_POST + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\n",
    b"\x30" + _HTTP_GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    b"\x08CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
)


def _sqs(data: bytes) -> None:
    """A request: three lines that stand for its head, and its body."""
    if not data:
        return
    first, *rest = data[1:].split(b"\n", 1)
    body = rest[0] if rest else b""
    # HTTP's own parser lets nothing but this through.
    target = "".join(chr(each) for each in first if 0x20 < each < 0x7F)
    operations = tuple(OPERATIONS)
    headers = (
        {"x-amz-target": f"AmazonSQS.{operations[data[0] % len(operations)]}"}
        if data[0] & 1
        else {"content-type": FORM_TYPE}
    )
    headers["authorization"] = target
    method = "GET" if data[0] & 2 else "POST"
    request = HttpRequest(method=method, target=target, headers=headers, body=body)
    with suppress(SqsError):
        read_call(request)
    with suppress(SqsError):
        read_signature(request)
    del headers["authorization"]
    with suppress(SqsError):
        read_signature(request)
    read_basic({"authorization": f"Basic {target}"})


def _sqs_seeds() -> list[bytes]:
    scope = b"AWS4-HMAC-SHA256 Credential=k/20261127/r/sqs/aws4_request, SignedHeaders=host, "
    return [
        b"\x01/\n"
        + json.dumps({"QueueUrl": "http://h/000000000000/q", "MessageBody": "b"}).encode(),
        b"\x00/\nAction=SendMessage&QueueUrl=u&MessageBody=b&MessageAttribute.1.Name=n"
        b"&MessageAttribute.1.Value.StringValue=v&MessageAttribute.1.Value.DataType=String",
        b"\x02/?Action=ListQueues&X-Amz-Signature=s&X-Amz-Credential=k/20261127/r/sqs/aws4_request\n",
        b"\x01" + scope + b"Signature=0\n{}",
    ]


def _sqs_attributes(data: bytes) -> None:
    """Attributes of a queue: one for each line of name and value."""
    pairs = [line.partition("=") for line in data.decode(errors="replace").split("\n")]
    attributes = {name: value for name, _, value in pairs}
    for name in ("q", "q.fifo"):
        with suppress(SqsError):
            new_options(name, attributes, {})
        with suppress(SqsError):
            changed_options(name, attributes)


_SQS_ATTRIBUTES_SEEDS: Final = (
    b"VisibilityTimeout=30\nDelaySeconds=5",
    b'RedrivePolicy={"deadLetterTargetArn":"arn:aws:sqs:r:000000000000:q","maxReceiveCount":3}',
    b'RedriveAllowPolicy={"redrivePermission":"byQueue","sourceQueueArns":["arn"]}',
    b'Policy={"Statement":[{"Effect":"Allow"}]}',
)


# -- Kafka


def _kafka(data: bytes) -> None:
    """A request frame, and the hand-written readers of the two hot ones."""
    frame = memoryview(data)
    try:
        header = read_request_header(frame)
    except (MalformedRequest, UnsupportedApi):
        return
    with suppress(MalformedRequest):
        read_request(header, frame)
    reader = {ApiKey.PRODUCE: read_produce_request, ApiKey.FETCH: read_fetch_request}.get(
        ApiKey(header.api_key)
    )
    if reader is not None:
        with suppress(MalformedRequest):
            reader(frame, header.body_offset, header.api_version)


def _kafka_seeds() -> list[bytes]:
    return [
        write_request_header(key, version, 7, "c") + bytes(24)
        for key, versions in SUPPORTED.items()
        for version in {versions.first, versions.last}
    ]


def _records(data: bytes) -> None:
    """Batches of records, with their checksums and with those that they should have."""
    with suppress(RecordError):
        check_batches(data, 1 << 20, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
    scan_batches(data, walk=True)
    with suppress(RecordError):
        decode_batch(data, DECOMPRESSED_BYTES_MAX)


def _records_seeds() -> list[bytes]:
    records = [Record(number, 1_000, b"k", b"v" * 20, (("h", b"x"),)) for number in range(3)]
    return [bytes(encode_batch(records, BatchOptions(codec=codec))) for codec in Codec]


# -- expressions, rules, schemas, log-ins


def _selector(data: bytes) -> None:
    text = data.decode(errors="replace")
    with suppress(BadSelector):
        selector = Selector(text)
        for headers in ({}, {"a": 1, "b": "x"}, {"a": None, "b": 2.5}):
            selector.value(RoutedMessage(headers=headers, body=b'{"a":[1,{"b":"c"}]}'))


_SELECTOR_SEEDS: Final = (
    b"a = 1 AND b <> 'x' OR NOT (a BETWEEN 1 AND 5)",
    b"b LIKE 'x%_' ESCAPE '%' AND a IN ('x', 'y') AND b IS NOT NULL",
    b"$.a[1].b = 'c' AND a + 2 * -3 / 4 >= 1.5e3 AND TRUE",
)


def _rule(data: bytes) -> None:
    try:
        rule = read_rule(data)
    except BadRule:
        return
    message = RoutedMessage(headers={"a": "x y", "b": 1}, body=b'{"a":[1,{"b":"c"}],"d":2.5}')
    with suppress(BadRule, TransformationFailed):
        Transformation(rule).apply(message)


_RULE_SEEDS: Final = tuple(
    b'{"name":"r","when":"b = 1","steps":[%b]}' % step
    for step in (
        b'{"do":"rename","at":"$.a","to":"$.c.d"},{"do":"drop","at":"headers.b"}',
        b'{"do":"cast","at":"$.d","to":"text"},{"do":"cast","at":"b","to":"truth"}',
        b'{"do":"template","at":"headers.t","text":"{{{a}}} {$.a[1].b}"}',
        b'{"do":"split","at":"a","by":" ","into":["$.f","properties.type"]}',
        b'{"do":"set","at":"$.e","value":-1.5e3}',
    )
)


def _schema(data: bytes) -> None:
    with suppress(InvalidSchema):
        read_json(data.decode(errors="replace"))


def _login(data: bytes) -> None:
    """What clients say who they are, by whatever mechanism."""
    with suppress(PlainMessageRefused):
        read_plain(data)
    with suppress(ScramMessageRefused):
        read_client_first(data)
    with suppress(ScramMessageRefused):
        read_client_final(data)
    with suppress(BearerMessageRefused):
        read_bearer(data)


_LOGIN_SEEDS: Final = (
    b"\0name\0password",
    b"n,,n=user,r=nonce",
    b"n,a=user,n=us=2Cer,r=nonce,tokenauth=true",
    b"c=biws,r=nonce,p=cHJvb2Y=",
    b"n,,\x01auth=Bearer a.b.c\x01\x01",
)


def _decoding(data: bytes) -> None:
    """Decode a value as each format, with the first byte of what is left as a header's length."""
    for wanted in ("auto", "json", "msgpack"):
        decoder = Decoder(SchemaBook(dict(SCHEMAS)), Allowance())
        size = data[0] if data else 0
        for body, header in ((data, None), (data[1 + size :], data[1 : 1 + size])):
            with suppress(UndecodableError):
                decoder.decode(body, wanted, header)


_DECODING_SEEDS: Final = (
    b"\0\0\0\0\1\x02\x02\0",
    b"\0\0\0\0\2\0\x08\x05\x1a\x03\x12\1a\x2a\2\1\2\x30\0",
    b"\0\0\0\0\2\x02\0\x5a\x0e\x0a\6x/Tree\x12\2\x08\5",
    b'\0\0\0\0\3{"a":[1,2]}',
    b"\0\0\0\0\5\x02\0",
    b"\x82\xa1a\x93\1\xcb\x3f\xf0\0\0\0\0\0\0\xc0\xa1b\xd7\xff\0\0\0\0\0\0\0\1",
    b"\5\0\0\0\0\1\x02\0",
)


TARGETS: Final[dict[str, Target]] = {
    "amqp": Target(run=_amqp, seeds=_amqp_seeds),
    "amqp-methods": Target(run=_amqp_method, seeds=_amqp_method_seeds),
    "amqp-content": Target(run=_amqp_content, seeds=_amqp_content_seeds),
    "mqtt": Target(run=_mqtt, seeds=_mqtt_seeds),
    "stomp": Target(run=_stomp, seeds=_stomp_seeds),
    "stomp-destinations": Target(
        run=_stomp_destination,
        seeds=lambda: (b"/queue/a", b"/topic/a.b", b"/exchange/e/k", b"/amq/queue/q"),
    ),
    "nats": Target(run=_nats, seeds=_nats_seeds),
    "jetstream": Target(run=_jetstream, seeds=lambda: _JETSTREAM_SEEDS),
    "text": Target(run=_text, seeds=lambda: _TEXT_SEEDS),
    "web-sockets": Target(run=web_socket_target.run, seeds=web_socket_target.seeds),
    "http": Target(run=_http, seeds=lambda: _HTTP_SEEDS),
    "sqs": Target(run=_sqs, seeds=_sqs_seeds),
    "sqs-attributes": Target(run=_sqs_attributes, seeds=lambda: _SQS_ATTRIBUTES_SEEDS),
    "kafka": Target(run=_kafka, seeds=_kafka_seeds),
    "records": Target(run=_records, seeds=_records_seeds),
    "selectors": Target(run=_selector, seeds=lambda: _SELECTOR_SEEDS),
    "rules": Target(run=_rule, seeds=lambda: _RULE_SEEDS),
    "schemas": Target(run=_schema, seeds=lambda: (b'{"type":"record","fields":[]}', b"1e5")),
    "decoding": Target(run=_decoding, seeds=lambda: _DECODING_SEEDS),
    "log-ins": Target(run=_login, seeds=lambda: _LOGIN_SEEDS),
}
