"""Where a broker's admin port is, and why that is not known."""

import pytest

from kafkaesque.cli import admin_pages
from kafkaesque.cli.admin_pages import ask_first
from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_configs_response import (
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


class SomeBroker:
    """Answers each request with the same."""

    code = 0

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> "SomeBroker":
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, *_: object) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(0, [DescribeConfigsResult(self.code, None, 4, "1", [])])


def test_a_missing_rule_is_not_taken_for_a_missing_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_pages, "Exchange", SomeBroker)
    brokers = [(1, "127.0.0.1", 9), (2, "127.0.0.1", 10)]
    with pytest.raises(CommandFailed) as failed:
        ask_first(brokers, "GET", "/")
    assert failed.value.exit_code == UNREACHABLE
    monkeypatch.setattr(SomeBroker, "code", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(CommandFailed) as failed:
        ask_first(brokers, "GET", "/")
    assert failed.value.message == "no rule allows describe-configs on the cluster"
    assert "rule create" in failed.value.hint
    assert admin_pages.read_page(brokers, "/", dict) is None
