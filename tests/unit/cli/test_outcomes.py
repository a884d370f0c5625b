"""Several names of one command, of which some fail: each is told, and none hides another."""

from __future__ import annotations

import json
from concurrent.futures import Future

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException

from kafkaesque.cli import kafka
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.outcomes import tell_deleted
from kafkaesque.cli.screen import Screen


def ended(code: int | None = None) -> Future[None]:
    """Returns a request that is over, with Kafka's error of this number."""
    future: Future[None] = Future()
    if code is None:
        future.set_result(None)
    else:
        future.set_exception(KafkaException(KafkaError(code)))
    return future


def missing() -> Future[None]:
    return ended(KafkaError.GROUP_ID_NOT_FOUND)


def test_what_is_deleted_is_said_beside_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    requests = {"a": ended(), "b": missing(), "c": ended(KafkaError.NON_EMPTY_GROUP), "d": ended()}
    with pytest.raises(typer.Exit) as ending:
        tell_deleted(Screen(json=False), requests, "group")
    said = capsys.readouterr()
    assert ending.value.exit_code == 1
    assert said.out == "deleted a, d\n"
    assert "error: group b does not exist" in said.err
    assert "error: group c has active members" in said.err


def test_programs_are_told_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        tell_deleted(Screen(json=True), {"a": ended(), "b": missing()}, "group")
    assert json.loads(capsys.readouterr().out) == {
        "deleted": ["a"],
        "failed": {"b": "group b does not exist"},
    }


def test_where_nothing_can_be_reached_the_exit_code_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "_who_answers", lambda: "")
    requests = {name: ended(KafkaError._TIMED_OUT) for name in "ab"}
    with pytest.raises(typer.Exit) as ending:
        tell_deleted(Screen(json=False), requests, "group")
    assert ending.value.exit_code == 3


def test_the_failure_of_a_single_name_is_that_of_the_command() -> None:
    with pytest.raises(CommandFailed, match="group b does not exist"):
        tell_deleted(Screen(json=False), {"b": missing()}, "group")
    tell_deleted(Screen(json=False), {"a": ended()}, "group")
