"""What is said of a pipeline's run, and where Spark is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.pipeline_display import Lines, flow_line, flow_table
from kafkaesque.spark.pipelines.flow_progress import FlowProgress

FLOW = FlowProgress(name="f", state="running", batches=2, rows_in=5, rows_out=4, lag=0, batch_ms=7)


def test_a_flow_in_one_line() -> None:
    words = "f: running, 2 batches, the last in 7 ms, 5 rows in, 4 rows out, lag 0"
    assert flow_line(FLOW) == words
    failed = FlowProgress(name="f", state="failed", error="it broke")
    assert flow_line(failed) == "f: failed, it broke"


def test_what_is_not_known_is_no_number() -> None:
    table = flow_table([{**FlowProgress(name="f").as_document(), "lag_now": 3}], lag="lag_now")
    assert list(table.columns)[5] == "LAG-NOW"
    assert table.rows == [["f", "waiting", 0, None, None, 3, None]]


def test_off_a_terminal_lines_are_few_and_no_change_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("kafkaesque.cli.pipeline_display.time.monotonic", lambda: now)
    lines = Lines()
    for step in range(101):
        now = step / 10
        lines.on_flow(FLOW, has_batch=True)
    lines.on_flow(FLOW, has_batch=False)
    lines.note("a note")
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[2] for line in said[:-1]] == [flow_line(FLOW)] * 3
    assert said[-1] == "a note"


@pytest.mark.parametrize("words", [["pipeline", "run"], ["pipeline", "dry-run"], ["spark", "up"]])
def test_without_the_extra_it_is_said_how_to_install_it(words: list[str]) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from kafkaesque.cli.app import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == FAILED
    assert done.stderr.startswith("error: Spark is not installed: there is no module pyspark\n")
    assert "kafkaesque-broker[spark]" in done.stderr
