"""What runs keep, and what is told of it later on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.spark.pipelines.checkpoints import (
    flow_checkpoint,
    flows_with_checkpoints,
    read_checkpoints,
)
from kafkaesque.spark.pipelines.errors import RunFailed, WrongProject
from kafkaesque.spark.pipelines.flow_progress import FlowProgress, count_between
from kafkaesque.spark.pipelines.run import read_event
from kafkaesque.spark.pipelines.run_record import (
    RECORDS_MAX,
    RunRecord,
    is_locked,
    locked,
    read_records,
)
from kafkaesque.spark.pipelines.status import DIED, read_status


def report(batch: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": "q",
        "name": "f",
        "batchId": batch,
        "batchDuration": 12,
        "numInputRows": 5,
        "durationMs": {"addBatch": 3},
        "sources": [{"endOffset": {"t": {"0": 7}}, "latestOffset": {"t": {"0": 9, "1": 4}}}],
        "sink": {"numOutputRows": 4},
        **changes,
    }


def test_reports_add_up() -> None:
    flow = FlowProgress(name="f")
    assert flow.on_progress(report(0))
    assert flow.on_progress(report(1, sink={"numOutputRows": -1}))
    assert not flow.on_progress(report(2, durationMs={"latestOffset": 1}, numInputRows=0))
    assert (flow.batches, flow.rows_in, flow.rows_out) == (2, 10, 4)
    assert (flow.lag, flow.batch_ms, flow.query_id) == (6, 12, "q")
    assert flow.offsets == [{"t": {"0": 7}}]


def test_sources_that_are_no_topics_have_no_lag() -> None:
    flow = FlowProgress(name="f")
    flow.on_progress(report(0, sources=[{"endOffset": {"logOffset": 3}, "latestOffset": None}]))
    assert (flow.lag, flow.offsets) == (None, [])


def test_a_source_that_does_not_tell_the_latest_brings_all_there_is() -> None:
    flow = FlowProgress(name="f")
    flow.on_progress(report(0, sources=[{"endOffset": {"t": {"0": 7}}, "latestOffset": None}]))
    assert flow.lag == 0


def test_partitions_that_are_new_count_whole() -> None:
    assert count_between({"t": {"0": 5}}, {"t": {"0": 4, "1": 3}, "u": {"0": 2}}) == 5


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Flow a.b.c is RUNNING.", ("a.b.c", "running", None)),
        ("Flow 'f' has FAILED.\nError: it broke", ("f", "failed", "it broke")),
        ("Failed to resolve flow: 'f'.\nError: no", ("f", "failed", "no")),
        ("Run is COMPLETED.", ("", None, None)),
    ],
    ids=["running", "failed", "unresolved", "run"],
)
def test_events(text: str, found: tuple[str, str | None, str | None]) -> None:
    assert read_event(text) == found


def test_only_so_many_records_are_kept(tmp_path: Path) -> None:
    for number in range(RECORDS_MAX + 5):
        RunRecord(tmp_path).write({"number": number})
    numbers = [each["number"] for each in read_records(tmp_path, 100)]
    assert numbers == list(range(RECORDS_MAX + 4, 4, -1))


def test_one_run_at_a_time(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(RunFailed, match="is under way already"), locked(tmp_path):
            pass
    assert not is_locked(tmp_path)


def make_checkpoint(folder: Path, query_id: str, done: int, *sources: object) -> None:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    for batch in range(done + 2):
        lines = [json.dumps(each) if each else "-" for each in sources]
        (folder / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *lines]))
    for batch in range(done + 1):
        (folder / "commits" / str(batch)).write_text("v1\n{}")


def test_checkpoints_say_where_queries_go_on(tmp_path: Path) -> None:
    flows = tmp_path / "a b" / "_checkpoints" / "c" / "d" / "t"
    storage = f"file://{tmp_path}/a b"
    make_checkpoint(flows / "f" / "0", "old", 0, {"t": {"0": 1}})
    make_checkpoint(flows / "f" / "10", "new", 3, {"t": {"0": 7}}, None, {"logOffset": 1})
    (flows / "g" / "0").mkdir(parents=True)
    (found,) = read_checkpoints(storage)
    assert (found.flow, found.query_id, found.batch) == ("f", "new", 3)
    assert found.offsets == [{"t": {"0": 7}}]
    assert flow_checkpoint(storage, ("c", "d", "t"), "f") == f"file://{flows}/f/10"
    assert flow_checkpoint(storage, ("c", "d", "t"), "new") == f"file://{flows}/new/0"
    assert flows_with_checkpoints(storage, ("C", "d", "T")) == {"f", "g"}
    with pytest.raises(WrongProject, match="needs a storage that is a directory"):
        flow_checkpoint("s3a://b/c", ("t",), "f")


def test_a_run_that_was_killed_is_told_with_what_its_checkpoints_say(tmp_path: Path) -> None:
    spec = tmp_path / "spark-pipeline.yml"
    libraries = "libraries:\n  - glob:\n      include: transformations/**\n"
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flows.sql").write_text("")
    spec.write_text(f"name: p\nstorge: storage\n{libraries}")
    with pytest.raises(WrongProject, match="there is no field 'storge'"):
        read_status(tmp_path)
    spec.write_text(f"name: p\nstorage: storage\n{libraries}")
    assert read_status(tmp_path)[0]["state"] == "never run"
    storage = tmp_path / "storage"
    make_checkpoint(storage / "_checkpoints" / "s" / "f" / "0", "q", 1, {"t": {"0": 7}})
    flow = FlowProgress(name="f", query_id="q", state="running")
    head = {"storage": storage.as_uri(), "bootstrap_servers": [], "state": "running"}
    RunRecord(storage).write({**head, "flows": [flow.as_document()]})
    document, problems = read_status(tmp_path)
    assert (document["state"], problems) == (DIED, [])
    assert document["flows"][0]["offsets"] == [{"t": {"0": 7}}]
    assert document["flows"][0]["lag_now"] is None


def test_passwords_of_one_cluster_are_not_told_to_another(tmp_path: Path) -> None:
    spec = tmp_path / "spark-pipeline.yml"
    (tmp_path / "flows.sql").write_text("")
    settings = {
        "kafkaesque.bootstrap.servers": "127.0.0.1:1",
        "kafkaesque.security.protocol": "SSL",
    }
    libraries = "libraries: [{glob: {include: flows.sql}}]"
    text = f"name: p\nstorage: storage\n{libraries}\n"
    storage = tmp_path / "storage"
    make_checkpoint(storage / "_checkpoints" / "s" / "f" / "0", "q", 1, {"t": {"0": 7}})
    head = {
        "storage": storage.as_uri(),
        "state": "completed",
        "bootstrap_servers": ["elsewhere:9093"],
        "security_protocols": {"elsewhere:9093": "SSL"},
    }
    flow = FlowProgress(name="f", query_id="q")
    RunRecord(storage).write({**head, "flows": [flow.as_document()]})
    for configuration in ({}, settings):
        spec.write_text(f"{text}configuration: {json.dumps(configuration)}\n")
        document, (problem,) = read_status(tmp_path)
        assert "flows from elsewhere:9093 is not shown: they connect with SSL" in problem
        assert document["flows"][0]["lag_now"] is None
