"""Clients of NATS and JetStream."""

from __future__ import annotations

import json
import random
import re
from typing import Any, ClassVar, Final

from kafkaesque.gateway.nats.jetstream.configs import ConsumerConfig, StreamConfig
from kafkaesque.gateway.nats.jetstream.pulling import PullRequest
from kafkaesque.sim.cluster import NATS_PORT
from tests.unit.gateway_walks.filling import Filler, Memory
from tests.unit.gateway_walks.speaker import Speaker

SUBJECTS: Final = ("walk.a", "walk.b", "q0", "walk.a.b", "q1", "s0", "s1", "s.0.a", "in.1")
FILTERS: Final = (
    *SUBJECTS,
    ">",
    "*",
    "walk.>",
    "*.a",
    "walk.*",
    "s.*",
    "s.>",
    "$JS.EVENT.>",
    "_INBOX.>",
)
STREAMS: Final = ("S0", "S1", "S2")
CONSUMERS: Final = ("C0", "C1", "C2")
SECOND: Final = 1_000_000_000
WORDS: Final[dict[str, tuple[Any, ...]]] = {
    "name": STREAMS,
    "stream_name": STREAMS,
    "durable_name": (*CONSUMERS, None),
    "subjects": ("s.>", "s.a", "walk.>", "walk.a", "*.b"),
    "retention": ("limits", "workqueue", "interest"),
    "storage": ("file", "memory"),
    "discard": ("old", "new"),
    "num_replicas": (0, 1, 1, 3),
    "max_age": (0, SECOND, 10 * SECOND),
    "max_msgs": (-1, 0, 1, 5),
    "duplicate_window": (0, SECOND, 100_000_000),
    "filter_subject": FILTERS,
    "filter_subjects": FILTERS,
    "filter": FILTERS,
    "deliver_policy": (
        "all",
        "last",
        "new",
        "by_start_sequence",
        "by_start_time",
        "last_per_subject",
    ),
    "ack_policy": ("none", "all", "explicit", "explicit"),
    "replay_policy": ("instant",),
    "ack_wait": (1, SECOND, 30 * SECOND),
    "backoff": (SECOND, 1),
    "max_deliver": (-1, 1, 2),
    "opt_start_time": ("2026-01-01T00:00:00Z", "x", None),
    "pause_until": ("2036-01-01T00:00:00Z", "x", None),
    "idle_heartbeat": (None, 100_000_000, SECOND, 30 * SECOND),
    "deliver_subject": (None, None, "in.1", "in.2", "s.a"),
    "deliver_group": (None, "g"),
    "inactive_threshold": (None, SECOND, 10 * SECOND),
    "expires": (0, SECOND, 10 * SECOND, 100_000_000),
    "batch": (0, 1, 5, 100),
    "compression": ("none", "s2"),
    "rate_limit_bps": (None,),
    "sample_freq": (None, "100"),
    "republish": (None,),
    "subject_transform": (None,),
    "src": FILTERS,
    "dest": ("x.{{wildcard(1)}}", "x", ">", "x.>"),
    "action": ("create", "update", ""),
}


class NatsSpeaker(Speaker):
    port: ClassVar = NATS_PORT

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.acks: list[str] = []
        self.rest = b""
        self.memory = Memory()

    def opening(self) -> bytes:
        dice = self.dice
        options = {
            "verbose": self.one_in(6),
            "pedantic": self.one_in(4),
            "headers": dice.randrange(8) > 0,
            "no_responders": dice.randrange(4) > 0,
            "echo": dice.randrange(5) > 0,
            "protocol": 1,
        }
        subscribed = b"SUB _INBOX.> 90\r\n" if dice.randrange(3) else b""
        said = b"CONNECT " + json.dumps(options).encode() + b"\r\n" + subscribed
        return said + self.made() if self.one_in(2) else said

    def made(self) -> bytes:
        """A stream with a consumer, of which one is pulled and one is pushed."""
        dice = self.dice
        name, consumer = dice.choice((("S0", "C0"), ("S1", "C1")))
        stream = {"name": name, "subjects": [f"s.{name[-1]}.>", f"s{name[-1]}"], "storage": "file"}
        config: dict[str, Any] = {"durable_name": consumer, "ack_policy": "explicit"}
        if name == "S1":
            config["deliver_subject"] = "_INBOX.push"
        wanted = {"stream_name": name, "config": config}
        api = "$JS.API."
        subject = f"{api}CONSUMER.DURABLE.CREATE.{name}.{consumer}"
        return (
            self.publish(f"{api}STREAM.CREATE.{name}", json.dumps(stream).encode(), "_INBOX.1")
            + self.publish(subject, json.dumps(wanted).encode(), "_INBOX.1")
            + self.publish(f"s{name[-1]}", b"x", "_INBOX.1")
        )

    def hear(self, data: bytes) -> None:
        self.rest = (self.rest + data)[-50_000:]
        for found in re.finditer(rb"(\$JS\.ACK\.\S+)", self.rest):
            self.acks.append(found[1].decode(errors="replace"))
        for found in re.finditer(rb"(\{.*\})\r\n", self.rest):
            try:
                self.memory.note(json.loads(found[1]))
            except ValueError:
                continue
        self.rest = b""

    def subject(self) -> str:
        if self.one_in(15):
            return self.word().replace(" ", "_").replace("\r", "").replace("\n", "") or "a"
        return self.dice.choice(SUBJECTS)

    def publish(self, subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> bytes:
        if headers:
            line = f"HPUB {subject} {reply} {len(headers)} {len(headers) + len(payload)}\r\n"
        else:
            line = f"PUB {subject} {reply} {len(payload)}\r\n"
        return line.encode() + headers + payload + b"\r\n"

    def headers(self) -> bytes:
        dice = self.dice
        lines = [
            f"{dice.choice(NAMES_OF_HEADERS)}: {dice.choice(VALUES_OF_HEADERS)}"
            for _ in range(dice.choice((0, 1, 1, 3)))
        ]
        if self.one_in(6):
            lines.append(f"{self.word()}:{self.word()}")
        return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()

    def say(self) -> bytes:
        dice = self.dice
        choice = dice.randrange(100)
        reply = dice.choice(("", "", "_INBOX.1", "walk.b", "in.1"))
        if choice < 22:
            headers = self.headers() if self.one_in(3) else b""
            return self.publish(self.subject(), self.body(), reply, headers)
        if choice < 36:
            group = dice.choice(("", "", "g", "h"))
            found = dice.choice(FILTERS) if dice.randrange(12) else self.subject()
            return f"SUB {found} {group} {dice.randrange(1, 9)}\r\n".encode()
        if choice < 42:
            most = dice.choice(("", "", "1", "5"))
            return f"UNSUB {dice.randrange(1, 9)} {most}\r\n".encode()
        if choice < 45:
            return dice.choice(
                (b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'x'\r\n", b"INFO {}\r\n")
            )
        if choice == 45:
            return self.opening()
        if choice < 58 and self.acks:
            word = dice.choice(
                (
                    b"+ACK",
                    b"",
                    b"-NAK",
                    b"+TERM",
                    b"+WPI",
                    b"+NXT 2",
                    b'+NXT {"batch":2}',
                    b'-NAK {"delay":1000}',
                    b"+TERM x",
                    b"x",
                    b'-NAK {"delay":-1}',
                )
            )
            return self.publish(dice.choice(self.acks[-20:]), word, reply)
        return self.api()

    def api(self) -> bytes:
        dice = self.dice
        stream, consumer = dice.choice(STREAMS), dice.choice(CONSUMERS)
        if self.one_in(20):
            stream = self.subject()
        fill = Filler(dice, self.memory, WORDS)
        name, suffix, body = dice.choice(REQUESTS)
        payload: Any = {}
        if body == "stream":
            payload = fill.struct(StreamConfig)
            payload["name"] = stream
            payload.pop("republish", None), payload.pop("subject_transform", None)
            if dice.randrange(3):
                payload.pop("mirror", None), payload.pop("sources", None)
        elif body == "consumer":
            config = fill.struct(ConsumerConfig)
            config.setdefault("ack_policy", "explicit")
            if self.one_in(2):
                config["durable_name"] = consumer
            if self.one_in(2):
                config["name"] = consumer
            payload = {
                "stream_name": stream,
                "config": config,
                "action": dice.choice(("", "create", "update")),
            }
        elif body == "pull":
            payload = fill.struct(PullRequest)
        elif body:
            payload = {
                key: fill.value(int if key in NUMERIC else str, key)
                for key in body.split()
                if not self.one_in(3)
            }
        raw = json.dumps(payload).encode() if payload or self.one_in(2) else b""
        if self.one_in(40):
            raw = dice.choice((b"x", b"[]", b"5", b'"x"', b"null", b"{", b"[" * 100))
        subject = f"$JS.API.{name}" + suffix.format(
            stream=stream, consumer=consumer, subject=self.subject()
        )
        return self.publish(subject, raw, dice.choice(("_INBOX.1", "_INBOX.1", "in.1", "")))


NUMERIC: Final = ("seq", "keep", "offset", "next_by_seq", "no_erase", "batch")
NAMES_OF_HEADERS: Final = (
    "Nats-Msg-Id",
    "Nats-Expected-Stream",
    "Nats-Expected-Last-Sequence",
    "Nats-Expected-Last-Subject-Sequence",
    "Nats-Expected-Last-Msg-Id",
    "Nats-Rollup",
    "Nats-TTL",
    "A",
    "Status",
)
VALUES_OF_HEADERS: Final = ("1", "0", "5", "x", "all", "sub", "S0", "")
REQUESTS: Final = (
    ("INFO", "", ""),
    ("STREAM.CREATE", ".{stream}", "stream"),
    ("STREAM.CREATE", ".{stream}", "stream"),
    ("STREAM.CREATE", ".{stream}", "stream"),
    ("STREAM.UPDATE", ".{stream}", "stream"),
    ("STREAM.DELETE", ".{stream}", ""),
    ("STREAM.INFO", ".{stream}", "offset subjects_filter"),
    ("STREAM.NAMES", "", "offset subject"),
    ("STREAM.LIST", "", "offset subject"),
    ("STREAM.PURGE", ".{stream}", "filter seq keep"),
    ("STREAM.MSG.GET", ".{stream}", "seq last_by_subj next_by_subj"),
    ("STREAM.MSG.DELETE", ".{stream}", "seq no_erase"),
    ("DIRECT.GET", ".{stream}", "seq last_by_subj next_by_subj batch"),
    ("DIRECT.GET", ".{stream}.{subject}", ""),
    ("CONSUMER.CREATE", ".{stream}", "consumer"),
    ("CONSUMER.CREATE", ".{stream}.{consumer}", "consumer"),
    ("CONSUMER.CREATE", ".{stream}.{consumer}.{subject}", "consumer"),
    ("CONSUMER.DURABLE.CREATE", ".{stream}.{consumer}", "consumer"),
    ("CONSUMER.DURABLE.CREATE", ".{stream}.{consumer}", "consumer"),
    ("CONSUMER.DELETE", ".{stream}.{consumer}", ""),
    ("CONSUMER.INFO", ".{stream}.{consumer}", ""),
    ("CONSUMER.NAMES", ".{stream}", "offset"),
    ("CONSUMER.LIST", ".{stream}", "offset"),
    ("CONSUMER.MSG.NEXT", ".{stream}.{consumer}", "pull"),
    ("CONSUMER.MSG.NEXT", ".{stream}.{consumer}", "pull"),
    ("CONSUMER.MSG.NEXT", ".{stream}.{consumer}", "pull"),
    ("CONSUMER.PAUSE", ".{stream}.{consumer}", "pause_until"),
    ("STREAM.PEER.REMOVE", ".{stream}", ""),
    ("X", ".{stream}", ""),
)
