"""Clients of Kafka that ask for everything, in every version."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar, Final

from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import SUPPORTED
from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.sim.cluster import KAFKA_PORT
from tests.unit.gateway_walks.filling import Filler, Memory
from tests.unit.gateway_walks.speaker import HOSTILE, NAMES, Speaker

GROUPS: Final = ("g0", "g1", "s0", "s1")
WORDS: Final[dict[str, tuple[Any, ...]]] = {
    "name": NAMES,
    "topic": NAMES,
    "topic_name": NAMES,
    "group_id": GROUPS,
    "group": GROUPS,
    "key": (*GROUPS, *NAMES),
    "coordinator_keys": GROUPS,
    "transactional_id": ("tx0", "tx1", None),
    "partition_index": (0, 0, 0, 1, -1, 7),
    "partition": (0, 0, 0, 1, -1, 7),
    "index": (0, 0, 0, 1, -1, 7),
    "partitions": (0, 0, 0, 1),
    "partition_indexes": (0, 0, 1),
    "acks": (-1, -1, 1, 0),
    "timeout_ms": (0, 100, 5_000, 30_000),
    "max_wait_ms": (0, 1, 500, 60_000),
    "session_timeout_ms": (500, 6_000, 60_000),
    "rebalance_timeout_ms": (500, 6_000, 60_000),
    "protocol_type": ("consumer", "consumer", ""),
    "num_partitions": (1, 1, 2, -1),
    "replication_factor": (1, 1, -1, 3),
    "assignments": (),
    "broker_id": (1, 2, 0, -1),
    "member_id": ("", "", "m0"),
    "member_epoch": (0, 0, -1, -2, 1),
    "generation_id": (-1, 0, 1),
    "fetch_offset": (0, 0, 0, 1, 5, -1, 2**40),
    "timestamp": (-1, -2, -3, 0, 5),
    "session_id": (0, 0, 1),
    "session_epoch": (-1, 0, 0, 1),
    "share_session_epoch": (-1, 0, 0, 1),
    "acknowledge_types": (0, 1, 2, 3),
    "first_offset": (0, 0, 1, 2),
    "last_offset": (0, 1, 5),
    "current_leader_epoch": (-1, -1, 0, 5),
    "resource_type": (2, 4, 8, 32, 16, 1, 3),
    "resource_name": (*NAMES, "1", "", *GROUPS),
    "key_type": (0, 1, 2),
    "mechanism": ("PLAIN", "SCRAM-SHA-256"),
    "server_assignor": ("uniform", "range", None, "x"),
    "subscribed_topic_regex": ("walk.*", "(", "q[01]", "a{1000}", None),
    "replica_id": (-1, -1, 1),
    "entity_type": ("user", "client-id", "ip", "x"),
    "producer_id": (-1, 0, 1),
    "producer_epoch": (-1, 0, 1),
}
KEYS: Final = tuple(sorted(key for key in SUPPORTED))
OFTEN: Final = (0, 0, 0, 1, 1, 1, 3, 2, 8, 9, 10, 11, 12, 13, 14, 22, 68, 76, 78, 79)


class KafkaSpeaker(Speaker):
    port: ClassVar = KAFKA_PORT

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.memory = Memory()
        self.correlation = 0
        self.asked: dict[int, tuple[int, int]] = {}
        self.rest = b""

    def opening(self) -> bytes:
        """Make what others use, and ask for it, mostly."""
        name = self.dice.choice(NAMES)
        topic = CreatableTopic(name, self.dice.choice((1, 2)), 1, configs=[])
        said: list[tuple[int, Any]] = [
            (19, CreateTopicsRequest([topic], 5_000)),
            (3, MetadataRequest()),
        ]
        return b"".join(self.written(key, SUPPORTED[key].last, each) for key, each in said)

    def written(self, key: int, version: int, message: Any) -> bytes:
        self.correlation += 1
        frame = write_request(key, version, self.correlation, "walker", message)
        self.asked[self.correlation] = (key, version)
        if len(self.asked) > 200:
            self.asked.pop(next(iter(self.asked)))
        return bytes(frame)

    def hear(self, data: bytes) -> None:
        self.rest += data
        while len(self.rest) >= 8:
            length, correlation = struct.unpack_from(">ii", self.rest)
            if len(self.rest) < 4 + length:
                break
            body, self.rest = self.rest[4 : 4 + length], self.rest[4 + length :]
            with suppress(Exception):
                self.memory.note(read_response(memoryview(body), *self.asked.pop(correlation))[1])

    def records(self) -> bytes:
        dice = self.dice
        if self.one_in(20):
            return dice.choice((b"", b"x", b"\0" * 61))
        records = [
            Record(
                number,
                dice.choice((0, 5, -1, 1_790_000_000_000, 2**62)),
                dice.choice((None, b"", b"k", b"\xff\xfe", b"a/#")),
                dice.choice((None, b"", b"v", b"\xff" * 10)),
                tuple(
                    (
                        dice.choice((*HOSTILE, "kq-exchange", "content-type")),
                        dice.choice((None, b"", b"\xff", b"1")),
                    )
                    for _ in range(dice.choice((0, 0, 1, 3)))
                ),
            )
            for number in range(dice.choice((1, 1, 2, 5)))
        ]
        known = self.memory.known("producer_id")
        options = BatchOptions()
        if known and self.one_in(3):
            with suppress(Exception):
                options = BatchOptions(
                    producer_id=dice.choice([each for each in known if isinstance(each, int)]),
                    producer_epoch=0,
                    base_sequence=dice.choice((0, 1, 2)),
                    transactional=self.one_in(2),
                )
        return bytes(encode_batch(records, options))

    def say(self) -> bytes:
        dice = self.dice
        key = dice.choice(OFTEN) if dice.randrange(3) else dice.choice(KEYS)
        if key not in SUPPORTED:
            key = 3
        versions = SUPPORTED[key]
        version = (
            versions.last if dice.randrange(3) else dice.randint(versions.first, versions.last)
        )
        name = CODEC_VERSIONS[key][3]
        module = import_module(f"kafkaesque.protocols.kafka.messages.{name}_request")
        kind = getattr(module, "".join(each.capitalize() for each in name.split("_")) + "Request")
        words = {**WORDS, "records": tuple(self.records() for _ in range(2))}
        for is_small in (False, True, True, True):
            filler = KafkaFiller(dice, self.memory, words, is_small=is_small)
            try:
                return self.written(key, version, filler.message(kind))
            except (struct.error, ValueError, TypeError, OverflowError, AttributeError):
                continue
        return b""


class KafkaFiller(Filler):
    def plain_value(self, kind: Any, name: str, depth: int) -> Any:
        if kind is bytes and name.endswith("_id"):
            known = [each for each in self.memory.known("topic_id") if isinstance(each, bytes)]
            return (
                self.dice.choice(known)
                if known and not self.one_in(6)
                else self.dice.choice((bytes(16), b"\1" * 16))
            )
        return super().plain_value(kind, name, depth)
