"""What a project's runs have left behind, and how far behind the topics they are, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.cluster_options import parse_cluster
from kafkaesque.spark.errors import ConnectorError, Unavailable
from kafkaesque.spark.log_offsets import list_offsets
from kafkaesque.spark.offsets import EARLIEST, LATEST, Offsets
from kafkaesque.spark.options import OptionReader
from kafkaesque.spark.options_file import with_options_file
from kafkaesque.spark.pipelines.checkpoints import read_checkpoints
from kafkaesque.spark.pipelines.errors import BrokersAway, PipelineError, WrongProject
from kafkaesque.spark.pipelines.flow_progress import RUNNING, TopicOffsets
from kafkaesque.spark.pipelines.project import (
    BOOTSTRAP_SETTING,
    FILE_SETTING,
    find_spec,
    load_project,
)
from kafkaesque.spark.pipelines.run_record import is_locked, read_records
from kafkaesque.spark.pipelines.templates import STATE_FOLDER

DIED, NEVER = "died", "never run"
_TIMEOUT_S = 10.0


def read_status(
    place: Path, overrides: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the last run of a project with the lag of its flows now, and what could not be asked.

    A run that is under way is the last one; `before` is then the one before it. How to speak with
    brokers is kept nowhere but in the project's settings, of which `overrides` are some.

    Raises:
        WrongProject: that is no project, or one that has never run and never can.
    """
    folder = find_spec(place).parent
    state_folder = folder / STATE_FOLDER
    records = read_records(state_folder, 2)
    if not records:
        load_project(place, overrides)
        return {"project": str(folder), "state": NEVER, "flows": []}, []
    run = records[0]
    if run["state"] == RUNNING and not is_locked(state_folder):
        run["state"] = DIED
    before = records[1] if run["state"] == RUNNING and len(records) > 1 else None
    _add_checkpoints(run)
    problems = _add_lag(run, place, overrides)
    kept = ("kind", "state", "error", "started_at", "ended_at")
    document = {
        "project": str(folder),
        **run,
        "before": None if before is None else {name: before.get(name) for name in kept},
    }
    return document, problems


def _add_checkpoints(run: dict[str, Any]) -> None:
    """Let checkpoints say where queries go on: a run that was killed had no time to."""
    found = {each.query_id: each for each in read_checkpoints(run["storage"])}
    for flow in run["flows"]:
        checkpoint = found.get(flow["query_id"])
        if checkpoint is not None and checkpoint.offsets:
            flow["offsets"] = checkpoint.offsets


def _add_lag(run: dict[str, Any], place: Path, overrides: Mapping[str, str] | None) -> list[str]:
    """Ask the brokers how far it is from each flow to the ends of its topics."""
    wanted = {topic for flow in run["flows"] for each in flow["offsets"] for topic in each}
    logs: dict[str, _Log] = {}
    problems = []
    secured = run.get("security_protocols", {})
    for servers in run["bootstrap_servers"] if wanted else ():
        try:
            options = {"kafka.bootstrap.servers": servers}
            if servers in secured:
                options |= _security(place, overrides, servers, secured[servers])
            for topic, log in _ask(options, sorted(wanted)).items():
                logs.setdefault(topic, log)
        except PipelineError as error:
            problems.append(error.message)
        except ConnectorError as error:
            problems.append(f"{servers}: {error}")
    for flow in run["flows"]:
        flow["lag_now"] = _lag(flow["offsets"], logs)
    return problems


def _security(
    place: Path, overrides: Mapping[str, str] | None, servers: str, protocol: str
) -> dict[str, str]:
    """Return how the project's settings say to speak with brokers that are secured.

    Raises:
        WrongProject: they speak of other brokers, who are not to get passwords of these, or do not
            say how.
    """
    project = load_project(place, overrides)
    options = project.security_options
    if project.bootstrap_servers != servers or not options:
        raise WrongProject(
            f"the lag of flows from {servers} is not shown: they connect with {protocol}, and the"
            f" project's settings do not say how ({BOOTSTRAP_SETTING}={servers} with"
            f" kafkaesque.security.protocol and kafkaesque.ssl.… or .sasl.…,"
            f" or {FILE_SETTING}, or the same as --conf)"
        )
    return options


#: Of a topic: where each partition begins and ends.
_Log = Mapping[int, tuple[int, int]]


def _ask(given: Mapping[str, str], topics: Sequence[str]) -> dict[str, _Log]:
    reader = OptionReader(with_options_file(given))
    reader.refuse_unknown(("transactionalIdPrefix",))
    options = replace(parse_cluster(reader), api_timeout_s=_TIMEOUT_S)
    try:
        with Cluster(options) as cluster:
            there = cluster.topics(topics)
            all_of_them = [(topic, each) for topic, parts in there.items() for each in parts]
            starts = _list(cluster, dict.fromkeys(all_of_them, EARLIEST))
            ends = _list(cluster, dict.fromkeys(all_of_them, LATEST))
    except Unavailable:
        raise BrokersAway(f"no broker answers at {given['kafka.bootstrap.servers']}") from None
    return {
        topic: {each: (starts[topic, each], ends[topic, each]) for each in parts}
        for topic, parts in there.items()
    }


def _list(cluster: Cluster, wanted: Offsets) -> Offsets:
    return list_offsets(cluster, wanted, is_read_committed=True)


def _lag(sources: Sequence[TopicOffsets], logs: Mapping[str, _Log]) -> int | None:
    """Return the offsets that are still to be processed; None where a topic is not known."""
    if not sources:
        return None
    lag = 0
    for source in sources:
        for topic, partitions in source.items():
            if topic not in logs:
                return None
            for partition, (start, end) in logs[topic].items():
                lag += max(0, end - partitions.get(str(partition), start))
    return lag
