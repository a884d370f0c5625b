"""`kafkaesque sim run`: what goes on in a run can be asked for by name."""

import json
import re
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
    assert "--activity nothing is not one of commits, " in done.stderr


def test_the_seed_draws_what_goes_on_if_nothing_is_asked_for() -> None:
    done = CliRunner().invoke(
        app, ["sim", "run", "--seeds", "4", "--seconds", "0.5", "--jobs", "1"]
    )
    assert done.exit_code == 0, done.output
    assert "4 of 4 seeds without a problem\nin all: " in done.stdout


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
    assert "--only rumors is not one of rumours, " in done.stderr
    chart = str(tmp_path / "gossip.svg")
    done = CliRunner().invoke(app, ["sim", "gossip", "--only", "partitions", "--plot", chart])
    assert done.exit_code == 2
    assert "there is no chart of partitions" in done.stderr


def test_every_fault_is_one_word_and_a_file_remembers_the_seeds(tmp_path: Path) -> None:
    results = tmp_path / "seeds.jsonl"
    words = f"sim run --faults all --seconds 2 --jobs 1 --results {results} --seeds"
    done = CliRunner().invoke(app, [*words.split(), "1"])
    assert done.exit_code == 0, done.output
    assert "1 of 1 seed without a problem" in done.stdout
    (first,) = map(json.loads, results.read_text().splitlines())
    assert (first["seed"], first["anomalies"], first["how"]) == (
        0,
        [],
        "--faults 'all' --seconds 2",
    )
    done = CliRunner().invoke(app, [*words.split(), "2"])
    assert "2 of 2 seeds without a problem" in done.stdout
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [line["seed"] for line in lines] == [0, 1], "what is there is not run again"
    assert lines[0] == first


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    results = tmp_path / "seeds.jsonl"
    results.write_text("no seed\n")
    words = f"sim run --seeds 1 --seconds 1 --results {results}"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2
    assert "line 1 of " in done.stderr
    assert results.read_text() == "no seed\n"


@pytest.mark.parametrize("place", ["missing/seeds", "."])
@pytest.mark.parametrize("option", ["--results", "--history", "--plot"])
def test_a_file_that_cannot_be_written_is_named_before_anything_is_run(
    option: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        pytest.fail("it was run")

    monkeypatch.setattr("kafkaesque.cli.commands.sim._run_one", fail)
    monkeypatch.setattr("kafkaesque.cli.gossip_study.plan", fail)
    words = ["gossip"] if option == "--plot" else ["run", "--seed", "1"]
    done = CliRunner().invoke(app, ["sim", *words, option, str(tmp_path / place)])
    assert done.exit_code == 2
    reason = "is a directory" if place == "." else "no such file or directory"
    assert done.stderr == f"error: {option} {tmp_path / place} cannot be written: {reason}\n"


def test_a_file_of_bytes_that_are_no_text_is_refused_and_none_is_left_behind(
    tmp_path: Path,
) -> None:
    results, history = tmp_path / "seeds.jsonl", tmp_path / "history"
    results.write_bytes(b"\xff\xfe\n")
    words = f"sim run --seed 1 --seconds 1 --results {results} --history {history}"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2
    assert "line 1 of " in done.stderr
    assert not history.exists()


def test_faults_that_there_are_not_are_refused() -> None:
    done = CliRunner().invoke(app, ["sim", "run", "--seed", "1", "--faults", "some"])
    assert done.exit_code == 2
    assert "--faults some is not one of survivable, lost disks, all" in done.stderr


def test_power_cuts_of_the_whole_cluster_are_counted() -> None:
    done = CliRunner().invoke(app, ["sim", "power-cuts", "--times", "2", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("2 power cuts of 3 brokers at once; ")
    assert " acknowledged, none lost; " in done.stdout


def test_leaders_of_queues_are_killed() -> None:
    done = CliRunner().invoke(app, ["sim", "queue-kills", "--times", "2", "--in-flight", "100"])
    assert done.exit_code == 0, done.output
    kills, promises, counts = done.output.splitlines()
    assert kills.startswith("2 kills of leaders; ")
    assert "nothing lost" in kills
    assert promises == (
        "0 lost, 0 locks ended early, 0 attempts forgotten, 0 settled again,"
        " 0 out of order in a group, 0 dead letters lost or doubled, 0 other problems"
    )
    assert re.match(r"of [1-9]\d* messages put, ", counts)
