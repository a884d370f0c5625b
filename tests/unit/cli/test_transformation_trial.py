"""`kafkaesque transformation`: how `test` shows a body, and what `delete` does not find."""

import pytest
from typer.testing import CliRunner

from kafkaesque.cli import transformation_requests
from kafkaesque.cli.app import app as kafkaesque
from kafkaesque.cli.commands.transformation import app
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.transformation_requests import Body, Stored, Trial, TriedMessage


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (Body(kind="json", text="{}"), ""),
        (Body(kind="hex", text="00ff"), "the body is shown in hexadecimal digits\n"),
        (
            Body(kind="hex", text="00ff", is_cut=True),
            "the body is shown in hexadecimal digits and without its end\n",
        ),
    ],
    ids=["text", "bytes", "long"],
)
def test_a_body_that_is_not_shown_as_it_is(
    monkeypatch: pytest.MonkeyPatch, body: Body, said: str
) -> None:
    after = TriedMessage(headers=[], properties=[], body=body)
    trial = Trial(applies=True, after=after, failure=None, failures="", offset=0)
    monkeypatch.setattr(transformation_requests, "try_out", lambda *_: trial)
    told = CliRunner().invoke(app, ["test", "--name", "v2", "--queue", "mails", "--json"])
    assert (told.exit_code, told.stderr) == (0, said)
    assert '"body":"' in told.stdout.replace(" ", "")
    assert "note" not in told.stdout


def test_a_rule_is_tried_by_either_name() -> None:
    rule = '{"steps": [{"do": "rename", "at": "$.old", "to": "$.new"}]}'
    words = ["test", "--rule", rule, '{"old": 7}']
    told = [CliRunner().invoke(kafkaesque, [group, *words]) for group in ("rule", "transformation")]
    assert [each.exit_code for each in told] == [0, 0]
    assert '{"new":7}' in told[0].stdout
    assert told[0].stdout == told[1].stdout


@pytest.mark.parametrize(
    ("name", "hint"), [("v20", "did you mean v2?"), ("nosuch", "kafkaesque transformation list")]
)
def test_what_is_not_there_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    there = [Stored(vhost="/", name="v2", rule="{}", bindings=0)]
    deleted: list[str] = []
    monkeypatch.setattr(transformation_requests, "list_all", lambda *_: there)
    monkeypatch.setattr(
        transformation_requests, "delete", lambda _, __, which: deleted.append(which)
    )
    failure = CliRunner().invoke(app, ["delete", name, "--yes"]).exception
    assert isinstance(failure, CommandFailed)
    assert (failure.message, failure.hint) == (f"transformation {name} does not exist", hint)
    told = CliRunner().invoke(app, ["delete", name, "--yes", "--if-exists"])
    assert (told.exit_code, told.stdout, deleted) == (0, "deleted nothing\n", [])
    told = CliRunner().invoke(app, ["delete", "v2", "--yes"])
    assert (told.exit_code, told.stdout, deleted) == (0, "deleted transformation v2\n", ["v2"])
