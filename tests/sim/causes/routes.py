"""Causes at exchanges: a message goes nowhere, or a filter does not want it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.sim.causes.ground import CauseGround
from tests.sim.causes.table import HEALTHY, Case, injects


def exchange(ground: CauseGround, kind: str, **more: Any) -> str:
    """Make an exchange."""
    name = ground.name("logs")
    body = {"name": name, "type": kind, **more}
    assert ground.ask("POST", "/exchanges", body).status == 201
    return name


def bind(ground: CauseGround, name: str, key: str, arguments: Any = None) -> str:
    """Bind a new queue; return its name."""
    queue = ground.queue("errors").queue.name
    body = {"to": "queue", "destination": queue, "key": key}
    if arguments:
        body["arguments"] = json.dumps(arguments)
    told = ground.ask("POST", f"/exchanges/{name}/bind", body)
    assert told.status == 200, told.body
    return queue


def of_route(cause: str, name: str, key: str, says: str = "", **headers: Any) -> Case:
    """Return a case about a message that is published to an exchange."""
    query = {"key": key, "headers": json.dumps(headers)} if headers else {"key": key}
    return Case(cause=cause, path=f"exchanges/{name}", query=query, says=says)


@injects(HEALTHY)
def a_message_with_a_binding(ground: CauseGround, random: Random) -> Case:
    name = exchange(ground, "topic")
    bind(ground, name, "*.error")
    return of_route("", name, f"{random.choice(['db', 'web'])}.error")


@injects("unroutable")
def no_binding_has_the_key(ground: CauseGround, random: Random) -> Case:
    kind = random.choice(["topic", "direct"])
    name = exchange(ground, kind)
    bind(ground, name, "db.error")
    key = random.choice(["db.notice", "web.error", "db", ""])
    return of_route("unroutable", name, key, name)


@injects("unroutable")
def no_queue_has_the_name(ground: CauseGround, random: Random) -> Case:
    return of_route("unroutable", "amq.default", ground.name("nowhere"))


@injects("unroutable")
def no_binding_has_the_headers(ground: CauseGround, random: Random) -> Case:
    name = exchange(ground, "headers")
    bind(ground, name, "", {"x-match": "all", "kind": "order", "size": 7})
    return of_route("unroutable", name, "", name, kind="order", size=random.randrange(7))


@injects("unroutable")
def its_alternate_does_not_have_it_either(ground: CauseGround, random: Random) -> Case:
    other = exchange(ground, "direct")
    name = exchange(ground, "direct", arguments=json.dumps({"alternate-exchange": other}))
    bind(ground, other, "rest")
    return of_route("unroutable", name, ground.name("key"), other)


@injects("filter")
def of_a_binding(ground: CauseGround, random: Random) -> Case:
    name = exchange(ground, "topic")
    queue = bind(ground, name, "*.warning", {"x-filter": "severity > 5"})
    bind(ground, name, "*.error")
    return of_route("filter", name, "db.warning", queue, severity=random.randrange(6))


@injects("filter")
def of_every_binding_that_has_the_key(ground: CauseGround, random: Random) -> Case:
    name = exchange(ground, "fanout")
    queue = bind(ground, name, "", {"x-filter": "region = 'eu'"})
    bind(ground, name, "", {"x-filter": "size BETWEEN 5 AND 9"})
    return of_route("filter", name, "", queue, region="us", size=random.randrange(5))
