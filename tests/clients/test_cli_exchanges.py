"""`kafkaesque exchange`, `binding` and `vhost`, and what docs/exchanges.md shows of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.kafka_helpers import unique
from tests.clients.test_cli import Cli, cli
from tests.documentation.table import blocks_run_by, this_file

__all__ = ["cli"]

PAGE = Path(__file__).parents[2] / "docs" / "exchanges.md"


def _examples() -> Iterator[tuple[list[str], str]]:
    for block in re.findall(r"^```\n(\$ .*?)^```", PAGE.read_text(), re.M | re.S):
        for part in re.split(r"^\$ kafkaesque ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield shlex.split(command), output


def test_the_page_shows_what_commands_print(cli: Cli) -> None:
    examples = list(_examples())
    shown = sum(
        each.content.count("\n$ ") + 1
        for each in blocks_run_by(this_file(__file__), "docs/exchanges.md")
    )
    assert len(examples) == shown
    assert len(examples) > 10
    for words, output in examples:
        assert cli(*words).output == output, words
    for queue in ("errors", "everything", "failed", "work", "measured-onward"):
        cli("queue", "delete", queue, "--yes")
    cli("topic", "delete", "measured", "notices", "--yes")
    cli("exchange", "delete", "logs")
    cli("exchange", "delete", "notices")
    assert cli("binding", "list").rows[1:] == []


def test_exchanges_are_made_shown_and_deleted(cli: Cli) -> None:
    name, queue = unique("orders"), unique("paid")
    cli("queue", "create", queue)
    made = cli(
        "exchange", "create", name, "-t", "headers", "-a", "alternate-exchange=amq.fanout", "--json"
    )
    assert made.document["arguments"] == {"alternate-exchange": "amq.fanout"}
    binding = ("-a", "state=paid", "-a", "x-match=all", "--queue", queue)
    cli("binding", "create", name, *binding)
    shown = cli("exchange", "describe", name, "--json").document
    assert shown["arguments"] == "alternate-exchange=amq.fanout"
    assert shown["bindings"] == [
        {"key": "", "to": "queue", "name": queue, "arguments": "state=paid, x-match=all"}
    ]
    sent = cli("exchange", "publish", name, "a", "b", "-H", "state=paid", "--json")
    assert sent.document == {"published": 2, "destinations": [1, 1]}
    lost = cli("exchange", "publish", name, "c", "-H", "state=new")
    assert "nobody has it" in lost.errors
    assert cli("queue", "get", queue, "--count", "2").output == "a\nb\n"
    assert "in use" in cli("exchange", "delete", name, "--if-unused", code=1).errors
    cli("binding", "delete", name, *binding)
    cli("exchange", "delete", name, "--if-unused")
    assert "does not exist" in cli("exchange", "describe", name, code=1).errors


def test_arguments_and_headers_are_read_alike(cli: Cli) -> None:
    name, number, text = unique("sizes"), unique("number"), unique("text")
    cli("exchange", "create", name, "-t", "headers")
    for queue, argument in ((number, "size=7"), (text, 'size="7"')):
        cli("queue", "create", queue)
        cli("binding", "create", name, "-a", argument, "--queue", queue)
    shown = cli("exchange", "describe", name, "--json").document["bindings"]
    assert {each["arguments"] for each in shown} == {"size=7", 'size="7"'}
    cli("exchange", "publish", name, "a", "-H", "size=7", "-H", "kind=order")
    cli("exchange", "publish", name, "b", "-H", 'size="7"', "-H", "kind=order")
    assert cli("queue", "get", number, "--count", "2").output == "a\n"
    (message,) = cli("queue", "get", text, "--count", "2", "--json").messages
    assert (message["value"], message["headers"]) == ("b", [["size", "7"], ["kind", "order"]])
    large = cli("exchange", "publish", name, "c", "-H", f"size={2**70}", code=2)
    assert "--header" in large.errors
    cli("exchange", "delete", name)
    cli("queue", "delete", number, text, "--yes")


def test_a_topic_gets_what_it_is_bound_for(cli: Cli) -> None:
    name = unique("archive")
    cli("topic", "create", name)
    cli("exchange", "create", name, "--type", "fanout")
    cli("binding", "create", name, "--topic", name)
    cli("exchange", "publish", name, "-k", "some.key", "hello")
    consumed = cli("consume", name, "--from-beginning", "--max", "1", "--json")
    (message,) = consumed.messages
    assert (message["key"], message["value"]) == ("some.key", "hello")
    # The page lists all bindings of the cluster that these tests share.
    cli("exchange", "delete", name)


def test_virtual_hosts(cli: Cli) -> None:
    name = unique("shop")
    cli("vhost", "create", name)
    cli("queue", "create", "mine", "--vhost", name)
    cli("exchange", "publish", "amq.default", "-k", "mine", "hello", "--vhost", name)
    assert cli("queue", "get", "mine", "--vhost", name).output == "hello\n"
    assert [name, "6", "0"] in cli("vhost", "list").rows
    cli("vhost", "delete", name, code=2)
    cli("vhost", "delete", name, "--yes")
    assert "not found" in cli("vhost", "delete", name, "--yes", code=1).errors
    assert "not found" in cli("exchange", "list", "--vhost", name, code=1).errors


def test_rules_for_exchanges_and_virtual_hosts_show_what_they_are_for(cli: Cli) -> None:
    rule = ("rule", "create", "User:app", "-o", "write", "--dry-run")
    assert "amq.topic" in cli(*rule, "--exchange", "amq.", "--prefix").output
    assert "no existing exchange" in cli(*rule, "--exchange", "no-such").output
    assert "/" in cli(*rule, "--vhost", "/").output


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("exchange", "create", "x", "--type", "none"), "unknown exchange type", 2),
        (("exchange", "create", "amq.x"), "reserved prefix", 1),
        (("exchange", "publish", "no-such", "x"), "no exchange", 1),
        (("binding", "create", "amq.topic"), "give one of", 2),
        (("binding", "create", "amq.topic", "--queue", "no-such"), "no queue", 1),
        (("binding", "create", "amq.topic", "-a", "x", "--queue", "q"), "--argument", 2),
    ],
)
def test_what_cannot_be_is_said(cli: Cli, words: tuple[str, ...], said: str, code: int) -> None:
    assert said in cli(*words, code=code).errors


@pytest.mark.extended
def test_names_of_mqtt_are_routed_to_topics(cli: Cli) -> None:
    topic, prefix = unique("readings"), unique("house")
    cli("topic", "create", topic, "--partitions", "8")
    made = cli("route", "create", f"{prefix}/kitchen", topic, "--levels", "2")
    assert made.output == f"{prefix}/kitchen/# goes to topic {topic}\n"
    rows = cli("route", "list", "--json").document
    route = {"names": f"{prefix}/kitchen/#", "topic": topic, "levels": 2, "beside": False}
    assert route in rows
    found = cli("route", "test", f"{prefix}/kitchen/heat", "--json").document
    assert {
        "kind": "topic",
        "name": topic,
        "names": f"{prefix}/kitchen/#",
        "condition": "",
    } in found
    for number in range(8):
        cli("exchange", "publish", "amq.topic", "x", "--key", f"{prefix}.kitchen.{number}")
    read = cli("consume", topic, "--from-beginning", "--max", "8", "--json").messages
    assert len({each["partition"] for each in read}) == 1
    assert {each["key"] for each in read} == {f"{prefix}.kitchen.{number}" for number in range(8)}
    cli("route", "create", f"{prefix}/kitchen/debug", "--live-only")
    debug = f"{prefix}/kitchen/debug/x"
    (found,) = cli("route", "test", debug, "--json").document
    assert (found["kind"], found["names"]) == ("live only", f"{prefix}/kitchen/debug/#")
    cli("exchange", "publish", "amq.topic", "x", "--key", debug.replace("/", "."))
    cli("exchange", "publish", "amq.topic", "x", "--key", f"{prefix}.kitchen.last")
    read = cli("consume", topic, "--from-beginning", "--max", "9", "--json").messages
    assert read[-1]["key"] == f"{prefix}.kitchen.last"
    cli("route", "create", f"{prefix}/kitchen/debug", topic)
    again = cli("route", "create", f"{prefix}/kitchen/debug", "--live-only", code=1)
    assert f"{prefix}/kitchen/debug/# still goes to topic {topic}" in again.errors
    cli("route", "delete", f"{prefix}/kitchen/debug", topic)
    cli("route", "create", f"{prefix}/kitchen/debug", "--live-only")
    gone = cli("route", "delete", f"{prefix}/kitchen/debug", "--live-only")
    assert gone.output == f"no route says that {prefix}/kitchen/debug/# is live only\n"
    assert topic in [each["name"] for each in cli("route", "test", debug, "--json").document]
    cli("route", "create", f"{prefix}/kitchen", topic)
    rows = cli("route", "list", "--json").document
    assert [each["levels"] for each in rows if each["topic"] == topic] == ["all"]
    assert "name a topic, or say --live-only" in cli("route", "create", "a", code=2).errors
    assert "no topic" in cli("route", "create", "a", "no-such-topic", code=1).errors
    assert "is no name" in cli("route", "test", "a/#", code=2).errors
    cli("route", "delete", f"{prefix}/kitchen", topic)
    left = cli("route", "test", f"{prefix}/kitchen/heat", "--json").document
    assert topic not in [each["name"] for each in left]
