"""A mistake in a rule is told in one sentence: which file, which field, what is allowed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkaesque.spark.conversion.load import load_rules
from kafkaesque.spark.conversion.rules import WrongRules

TEMPLATE = Path(__file__).parents[3] / "src/kafkaesque/spark/templates/conversion/rules"
SALT = "a salt of the tests"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TEMPLATE, tmp_path / "rules"))


def told(folder: Path, salt: str = SALT) -> list[str]:
    with pytest.raises(WrongRules) as caught:
        load_rules(folder, salt=salt)
    head, *sentences = str(caught.value).splitlines()
    assert head == "the conversion rules cannot be used:"
    return sentences


def test_the_template_has_a_rule_for_each_form_and_no_more() -> None:
    rules = load_rules(TEMPLATE, salt=SALT, topic_prefix="try.")
    assert [rule.form.kind for rule in rules.producers] == [
        "json",
        "protobuf",
        "xml",
        "csv",
        "avro",
    ]
    assert [rule.form.kind for rule in rules.consumers] == [
        "avro",
        "xml",
        "csv",
        "json",
        "protobuf",
    ]
    assert rules.consumers[0].topics == ("try.analytics.orders",)
    assert SALT not in repr(rules)


# Which file, what in it is replaced by what, and the sentence.
MISTAKES = {
    "toml": ("producers/app.toml", "version = 1", "version = ", "it is not TOML: Invalid value"),
    "key": (
        *("producers/app.toml", "topics = ", "topic = "),
        "there is no key 'topic'; did you mean topics?",
    ),
    "no-topics": (
        *("producers/app.toml", 'topics = ["orders.app"]', ""),
        "topics is a list of names of topics, not None",
    ),
    "version": (
        *("producers/app.toml", "version = 1", "version = 0"),
        "version is a whole number from 1 to 1000000, not 0",
    ),
    "canonical": (
        *("producers/app.toml", "order@1", "order@2"),
        "there is no canonical form 'order@2' (name@version); there are order@1",
    ),
    "kind": (
        *("producers/app.toml", 'kind = "json"', 'kind = "yaml"'),
        "form.kind is one of csv, json, xml, avro, protobuf, not 'yaml'",
    ),
    "option": (
        *("producers/shop.toml", "separator", "seperator"),
        "there is no option of the form csv 'seperator'; did you mean separator?",
    ),
    "type": (
        *("producers/app.toml", 'at = "bigint"', 'at = "long"'),
        "form.fields: at: there is no type 'long'; the types are string, int, bigint,",
    ),
    "target": (
        *("producers/app.toml", "channel = { v", "chanel = { v"),
        "field chanel: there is no such field to be made; there are id, placed_at, channel,",
    ),
    "source": (
        *("producers/app.toml", '"user.email"', '"user.mail"'),
        "field customer.email: from: there is no field 'user.mail'; there are orderId, at, total,",
    ),
    "step": (
        *("producers/app.toml", 'default = "EUR"', 'deafult = "EUR"'),
        "field currency: there is no step 'deafult'; did you mean default?",
    ),
    "from-and-value": (
        *("producers/app.toml", "{ value = ", '{ from = "at", value = '),
        "field channel: it has either from, the name of a field, or value",
    ),
    "cast": (
        *("producers/app.toml", '{ from = "at", unit = "ms" }', '"at"'),
        "field placed_at: a bigint (from at) cannot be made a timestamp; unit = 's', 'ms' or 'us'",
    ),
    "unit": (
        *("producers/app.toml", 'unit = "ms"', 'unit = "h"'),
        "field placed_at: unit is one of s, ms, us since 1970, not 'h'",
    ),
    "lists": (
        *(
            "producers/app.toml",
            '{ from = "lines", each = { sku = "article", quantity = "count" } }',
        ),
        *('"lines"', "; each = { … } says how its elements are made"),
    ),
    "each": (
        *("producers/app.toml", 'quantity = "count"', 'quantity = "number"'),
        "field items.quantity: from: there is no field 'number'; there are article, count",
    ),
    "needed": (
        *("producers/app.toml", 'amount = "total"', ""),
        "field amount: it is needed, and no line under [fields] makes it",
    ),
    "needed-by-avro": (
        *("consumers/analytics.toml", 'amount = "amount"', ""),
        "field amount: it is needed, and no line under [fields] makes it",
    ),
    "format": (
        *("producers/shop.toml", "dd.MM.yyyy HH:mm", "DD.MM.YYYY HH:mm"),
        "field placed_at: format: 'DD' means nothing in 'DD.MM.YYYY HH:mm'",
    ),
    "format-of-number": (
        *("producers/app.toml", 'unit = "ms"', 'unit = "ms", format = "yyyy"'),
        "field placed_at: format is between texts and times, and this is from bigint to timestamp",
    ),
    "zone": (
        *("producers/shop.toml", "Europe/Berlin", "Europe/Bonn"),
        "field placed_at: zone: there is no zone 'Europe/Bonn'; such as UTC, Europe/Berlin",
    ),
    "split": (
        *("producers/shop.toml", ", part = 2", ""),
        "field customer.first: split, the text between the parts, and part, which of them, go",
    ),
    "join": (
        *("consumers/billing.toml", 'join = " ", ', ""),
        "field Customer: from is a list of two fields or more together with join, else one field",
    ),
    "lookup": (
        *("producers/shop.toml", "countries.name", "cuontries.name"),
        "field customer.country_name: lookup: there is no table 'cuontries'; there are channels,",
    ),
    "lookup-column": (
        *("producers/shop.toml", "countries.name", "countries.title"),
        "lookup is a table with one of its columns: countries.name; not 'countries.title'",
    ),
    "mask": (
        *("consumers/support.toml", '"redact"', '"blur"'),
        "field mail: mask is one of hash, redact, keep-last, not 'blur'",
    ),
    "mask-of-number": (
        *("consumers/support.toml", 'unit = "ms"', 'unit = "ms", mask = "redact"'),
        "field at: mask is for texts, and the field is a bigint",
    ),
    "keep": (
        *("consumers/support.toml", ", keep = 4", ""),
        "field card: keep is a whole number from 1 to 16, and is missing",
    ),
    "default": (
        *("producers/app.toml", 'default = "EUR"', "default = 7"),
        "field currency: default: 7 is no string",
    ),
    "schema-file": (
        *("producers/till.toml", "till.avsc", "tills.avsc"),
        "form.schema: ../schemas/tills.avsc cannot be read from",
    ),
    "message": (
        *("consumers/warehouse.toml", "marketplace.Picking", "marketplace.Pick"),
        "form.message: the descriptor set has no message 'marketplace.Pick'",
    ),
    "consumer-key": (
        *("consumers/support.toml", 'key = "customer.email"', 'key = "email"'),
        "key: order@1 has no field 'email'; it has id, placed_at, channel,",
    ),
    "loop": (
        *("consumers/ledger.toml", '"ledger.orders"', '"orders"'),
        "it reads and writes the topic orders",
    ),
    "canonical-required": (
        *("canonical/order.toml", '"amount"]', '"price"]'),
        "there is no field 'price' among id, placed_at, channel,",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(rules: Path, name: str) -> None:
    file, before, after, sentence = MISTAKES[name]
    text = (rules / file).read_text()
    assert before in text
    (rules / file).write_text(text.replace(before, after, 1))
    found = told(rules)
    assert any(line.startswith(f"{file}: ") and sentence in line for line in found), found


def test_all_mistakes_are_told_at_once(rules: Path) -> None:
    for file in ("producers/app.toml", "consumers/ledger.toml"):
        text = (rules / file).read_text()
        (rules / file).write_text(text.replace("order@1", "order@9"))
    assert [line.partition(":")[0] for line in told(rules)] == [
        "producers/app.toml",
        "consumers/ledger.toml",
    ]


def test_a_needed_field_whose_line_has_a_mistake_is_not_told_to_have_no_line(rules: Path) -> None:
    path = rules / "producers/app.toml"
    path.write_text(path.read_text().replace('from = "at", unit = "ms"', 'from = "at"'))
    (sentence,) = told(rules)
    assert sentence.startswith("producers/app.toml: field placed_at: a bigint (from at) cannot be")


def test_hash_needs_a_salt(rules: Path) -> None:
    (sentence,) = told(rules, salt="")
    assert sentence == (
        "consumers/analytics.toml: field customer: mask: hash needs the setting"
        " kafkaesque.conversion.salt, which is empty"
    )


def test_a_repository_without_rules_is_told(tmp_path: Path) -> None:
    (sentence,) = told(tmp_path / "nowhere")
    assert "there are no rules: each is a .toml file in producers/ or consumers/" in sentence


def test_of_several_versions_the_latest_counts(rules: Path) -> None:
    text = (rules / "consumers/ledger.toml").read_text()
    newer = text.replace("version = 1", "version = 2\nname = 'ledger'")
    (rules / "consumers/ledger@2.toml").write_text(newer.replace('";"', '","'))
    consumers = load_rules(rules, salt=SALT).consumers
    (ledger,) = [rule for rule in consumers if rule.name == "ledger"]
    assert (ledger.title, ledger.form.separator) == ("ledger@2", ",")
    (rules / "consumers/ledger@3.toml").write_text(newer)
    assert told(rules) == [
        "consumers/ledger@3.toml: ledger@2 is there twice: give one of them another version or name"
    ]


def test_times_in_rules_ask_for_a_session_in_utc() -> None:
    with pytest.raises(WrongRules, match="timeZone: it must be UTC, not Asia/Tokyo"):
        load_rules(TEMPLATE, salt=SALT, session_time_zone="Asia/Tokyo")
