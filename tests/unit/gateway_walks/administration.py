"""Clients of the admin API, of RabbitMQ's and of the schema registry: all that there is to ask."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final
from unittest.mock import MagicMock
from urllib.parse import quote, urlencode

from kafkaesque.admin.api.api import make_routes as make_admin_routes
from kafkaesque.admin.api.calls import Route
from kafkaesque.admin.api.router import ROOT
from kafkaesque.admin.rabbitmq.api import RabbitMqApi
from kafkaesque.gateway.registry.routes import make_routes
from kafkaesque.sim.cluster import ADMIN_PORT, REGISTRY_PORT
from tests.unit.gateway_walks.http import HttpSpeaker
from tests.unit.gateway_walks.speaker import NAMES

#: For everything that stands in paths, queries and bodies of the admin ports.
ADMIN_WORDS: Final[dict[str, tuple[Any, ...]]] = {
    "vhost": ("/", "/", "v1"),
    "host": ("/",),
    "queue": NAMES,
    "topic": NAMES,
    "exchange": ("e1", "amq.topic", "amq.default", "q0"),
    "name": (*NAMES, "e1"),
    "source": ("e1", "amq.topic", ""),
    "destination": ("q0", "e1"),
    "destination_type": ("q", "e", "queue", "exchange"),
    "type": ("direct", "topic", "fanout", "headers", "classic", "quorum", "stream"),
    "group": ("g0", "g1", "s0"),
    "partition": (0, 0, 1, 7),
    "user": ("guest", "u1"),
    "broker": (1, 2, "1"),
    "limit": (0, 1, 10, 1_000, -1),
    "offset": (0, 1, 5, 10**19),
    "count": (0, 1, 5),
    "ackmode": ("ack_requeue_true", "reject_requeue_false", "ack_requeue_false", "x"),
    "encoding": ("auto", "base64"),
    "payload_encoding": ("string", "base64", "x"),
    "payload": ("x", "YQ==", "\u00e9"),
    "routing_key": NAMES,
    "apply_to": ("all", "queues", "x"),
    "apply-to": ("all", "queues", "exchanges"),
    "pattern": ("^q", "(", ".*", "(a+)+$"),
    "configure": (".*", "("),
    "write": (".*",),
    "read": (".*",),
    "props": ("~", "q0", "%7E"),
    "kind": ("queue", "topic"),
    "wait_ms": (0, 10, 5_000, 60_000),
    "durable": (True, False),
    "cleanup": ("delete",),
    "since": (0, -1, "2026-01-01T00:00:00Z"),
    "from": (0, "earliest", "latest", "x"),
    "start": (0, "earliest", "latest", 5),
    "tags": ("administrator", "", "monitoring"),
    "password": ("p", ""),
}


def _rabbit_paths() -> list[tuple[str, str]]:
    """Return methods and paths."""
    rabbit = RabbitMqApi(MagicMock(), lambda _: None)
    return [(route.method, route.path) for _, route in rabbit._routes]


def _registry_paths() -> list[tuple[str, str]]:
    routes = make_routes(MagicMock(), MagicMock())
    return [(route.method, "/" + "/".join(route.path)) for route in routes]


def _admin_routes() -> list[Route]:
    return make_admin_routes(MagicMock(), MagicMock(), MagicMock(), MagicMock())


class PathSpeaker(HttpSpeaker):
    """Asks at paths with names in braces."""

    words: ClassVar = ADMIN_WORDS

    def path(self, template: str) -> str:
        def named(found: re.Match[str]) -> str:
            value = str(self.fill.value(str, found[1]))
            if self.one_in(20):
                return value.replace(" ", "").replace("\n", "").replace("\r", "")
            return quote(value.encode("utf-8", "replace"), safe="")

        return re.sub(r"\{(\w+)\}", named, template)

    def query(self, found: dict[str, Any]) -> str:
        flat = {
            key: [str(each).encode("utf-8", "replace") for each in value]
            if isinstance(value, list)
            else str(value).encode("utf-8", "replace")
            for key, value in found.items()
            if value is not None
        }
        text = urlencode(flat, doseq=True)
        return f"?{text}" if text else ""


class AdminSpeaker(PathSpeaker):
    port: ClassVar = ADMIN_PORT
    streams_on: ClassVar = True
    routes: ClassVar = tuple(_admin_routes())

    def say(self) -> bytes:
        dice = self.dice
        if self.one_in(10):
            page = dice.choice(
                (
                    "/metrics",
                    "/health/live",
                    "/health/ready",
                    "/brokers",
                    "/controllers",
                    "/members",
                    "/offline-replicas",
                    "/recoveries",
                    "/",
                    "/api/v1/openapi.json",
                    "/x",
                )
            )
            return self.request(dice.choice(("GET", "GET", "HEAD", "POST")), page, None)
        route = dice.choice(self.routes)
        target = ROOT + self.path(route.path)
        if self.one_in(2):
            target += self.query(self.fill.struct(route.query))
        body = None
        if route.body is not None:
            body = self.json(self.fill.value(route.body, "body"))
        return self.request(
            route.method,
            target,
            body,
            Content_Type="application/json",
            X_Kafkaesque_Request="1",
            Sec_Fetch_Site="same-origin",
        )


RABBIT_BODY: Final = (
    "name type durable auto_delete internal arguments routing_key payload payload_encoding "
    "properties count ackmode encoding truncate pattern definition priority apply-to password "
    "password_hash tags configure write read vhost user users vhosts permissions policies queues "
    "exchanges bindings source destination destination_type action"
).split()
ARGUMENTS: Final = (
    "x-max-length",
    "x-message-ttl",
    "x-queue-type",
    "x-dead-letter-exchange",
    "max-length",
    "message-ttl",
    "a",
    "x-match",
)


class RabbitSpeaker(PathSpeaker):
    port: ClassVar = ADMIN_PORT
    paths: ClassVar = tuple(_rabbit_paths())

    def say(self) -> bytes:
        dice = self.dice
        method, template = dice.choice(self.paths)
        target = "/rabbitmq/api" + self.path(template)
        if self.one_in(4):
            names = (
                "page",
                "page_size",
                "name",
                "use_regex",
                "columns",
                "sort",
                "sort_reverse",
                "if-unused",
                "if-empty",
                "disable_stats",
                "lengths_age",
                "pagination",
            )
            said = {
                dice.choice(names): dice.choice(
                    ("1", "0", "true", "x", "name", "(", "500", "-1", "a.b,c")
                )
                for _ in range(2)
            }
            target += self.query(said)
        body = None if method == "GET" else self.json(self.values())
        return self.request(
            method,
            target,
            body,
            Content_Type="application/json",
            Authorization="Basic Z3Vlc3Q6Z3Vlc3Q=",
        )

    def values(self, depth: int = 0) -> dict[str, Any]:
        return {
            each: self.value(each, depth)
            for each in self.dice.sample(RABBIT_BODY, self.dice.choice((0, 3, 8, 20)))
        }

    def value(self, name: str, depth: int) -> Any:
        dice = self.dice
        if self.one_in(25):
            return dice.choice((None, 1, [], {}, "x", 1.5, True, -1, 2**70))
        if name in ("arguments", "definition", "properties"):
            some: tuple[Any, ...] = ("x", 5, 1_000, "quorum", None, True, [1], {"a": []}, -1, 2**63)
            return {
                dice.choice(
                    (*ARGUMENTS, "headers", "delivery_mode", "expiration", "priority")
                ): dice.choice(some)
                for _ in range(dice.randrange(3))
            }
        if name in (
            "users",
            "vhosts",
            "permissions",
            "policies",
            "queues",
            "exchanges",
            "bindings",
        ):
            return [] if depth else [self.values(1) for _ in range(dice.randrange(3))]
        if name in ("durable", "auto_delete", "internal"):
            return self.one_in(2)
        if name in ("count", "truncate", "priority"):
            return dice.choice((0, 1, 5, -1))
        return self.fill.value(str, name)


SCHEMAS: Final = (
    '"string"',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}',
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","R"],"default":null}]}',
    '{"type":"object"}',
    '{"$ref":"#/x"}',
    'syntax = "proto3"; message A { string a = 1; }',
    'syntax = "proto3"; import "b.proto"; message A { B a = 1; }',
    "x",
    "",
    "[" * 300,
)


class RegistrySpeaker(PathSpeaker):
    port: ClassVar = REGISTRY_PORT
    paths: ClassVar = tuple(_registry_paths())
    words: ClassVar = {
        "subject": ("s0", "s1", "s2", ":.ctx:s0", "q0-value"),
        "version": ("1", "2", "latest", "-1", "0", "x", "99999999999"),
        "id": ("1", "2", "0", "x", "99999999999"),
    }

    def say(self) -> bytes:
        dice = self.dice
        method, template = (
            dice.choice(self.paths)
            if dice.randrange(3)
            else ("POST", "/subjects/{subject}/versions")
        )
        target = self.path(template)
        if self.one_in(4):
            names = (
                "deleted",
                "permanent",
                "normalize",
                "format",
                "subjectPrefix",
                "latestOnly",
                "offset",
                "limit",
                "fetchMaxId",
                "verbose",
                "defaultToGlobal",
                "force",
                "deletedOnly",
            )
            target += self.query(
                {
                    dice.choice(names): dice.choice(
                        ("true", "false", "1", "-1", "x", "", "resolved")
                    )
                    for _ in range(2)
                }
            )
        body = None
        if method in ("POST", "PUT"):
            found: dict[str, Any] = {"schema": dice.choice(SCHEMAS)}
            if "config" in template:
                found = {
                    "compatibility": dice.choice(
                        ("NONE", "FULL", "BACKWARD_TRANSITIVE", "x", None)
                    ),
                    "normalize": self.one_in(2),
                }
            elif "mode" in template:
                found = {"mode": dice.choice(("READWRITE", "READONLY", "IMPORT", "x"))}
            if self.one_in(2):
                found["schemaType"] = dice.choice(("AVRO", "JSON", "PROTOBUF", "x", None))
            if self.one_in(4):
                found["references"] = [
                    {
                        "name": dice.choice(("R", "b.proto", "#/x", "")),
                        "subject": dice.choice(("s0", "s1", "none")),
                        "version": dice.choice((1, 2, -1, 10**12)),
                    }
                ]
            if self.one_in(8):
                found |= {"id": dice.choice((1, 5, -1, 2**40)), "version": dice.choice((1, -1, 7))}
            body = self.json(found)
        return self.request(
            method, target, body, Content_Type="application/vnd.schemaregistry.v1+json"
        )
