"""`kafkaesque config` against a cluster: what it sets is in force, what it cannot set it says."""

from __future__ import annotations

import time

import pytest
from typer.testing import CliRunner

from kafkaesque.broker.options.groups import GROUP_OPTIONS
from kafkaesque.broker.options.tables import BROKER_OPTIONS, TOPIC_OPTIONS
from kafkaesque.cli.addresses import REQUEST_TIMEOUT_S
from kafkaesque.cli.app import app
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.clients.test_cli import Cli, cli_at
from tests.waiting import DEADLINE_S


@pytest.fixture
def config(bootstrap_servers: str) -> Cli:
    """Runs `kafkaesque config ...`; fails if its exit code is another than `code`."""
    run = cli_at(bootstrap_servers)
    return lambda *words, **more: run("config", *words, **more)


def test_a_topics_options_are_set_shown_and_taken_back(config: Cli, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=1)
    done = config("set", "retention.ms=3600000", "segment.bytes=2000000", "--topic", topic)
    assert done.output == f"set retention.ms, segment.bytes of topic {topic}\n"
    assert config("describe", "--topic", topic).rows == [
        ["OPTION", "VALUE", "FROM", "DYNAMIC"],
        ["retention.ms", "3600000", "topic", "yes"],
        ["segment.bytes", "2000000", "topic", "yes"],
    ]
    document = config("unset", "retention.ms", "--topic", topic, "--json").document
    assert document == {"topic": topic, "broker": None, "group": None, "unset": ["retention.ms"]}
    shown = config("describe", "retention.ms", "--topic", topic, "--json").document
    assert [each["source"] for each in shown] == ["default"]
    everything = config("describe", "--topic", topic, "--all", "--json").document
    assert [each["option"] for each in everything] == sorted(TOPIC_OPTIONS.names())


def test_a_groups_options_are_set_shown_and_taken_back(config: Cli) -> None:
    group, name = unique("group"), "consumer.session.timeout.ms"
    done = config("set", f"{name}=50000", "--group", group)
    assert done.output == f"set {name} of group {group}\n"
    # The broker that is asked may not have heard of it yet.
    deadline = time.monotonic() + DEADLINE_S
    while not (rows := config("describe", "--group", group).rows[1:]):
        assert time.monotonic() < deadline
    assert rows == [[name, "50000", "group", "yes"]]
    everything = config("describe", "--group", group, "--all", "--json").document
    assert [each["option"] for each in everything] == sorted(GROUP_OPTIONS.names())
    listed = config("list", "group", "--json").document
    assert [each["option"] for each in listed] == GROUP_OPTIONS.names()
    refused = config("set", f"{name}=1", "--group", group, code=2)
    assert "must be from 45000 to 60000" in refused.errors
    unknown = config("describe", "consumer.sesion.timeout.ms", "--group", group, code=2)
    assert f"did you mean {name}?" in unknown.errors
    config("unset", name, "--group", group)


def test_options_of_one_broker_and_of_all(config: Cli) -> None:
    try:
        config("set", "num.partitions=3", "--all-brokers")
        config("set", "num.partitions=5", "--broker", "2")
        assert config("describe", "--all-brokers").rows[1:] == [
            ["num.partitions", "3", "all brokers", "yes"]
        ]
        own = config("describe", "num.partitions", "--broker", "2").rows[1]
        assert own == ["num.partitions", "5", "broker", "yes"]
        other = config("describe", "num.partitions", "--broker", "3").rows[1]
        assert other == ["num.partitions", "3", "all brokers", "yes"]
    finally:
        config("unset", "num.partitions", "--all-brokers")
        config("unset", "num.partitions", "--broker", "2")
    assert config("describe", "--all-brokers").rows[1:] == []
    everything = config("describe", "--broker", "1", "--all", "--json").document
    listed = [each["option"] for each in everything]
    assert listed == sorted(listed)
    # The others are what the file says beside them.
    assert {"admin.listener", "node.id", *BROKER_OPTIONS.names()} <= set(listed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "retention.msec=1", "--topic", "{topic}"], "did you mean retention.ms"),
        (["set", "retention.ms=x", "--topic", "{topic}"], "must be a number from -1"),
        (["set", "message.format.version=3", "--topic", "{topic}"], "does not have"),
        (["unset", "foo", "--topic", "{topic}"], "unknown topic option 'foo'"),
        (["set", "num.partitions=0", "--all-brokers"], "must be a number from 1"),
        (["set", "connections.max.idle.ms=5", "--broker", "1"], "restarting the broker"),
        (["set", "connections.max.idle.ms=5", "--all-brokers"], "restarting the broker"),
    ],
)
def test_what_cannot_be_set_is_said_by_name(
    config: Cli, make_topic: TopicMaker, words: list[str], said: str
) -> None:
    topic = make_topic(partitions=1) if "{topic}" in words else ""
    done = config(*(word.format(topic=topic) for word in words), code=2)
    assert said in done.errors


def test_a_right_option_of_a_topic_that_does_not_exist_is_no_wrong_command_line(
    config: Cli,
) -> None:
    done = config("set", "retention.ms=1", "--topic", "nobody-made-this", code=1)
    assert "does not exist" in done.errors


def test_a_broker_that_is_not_there_is_said_at_once(bootstrap_servers: str) -> None:
    """And not when the time of a request is up."""
    for words in (["describe"], ["set", "num.partitions=3"], ["unset", "num.partitions"]):
        begun = time.monotonic()
        # In this process: Python alone may take seconds to start.
        done = CliRunner().invoke(
            app, ["config", *words, "--broker", "99", "-b", bootstrap_servers]
        )
        assert time.monotonic() - begun < REQUEST_TIMEOUT_S
        assert done.exit_code == 1
        assert "broker 99 is not running; these are: 1, 2, 3" in done.stderr


def test_what_is_wrong_is_said_before_anything_is_done(config: Cli) -> None:
    assert "say whose options" in config("set", "retention.ms=1", code=2).errors
    twice = config("set", "retention.ms=1", "retention.ms=2", "--topic", "a", code=2).errors
    assert "option retention.ms is given twice: '1' and '2'" in twice
    assert "say whose options" in config("describe", "--topic", "a", "--broker", "1", code=2).errors
    assert "name=value" in config("set", "retention.ms", "--topic", "a", code=2).errors
    unknown = config("describe", "num.partition", "--broker", "1", code=2).errors
    assert "did you mean num.partitions?" in unknown


def test_quotas_are_set_listed_and_taken_away(config: Cli) -> None:
    app = unique("app")
    try:
        done = config("quota", "set", "producer_byte_rate=1000000", "--client-id", app)
        assert done.output == "set producer_byte_rate\n"
        config("quota", "set", "request_percentage=12.5", "--default-user", "--client-id", app)
        config("quota", "set", "connection_creation_rate=1000", "--default-ip")
        listed = config("quota", "list").rows
        assert listed[0] == ["USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"]
        assert ["-", app, "-", "producer_byte_rate", "1000000"] in listed
        assert ["<default>", app, "-", "request_percentage", "12.5"] in listed
        assert ["-", "-", "<default>", "connection_creation_rate", "1000"] in listed
        assert {
            "entity": {"client-id": app, "user": None},
            "quota": "request_percentage",
            "value": 12.5,
        } in config("quota", "list", "--json").document
    finally:
        config("quota", "unset", "producer_byte_rate", "--client-id", app)
        config("quota", "unset", "request_percentage", "--default-user", "--client-id", app)
        config("quota", "unset", "connection_creation_rate", "--default-ip")
    assert config("quota", "list").rows[1:] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["producer_byte_rate=1"], "the entity of a quota is empty"),
        (["producer_byte_rate=1", "--user", "a", "--ip", "10.0.0.1"], "not combined"),
        (["producer_byte_rate=1", "--user", "a", "--default-user"], "two entities"),
        (["producer_byte_rate=1", "--ip", "10.0.0.1"], "is no quota of ip"),
        (["producer_byte_rat=1", "--user", "a"], "is no quota of user"),
        (["producer_byte_rate=-1", "--user", "a"], "above 0"),
        (["producer_byte_rate=much", "--user", "a"], "is not a number"),
    ],
)
def test_quotas_that_cannot_be_meant_are_refused(config: Cli, words: list[str], said: str) -> None:
    assert said in config("quota", "set", *words, code=2).errors


def test_nobody_to_ask_is_said(config: Cli) -> None:
    nobody = ("--bootstrap-server", "127.0.0.1:1")
    assert "no broker answers" in config("quota", "list", *nobody, code=3).errors
    assert "no broker answers" in config("describe", "--all-brokers", *nobody, code=3).errors
    assert "no broker answers" in config("describe", "--broker", "1", *nobody, code=3).errors
