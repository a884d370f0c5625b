"""What is said about options that are wrong."""

import difflib
import math

import pytest

from kafkaesque.model.errors import ConfigError
from kafkaesque.model.options import (
    INT32_MAX,
    VALUE_LENGTH_MAX,
    Option,
    OptionTable,
    OptionType,
)

TABLE = OptionTable(
    "topic",
    [
        Option(
            name="max.message.bytes",
            type=OptionType.INT,
            default=1048588,
            doc="",
            minimum=1048576,
            maximum=INT32_MAX,
        ),
        Option(name="share", type=OptionType.DOUBLE, default=0.5, doc="", minimum=0.25, maximum=1),
        Option(
            name="policy",
            type=OptionType.LIST,
            default="delete",
            doc="",
            choices=("delete", "compact"),
        ),
        Option(name="rate", type=OptionType.DOUBLE, default=1.0, doc="", minimum=1),
        Option(name="auto.create.topics.enable", type=OptionType.BOOLEAN, default=True, doc=""),
        Option(name="unclean", type=OptionType.BOOLEAN, default=False, doc="", choices=("false",)),
    ],
    {"flush.ms": "everything is synced"}.get,
)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("max.message.bytes", "a number from 1048576 to 2147483647"),
        ("share", "a number from 0.25 to 1"),
    ],
)
def test_a_range_is_shown_with_all_its_digits(name: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"it must be {allowed}$"):
        TABLE.parse({name: "0"})


@pytest.mark.parametrize(
    "value", ["nan", "NaN", " -nan", math.nan], ids=["text", "mixed", "minus", "float"]
)
@pytest.mark.parametrize(
    ("name", "allowed"),
    [("rate", "a number from 1 to ∞"), ("share", "a number from 0.25 to 1")],
)
def test_what_is_not_a_number_is_in_no_range(name: str, allowed: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"it must be {allowed}$"):
        TABLE.parse({name: value})


def test_a_limit_can_be_infinite_where_its_range_is() -> None:
    assert TABLE.parse({"rate": "inf"}) == {"rate": math.inf}
    with pytest.raises(ConfigError):
        TABLE.parse({"share": "inf"})


def test_of_what_was_stored_the_allowed_is_taken_and_the_rest_is_told() -> None:
    parsed, refused = TABLE.parse_stored({"rate": "nan", "share": "0.25", "gone": "1"})
    assert parsed == {"share": 0.25}
    assert refused == {
        "rate": "rate = 'nan' is not allowed: it must be a number from 1 to ∞",
        "gone": "unknown topic option 'gone'",
    }


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("max.message.byte", "max.message.bytes"),
        ("message.max.bytes", "max.message.bytes"),
        ("MAX.MESSAGE.BYTES", "max.message.bytes"),
        ("auto.create.topics", "auto.create.topics.enable"),
        ("remote.storage.enable", None),
        ("zookeeper.connect", None),
    ],
)
def test_only_a_name_that_is_alike_is_suggested(name: str, near: str | None) -> None:
    with pytest.raises(ConfigError) as refused:
        TABLE.get(name)
    hint = f"; did you mean {near}?" if near else ""
    assert str(refused.value) == f"unknown topic option {name!r}{hint}"


def test_a_word_that_stands_twice_in_a_list_counts_once() -> None:
    assert TABLE.parse({"policy": "compact, delete,compact"}) == {"policy": "compact,delete"}
    with pytest.raises(ConfigError, match=r"a list of delete, compact$"):
        TABLE.parse({"policy": "compact,,delete"})


def test_what_is_true_or_false_may_have_to_be_one_of_them() -> None:
    assert TABLE.parse({"unclean": "False", "auto.create.topics.enable": "false"}) == {
        "unclean": False,
        "auto.create.topics.enable": False,
    }
    for value in ("true", True):
        with pytest.raises(ConfigError, match=r"it must be false$"):
            TABLE.parse({"unclean": value})
    with pytest.raises(ConfigError, match=r"it must be true or false$"):
        TABLE.parse({"auto.create.topics.enable": "yes"})


def test_an_option_of_kafkas_that_is_not_here_says_why() -> None:
    with pytest.raises(ConfigError) as refused:
        TABLE.get("flush.ms")
    assert str(refused.value) == (
        "flush.ms is an option of Apache Kafka that Kafkaesque does not have: everything is synced"
    )


def test_a_text_that_a_client_sends_is_bounded() -> None:
    text = Option(name="tags", type=OptionType.STRING, default="", doc="")
    assert text.parse("x" * VALUE_LENGTH_MAX) == "x" * VALUE_LENGTH_MAX
    with pytest.raises(ConfigError, match="has 1,048,577 characters, and may have 1,048,576"):
        text.parse("x" * (VALUE_LENGTH_MAX + 1))
    number = Option(name="size", type=OptionType.LONG, default=0, doc="")
    with pytest.raises(ConfigError) as caught:
        number.parse("x" * 100_000)
    assert len(str(caught.value)) < 300


def test_a_name_that_is_very_long_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(name: str, *more: object, **options: object) -> list[str]:
        compared.append(name)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", compare)
    table = OptionTable("topic", [Option(name="size", type=OptionType.LONG, default=0, doc="")])
    with pytest.raises(ConfigError) as caught:
        table.get("x" * 1_000_000)
    assert (len(str(caught.value)) < 300, compared) == (True, [])
    with pytest.raises(ConfigError, match="unknown topic option 'sise'"):
        table.get("sise")
    assert compared == ["sise"]


def test_what_it_means_has_no_links_outside_of_pages() -> None:
    doc = "Which of a, [b] or c (d). See [Schema registry](schema-registry.md#refuse), [A](a.md)."
    option = Option(name="o", type=OptionType.INT, default=1, doc=doc)
    assert option.meaning == "Which of a, [b] or c (d). See Schema registry, A."
