"""The long run of the simulator's seeds: where it goes on, and what is kept of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import seeds
from kafkaesque.cli.exit_codes import WRONG_USAGE
from kafkaesque.cli.sim_results import name_code

LINE = {"code": name_code(), "how": seeds.HOW, "seed": 7, "anomalies": []}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    lines = [
        {**LINE, "seed": 9},
        LINE,
        {**LINE, "seed": 1, "code": "another"},
        {**LINE, "seed": 2, "how": "--seconds 1"},
    ]
    path = tmp_path / "seeds.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_what_other_code_has_run_or_in_another_way_is_run_again(results: Path) -> None:
    assert sorted(seeds.of_this_code(results)) == [7, 9]


def test_a_long_run_begins_with_what_is_kept_of_this_code(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeds, "KEPT", tmp_path / "kept.jsonl.xz")
    monkeypatch.setattr(seeds, "ROOT", tmp_path)
    seeds.keep(results)
    begun = tmp_path / "begun.jsonl"
    seeds.begin_with_kept(begun)
    assert [json.loads(line) for line in begun.read_text("utf-8").splitlines()] == [
        LINE,
        {**LINE, "seed": 9},
    ]
    seeds.begin_with_kept(results)
    assert len(results.read_text("utf-8").splitlines()) == 4


def test_a_line_that_was_cut_off_is_named(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = results.read_bytes()
    results.write_bytes(whole[:-9])
    monkeypatch.setattr(sys, "argv", ["scripts/seeds", "--keep", "--results", str(results)])
    assert seeds.main() == WRONG_USAGE
    assert f"line 4 of {results} is not a seed's result" in capsys.readouterr().err
    assert results.read_bytes() == whole[:-9]
