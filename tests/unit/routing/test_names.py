"""Names and filters of the three grammars, with each protocol's errors."""

import re

import pytest

from kafkaesque.routing.errors import BadName, NotExpressible
from kafkaesque.routing.names import (
    AMQP,
    MANY,
    MQTT,
    NATS,
    ONE,
    FilterLevels,
    Grammar,
    Levels,
    NameFilter,
    levels_of_key,
)
from tests.documentation.table import blocks_run_by, this_file


def test_the_documented_names_are_those_of_each_grammar() -> None:
    grammars = {"MQTT": MQTT, "AMQP": AMQP, "NATS": NATS}
    (block,) = blocks_run_by(this_file(__file__), "docs/adr/0028-names-and-routing.md")
    for line in block.content.splitlines():
        found = [each.split() for each in line.split("->")]
        assert len(found) > 2, line
        assert len({grammars[word].read_name(text) for word, text in found}) == 1, line


@pytest.mark.parametrize(
    ("name", "mqtt", "amqp", "nats"),
    [
        (("a", "b"), "a/b", "a.b", "a.b"),
        (("a.b", "c"), "a.b/c", "a%2Eb.c", "a%2Eb.c"),
        (("a/b",), "a%2Fb", "a/b", "a/b"),
        (("a%2Eb",), "a%2Eb", "a%252Eb", "a%252Eb"),
        (("a%252Eb",), "a%252Eb", "a%25252Eb", "a%25252Eb"),
        (("100%",), "100%", "100%", "100%"),
        (("a", "", "b"), "a//b", "a..b", "a.%.b"),
        (("",), "%", "", "%"),
        (("%",), "%25", "%", "%25"),
        (("%25",), "%2525", "%25", "%2525"),
        (("%", "%25"), "%/%25", "%.%25", "%25.%2525"),
        (("", ""), "/", ".", "%.%"),
        (("a b", "*", "é"), "a b/*/é", "a b.*.é", "a%20b.*.é"),
        (("a+b", "#"), "a%2Bb/%23", "a+b.#", "a+b.#"),
        (("a\0b",), "a%00b", "a\0b", "a\0b"),
    ],
)
def test_a_name_in_each_grammar(name: Levels, mqtt: str, amqp: str, nats: str) -> None:
    for grammar, text in ((MQTT, mqtt), (AMQP, amqp), (NATS, nats)):
        assert grammar.write_name(name) == text
        assert grammar.read_name(text) == name
        assert grammar.key_of(text) == mqtt
    assert levels_of_key(MQTT.key_of(mqtt)) == name


@pytest.mark.parametrize(
    ("grammar", "text", "what"),
    [
        (MQTT, "", "empty"),
        (MQTT, "a/+", "'+' cannot"),
        (MQTT, "a/b#", "'#' cannot"),
        (MQTT, "a\0", "cannot be part"),
        (MQTT, "/" * 32, "32 levels"),
        (MQTT, "é" * 2049, "4096 bytes"),
        (AMQP, "é" * 128, "255 bytes"),
        (NATS, "", "empty"),
        (NATS, "a..b", "empty"),
        (NATS, ".a", "empty"),
        (NATS, "a.", "empty"),
        (NATS, "a b", "' ' cannot"),
        (NATS, "a." * 128 + "a", "128 levels"),
    ],
)
def test_texts_that_are_no_names(grammar: Grammar, text: str, what: str) -> None:
    for read in (grammar.read_name, grammar.key_of):
        with pytest.raises(BadName, match=re.escape(what)):
            read(text)


@pytest.mark.parametrize(
    ("grammar", "text", "levels"),
    [
        (MQTT, "a/+/#", ("a", ONE, MANY)),
        (MQTT, "#", (MANY,)),
        (MQTT, "/", ("", "")),
        (MQTT, "a.b/*", ("a.b", "*")),
        (MQTT, "$SYS/#", ("$SYS", MANY)),
        (AMQP, "", ("",)),
        (AMQP, "a.#.b", ("a", MANY, "b")),
        (AMQP, "#.#.*.b", (ONE, MANY, "b")),
        (AMQP, "a*.b#", ("a*", "b#")),
        (AMQP, "a%2Eb.*", ("a.b", ONE)),
        (NATS, "a.>", ("a", ONE, MANY)),
        (NATS, ">", (ONE, MANY)),
        (NATS, "a.b*", ("a", "b*")),
        (NATS, "a.%.*", ("a", "", ONE)),
    ],
)
def test_filters(grammar: Grammar, text: str, levels: FilterLevels) -> None:
    assert grammar.read_filter(text).levels == levels


@pytest.mark.parametrize(
    ("grammar", "text", "what"),
    [
        (MQTT, "", "empty"),
        (MQTT, "a/#/b", "last level"),
        (MQTT, "a+/b", "all of a level"),
        (MQTT, "a/b#", "all of a level"),
        (MQTT, "a\0", "cannot be part"),
        (NATS, "a.>.b", "last level"),
        (NATS, "a..b", "empty"),
        (NATS, "a.b\t", "cannot be part"),
        (AMQP, "a" * 256, "255 bytes"),
    ],
)
def test_texts_that_are_no_filters(grammar: Grammar, text: str, what: str) -> None:
    with pytest.raises(BadName, match=re.escape(what)):
        grammar.read_filter(text)


@pytest.mark.parametrize(
    ("levels", "mqtt", "amqp", "nats"),
    [
        (("a", MANY), ("a/#",), ("a.#",), ("a", "a.>")),
        ((MANY,), ("#",), ("#",), (">",)),
        ((ONE, MANY), ("+/#",), ("*.#",), (">",)),
        (("a", ONE, ONE, MANY), ("a/+/+/#",), ("a.*.*.#",), ("a.*.>",)),
        (("a.b", ONE, ""), ("a.b/+/",), ("a%2Eb.*.",), ("a%2Eb.*.%",)),
    ],
)
def test_one_protocols_filter_in_the_others(
    levels: FilterLevels, mqtt: tuple[str, ...], amqp: tuple[str, ...], nats: tuple[str, ...]
) -> None:
    name_filter = NameFilter(levels=levels)
    assert MQTT.write_filters(name_filter) == mqtt
    assert AMQP.write_filters(name_filter) == amqp
    assert NATS.write_filters(name_filter) == nats


def test_filters_that_only_one_protocol_has() -> None:
    inner = AMQP.read_filter("a.#.b")
    for grammar in (MQTT, NATS):
        with pytest.raises(NotExpressible, match="but at the end"):
            grammar.write_filters(inner)
    star = MQTT.read_filter("a/*")
    for grammar in (AMQP, NATS):
        with pytest.raises(NotExpressible, match="always a wildcard"):
            grammar.write_filters(star)


def test_a_name_that_is_not_utf_8_stays_within_protocols_that_allow_it() -> None:
    text = b"a.\xff".decode(errors="surrogateescape")
    name = AMQP.read_name(text)
    assert NATS.write_name(name) == text
    with pytest.raises(NotExpressible, match="not UTF-8"):
        MQTT.write_name(name)


def test_only_mqtts_wildcards_pass_over_dollar_names() -> None:
    name = ("$SYS", "uptime")
    assert not MQTT.read_filter("#").matches(name)
    assert not MQTT.read_filter("+/uptime").matches(name)
    assert MQTT.read_filter("$SYS/#").matches(name)
    assert AMQP.read_filter("#").matches(name)
    assert NATS.read_filter(">").matches(name)
