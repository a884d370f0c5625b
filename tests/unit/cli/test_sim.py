"""`kafkaesque sim run`: what goes on in a run can be asked for by name."""

import json

from typer.testing import CliRunner

from kafkaesque.cli.app import app


def test_an_activity_goes_on_that_is_asked_for() -> None:
    words = "sim run --seed 1 --seconds 1 --activity exactly-once --json"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
    counts = json.loads(done.stdout)["counts"]
    assert counts["outputs"] == counts["inputs"] > 0
    assert "elections" not in counts


def test_an_activity_that_there_is_not_is_refused() -> None:
    done = CliRunner().invoke(app, ["sim", "run", "--seed", "1", "--activity", "nothing"])
    assert done.exit_code == 2
    assert "--activity nothing is none of commits, " in done.stderr


def test_the_seed_draws_what_goes_on_if_nothing_is_asked_for() -> None:
    done = CliRunner().invoke(
        app, ["sim", "run", "--seeds", "4", "--seconds", "0.5", "--jobs", "1"]
    )
    assert done.exit_code == 0, done.output
    assert "4 of 4 seeds are well\nin all: " in done.stdout
