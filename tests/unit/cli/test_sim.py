"""`kafkaesque sim run`: what goes on in a run can be asked for by name."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafkaesque.cli.app import app
from kafkaesque.sim.gossip.study import Scale


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


def test_the_experiments_on_gossip_are_printed_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kafkaesque.cli.gossip_study.QUICK",
        Scale(nodes=100, repeats=1, rounds_of=(10, 30), clusters_of=(3,)),
    )
    chart = tmp_path / "gossip.svg"
    words = f"sim gossip --quick --only rounds --only partitions --jobs 1 --json --plot {chart}"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert [each["title"].split(":")[0] for each in document["tables"]] == ["rounds", "partitions"]
    assert document["problems"] == []
    assert chart.read_text().startswith("<svg ")


def test_an_experiment_that_there_is_not_is_refused_and_so_is_a_chart_of_none(
    tmp_path: Path,
) -> None:
    done = CliRunner().invoke(app, ["sim", "gossip", "--only", "rumors"])
    assert done.exit_code == 2
    assert "--only rumors is none of rumours, " in done.stderr
    chart = str(tmp_path / "gossip.svg")
    done = CliRunner().invoke(app, ["sim", "gossip", "--only", "partitions", "--plot", chart])
    assert done.exit_code == 2
    assert "there is no chart of partitions" in done.stderr
