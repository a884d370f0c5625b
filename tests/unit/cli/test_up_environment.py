"""What brokers of `up` have of our environment."""

import pytest

from kafkaesque.cli.local_broker import broker_environment


def test_brokers_are_told_where_traces_go_and_not_whose_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKAESQUE_TRACING_ENDPOINT", "http://127.0.0.1:4318/v1/traces")
    monkeypatch.setenv("KAFKAESQUE_ID", "7")
    found = broker_environment()
    assert found["KAFKAESQUE_TRACING_ENDPOINT"] == "http://127.0.0.1:4318/v1/traces"
    assert "KAFKAESQUE_ID" not in found
