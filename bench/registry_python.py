"""Confluent's serializers for Python, where its serializers for Java meet them."""

from __future__ import annotations

import time
import uuid
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp

TIMEOUT_S: Final = 60.0
_JSON: Final = (
    '{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object",'
    '"properties":{"id":{"type":"integer"}},"required":["id"]}'
)


class WrongRecordError(AssertionError):
    """A record is not there, or not as it should be."""


class Python:
    """Writes and reads records as it is asked to."""

    def __init__(self, bootstrap_servers: str, url: str) -> None:
        """Ask the registry at `url`."""
        self._servers = bootstrap_servers
        self._registry = SchemaRegistryClient({"url": url})

    def answer(self, asked: dict[str, Any]) -> None:
        """Do what is asked for.

        Raises:
            WrongRecordError: the record that was to be read is another.
        """
        topic = asked["topic"]
        match asked["do"]:
            case "write":
                self._write_avro(topic, asked)
            case "write-json":
                self._write(topic, JSONSerializer(_JSON, self._registry), {"id": 7})
            case "write-protobuf":
                config = {"use.deprecated.format": False}
                serializer = ProtobufSerializer(Timestamp, self._registry, config)
                self._write(topic, serializer, Timestamp(seconds=9))
            case "read":
                found = AvroDeserializer(self._registry)(self._read(topic), _context(topic))
                if found != asked["record"]:
                    raise WrongRecordError(f"Python has read {found}, not {asked['record']}")
            case other:
                raise WrongRecordError(f"nobody knows what {other!r} is")

    def _write_avro(self, topic: str, asked: dict[str, Any]) -> None:
        references = [SchemaReference(**each) for each in asked.get("references", ())]
        config = {"auto.register.schemas": not references, "use.latest.version": bool(references)}
        schema = Schema(asked["schema"], "AVRO", references)
        serializer = AvroSerializer(self._registry, schema, conf=config)
        self._write(topic, serializer, asked["record"])

    def _write(self, topic: str, serializer: Any, record: object) -> None:
        producer = Producer({"bootstrap.servers": self._servers})
        # Java reads keys by their schema, too.
        key = AvroSerializer(self._registry, '"string"')(
            "k", SerializationContext(topic, MessageField.KEY)
        )
        producer.produce(topic, serializer(record, _context(topic)), key)
        if producer.flush(TIMEOUT_S):
            raise WrongRecordError(f"Python could not write to {topic}")

    def _read(self, topic: str) -> bytes:
        """Return a topic's first value."""
        group = {"group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self._servers, **group})
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.subscribe([topic])
            while time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    return bytes(message.value() or b"")
        finally:
            consumer.close()
        raise WrongRecordError(f"Python has read nothing of {topic}")


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)
