"""Confluent's serializers for Python, unchanged: Avro, JSON Schema and Protocol Buffers."""

import json
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from tests.clients.registry_cluster import RegistryCluster

AVRO = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
JSON = (
    '{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object",'
    '"properties":{"id":{"type":"integer"}},"required":["id"]}'
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryCluster]:
    directory: Path = tmp_path_factory.mktemp("serializers")
    with RegistryCluster(3, directory) as started:
        yield started


def client(cluster: RegistryCluster, number: int) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": cluster.url(number)})


def through(cluster: RegistryCluster, topic: str, value: bytes) -> bytes:
    """Send a record and read it again."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    group = {"group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **group})
    try:
        consumer.subscribe([topic])
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error() is None:
                return bytes(message.value() or b"")
    finally:
        consumer.close()


def test_avro_goes_from_one_broker_to_another(cluster: RegistryCluster) -> None:
    context = SerializationContext("avro-orders", MessageField.VALUE)
    serializer = AvroSerializer(client(cluster, 1), AVRO)
    written = serializer({"id": 2**40, "note": "ä"}, context)
    assert written is not None
    assert written[0] == 0
    read = through(cluster, "avro-orders", written)
    deserializer = AvroDeserializer(client(cluster, 2))
    assert deserializer(read, context) == {"id": 2**40, "note": "ä"}


def test_json_goes_from_one_broker_to_another(cluster: RegistryCluster) -> None:
    context = SerializationContext("json-orders", MessageField.VALUE)
    written = JSONSerializer(JSON, client(cluster, 2))({"id": 7}, context)
    assert written is not None
    read = through(cluster, "json-orders", written)
    deserializer = JSONDeserializer(None, schema_registry_client=client(cluster, 3))
    assert deserializer(read, context) == {"id": 7}


@cache
def message_class() -> Any:
    """Return a message that uses a type of another file, as protoc would make it."""
    pool = descriptor_pool.Default()
    file = descriptor_pb2.FileDescriptorProto(
        name="shop/order.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    lines = order.nested_type.add(name="LinesEntry")
    lines.options.map_entry = True
    lines.field.add(name="key", number=1, type=9, label=1)
    lines.field.add(name="value", number=2, type=5, label=1)
    order.field.add(name="lines", number=3, type=11, label=3, type_name=".shop.Order.LinesEntry")
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_goes_from_one_broker_to_another(cluster: RegistryCluster) -> None:
    context = SerializationContext("proto-orders", MessageField.VALUE)
    order = message_class()
    sent = order(id=5, at=timestamp_pb2.Timestamp(seconds=9), lines={"bolts": 3})
    config = {"use.deprecated.format": False}
    registry = client(cluster, 1)
    written = ProtobufSerializer(order, registry, config)(sent, context)
    assert written is not None
    read = through(cluster, "proto-orders", written)
    deserializer = ProtobufDeserializer(order, config, client(cluster, 3))
    assert deserializer(read, context) == sent
    # Java's clients ask for the text.
    kept = registry.get_latest_version("proto-orders-value").schema
    assert kept.schema_str is not None
    assert "map<string, int32> lines = 3;" in kept.schema_str


def written_by(kind: str, registry: SchemaRegistryClient, context: SerializationContext) -> bytes:
    """Return an order as one of the serializers writes it."""
    if kind == "avro":
        written = AvroSerializer(registry, AVRO)({"id": 2**40, "note": "ä"}, context)
    elif kind == "json":
        written = JSONSerializer(JSON, registry)({"id": 7}, context)
    else:
        sent = message_class()(id=5, at=timestamp_pb2.Timestamp(seconds=9), lines={"bolts": 3})
        config = {"use.deprecated.format": False}
        written = ProtobufSerializer(message_class(), registry, config)(sent, context)
    assert written is not None
    return bytes(written)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("avro", {"id": 2**40, "note": "ä"}),
        ("json", {"id": 7}),
        ("protobuf", {"id": "5", "at": "1970-01-01T00:00:09Z", "lines": {"bolts": 3}}),
    ],
)
def test_the_admin_api_decodes_what_serializers_write(
    cluster: RegistryCluster, kind: str, shown: object
) -> None:
    topic = f"decoded-{kind}"
    registry = client(cluster, 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    key = written_by(kind, registry, SerializationContext(topic, MessageField.KEY))
    value = written_by(kind, registry, SerializationContext(topic, MessageField.VALUE))
    producer.produce(topic, value, key)
    assert producer.flush(30) == 0
    path = f"/topics/{topic}/messages?key_format=auto&value_format={kind}"
    (item,) = cluster.api(2, path)["items"]
    for part in ("key", "value"):
        content = item[part]
        assert (content["undecoded"], content["kind"]) == (None, kind)
        assert json.loads(content["text"]) == shown
        assert content["schema"]["subject"] == f"{topic}-{part}"
        assert content["schema"]["version"] == 1


def test_the_client_manages_subjects(cluster: RegistryCluster) -> None:
    registry = client(cluster, 2)
    subject = "managed"
    number = registry.register_schema(subject, Schema(AVRO, "AVRO"))
    assert registry.get_schema(number).schema_str == AVRO
    assert registry.lookup_schema(subject, Schema(AVRO, "AVRO")).version == 1
    assert subject in registry.get_subjects()
    assert registry.get_versions(subject) == [1]
    registry.set_compatibility(subject, "FULL")
    assert registry.get_compatibility(subject) == "FULL"
    narrow = Schema('{"type":"record","name":"Order","fields":[]}', "AVRO")
    assert registry.test_compatibility(subject, narrow) is False
    with pytest.raises(SchemaRegistryError) as refused:
        registry.register_schema(subject, narrow)
    assert refused.value.http_status_code == 409
    using = Schema(
        '{"type":"record","name":"Cart","fields":[{"name":"of","type":"Order"}]}',
        "AVRO",
        [SchemaReference("Order", subject, 1)],
    )
    registry.register_schema("carts", using)
    with pytest.raises(SchemaRegistryError) as refused:
        registry.delete_subject(subject)
    assert refused.value.error_code == 42206
    assert registry.delete_subject("carts") == [1]
    assert registry.delete_subject("carts", permanent=True) == [1]
    assert registry.delete_version(subject, 1) == 1
