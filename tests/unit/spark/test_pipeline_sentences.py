"""Of what Spark reports one line is left, which says what and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.pipelines.errors import BrokersAway, RunFailed
from kafkaesque.spark.pipelines.sentences import (
    definition_failure,
    failure,
    kind_of,
    sentence_of,
)

TRACE = """[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: \
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/worker.py", line 1, in main
  File "/home/me/project/transformations/flows.py", line 4, in bad
    def bad(x): raise ValueError("cannot do " + str(x))
ValueError: cannot do it
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
	at org.apache.spark.sql.Nothing"""
OURS = """[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance runs: Traceback
  File "/x/site-packages/kafkaesque/spark/cluster.py", line 1, in retry
kafkaesque.spark.errors.Unavailable: asking for the topics: not within 60 s (no broker answers)
SQLSTATE: 38000"""
RACE = """[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: \
Race while writing
batch"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TRACE, "ValueError: cannot do it (flows.py, line 4)"),
        (OURS, "asking for the topics: not within 60 s (no broker answers)"),
        (RACE, "Race while writing"),
        (
            "[A.B_C] A column cannot be resolved. SQLSTATE: 42703;\n'Project",
            "A column cannot be resolved.",
        ),
        (
            "x ModuleNotFoundError: No module named 'pyarrow' y",
            "there is no module pyarrow in the Python of Spark's workers",
        ),
        ("one line\nat java.lang", "one line"),
    ],
    ids=["python", "ours", "prefix", "condition", "module", "plain"],
)
def test_one_line_is_left(text: str, sentence: str) -> None:
    assert sentence_of(text) == sentence
    assert sentence_of(RuntimeError(text)) == sentence


def test_brokers_that_are_away_are_a_failure_of_their_own() -> None:
    assert kind_of(OURS) == "Unavailable"
    found = failure("flow f", OURS)
    assert isinstance(found, BrokersAway)
    assert found.message.startswith("flow f: asking for the topics")
    assert type(failure("flow f", TRACE)) is RunFailed


def test_a_machine_that_was_too_busy_is_no_mistake_of_the_project() -> None:
    found = failure(
        "flow f", "org.apache.spark.SparkException: Python worker failed to connect back."
    )
    assert found.hint.startswith("run it again")
    assert failure("flow f", TRACE).hint == ""


def test_what_we_say_ourselves_of_a_file_is_left_whole() -> None:
    file = Path("/project/transformations/flows.py")
    found = definition_failure(file, Path("/project"), ConnectorError("two mistakes:\none\ntwo"))
    assert found.message == "transformations/flows.py: two mistakes:\none\ntwo"
