"""Options of Apache Kafka that are not here: none of them is, and each says why."""

from __future__ import annotations

import pytest

from kafkaesque.broker.options import absent as absent_options
from kafkaesque.broker.options.tables import BROKER_OPTIONS, TOPIC_OPTIONS
from kafkaesque.model.errors import ConfigError


def test_what_is_here_is_not_said_to_be_absent() -> None:
    assert [
        name for name in TOPIC_OPTIONS.names() if absent_options.absent_topic_option(name)
    ] == []
    here = [name for name in BROKER_OPTIONS.names() if absent_options.absent_broker_option(name)]
    assert here == []


def test_each_says_why() -> None:
    for names, table in (
        (absent_options._ABSENT_TOPIC, TOPIC_OPTIONS),
        (absent_options._ABSENT_BROKER, BROKER_OPTIONS),
    ):
        for name, reason in names.items():
            with pytest.raises(ConfigError) as refused:
                table.get(name)
            said = f"{name} is an option of Apache Kafka that Kafkaesque does not have: {reason}"
            assert str(refused.value) == said
            assert "; " not in reason or reason.count(";") == 1
            assert not reason.endswith(".")


def test_a_name_that_is_nobodys_is_unknown() -> None:
    with pytest.raises(ConfigError, match=r"unknown broker option 'num\.ponies'"):
        BROKER_OPTIONS.get("num.ponies")
