"""`kafkaesque transformation test --queue` says how it shows a body."""

import pytest
from typer.testing import CliRunner

from kafkaesque.cli import transformation_requests
from kafkaesque.cli.app import app as kafkaesque
from kafkaesque.cli.commands.transformation import app
from kafkaesque.cli.transformation_requests import Body, Trial, TriedMessage


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
