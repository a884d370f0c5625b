"""`kafkaesque pipeline`: projects of Spark Declarative Pipelines."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import JsonOption, new_app, parse_pairs, wrong_usage
from kafkaesque.cli.commands.pipeline_search import search
from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.pipeline_display import displayed, flow_table
from kafkaesque.cli.pipeline_failures import failures_told, require_spark
from kafkaesque.cli.screen import Screen, Table

if TYPE_CHECKING:
    from kafkaesque.spark.pipelines.run import Run
    from kafkaesque.spark.pipelines.session import Target

app = new_app(help="Data pipelines on Spark: init, dry-run, run, status, search.")

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

ProjectArgument = Annotated[
    Path, typer.Argument(metavar="[DIR]", help="The project; here by default.", show_default=False)
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", "-c", metavar="NAME=VALUE", help="A setting of the project, or one of Spark's."
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="local[N] or spark://HOST:PORT.", show_default="local[*]"),
]
RemoteOption = Annotated[
    str | None, typer.Option(metavar="URL", help="A Spark Connect server, sc://HOST:PORT.")
]
RefreshOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Only these tables and sinks."),
]
FullRefreshOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Rebuild these from the beginning of their sources."),
]


@app.callback()
def pipeline() -> None:
    """Data pipelines on Spark: init, dry-run, run, status, search."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty.")],
    template: Annotated[
        str, typer.Option("--template", "-t", metavar="NAME", help="What to begin with.")
    ] = "blank",
    json: JsonOption = False,
) -> None:
    """Make a project in DIR, as a copy of a template.

    \b
    Example:
      kafkaesque pipeline init ./greetings
      kafkaesque pipeline init ./delays --template flights
    """
    from kafkaesque.spark.pipelines.templates import copy_template

    with failures_told():
        files = copy_template(template, folder)
    Screen(json=json).done(
        f"made {folder} from the template {template}: {folder / 'README.md'} says what it does",
        {"project": str(folder), "template": template, "files": [str(path) for path in files]},
    )


@app.command("dry-run")
def dry_run(
    project: ProjectArgument = Path(),
    conf: ConfOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    json: JsonOption = False,
) -> None:
    """Check a project without running it: settings, flows and their columns, brokers and topics.

    \b
    Example:
      kafkaesque pipeline dry-run ./greetings
    """
    require_spark()
    from kafkaesque.spark.pipelines.project import load_project
    from kafkaesque.spark.pipelines.runner import dry_run as check

    with failures_told():
        target = _target(master, remote)
        loaded = load_project(project, _settings(conf))
        found = check(loaded, target)
    counts = {
        "files": len(loaded.sources),
        "flows": len(found.flows) + len(found.auto_cdc_flows),
        "outputs": len(found.outputs),
        "topics_read": sorted({each.options.get("subscribe", "") for each in found.reads} - {""}),
        "topics_written": sorted({each.options.get("topic", "") for each in found.writes} - {""}),
    }
    Screen(json=json).done(f"project {loaded.name} can be run", {"pipeline": loaded.name, **counts})


@app.command()
def run(
    project: ProjectArgument = Path(),
    refresh: RefreshOption = None,
    full_refresh: FullRefreshOption = None,
    full_refresh_all: Annotated[
        bool, typer.Option("--full-refresh-all", help="Rebuild everything.")
    ] = False,
    continuous: Annotated[bool, typer.Option("--continuous", help="Run until Ctrl-C.")] = False,
    trigger: Annotated[
        str, typer.Option(metavar="TIME", help="Continuous: how often to look for new data.")
    ] = "1s",
    views_every: Annotated[
        str,
        typer.Option(metavar="TIME", help="Continuous: how often to recompute materialized views."),
    ] = "1m",
    conf: ConfOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    json: JsonOption = False,
) -> None:
    """Process what has come since the last run, then end; with --continuous, run until Ctrl-C.

    \b
    Example:
      kafkaesque pipeline run ./greetings
      kafkaesque pipeline run ./greetings --continuous --trigger 500ms
      kafkaesque pipeline run --master spark://127.0.0.1:7077 --conf kafkaesque.sink.topic=other
    """
    require_spark()
    from kafkaesque.spark.pipelines.continuous import Pace
    from kafkaesque.spark.pipelines.project import load_project
    from kafkaesque.spark.pipelines.runner import run_on, run_once
    from kafkaesque.spark.pipelines.triggered import Selection

    selection = Selection(
        refresh=_names(refresh),
        full_refresh=_names(full_refresh),
        full_refresh_all=full_refresh_all,
    )
    if full_refresh_all and (selection.refresh or selection.full_refresh):
        raise wrong_usage("--full-refresh-all goes with neither --refresh nor --full-refresh")
    if continuous and (full_refresh_all or selection.refresh or selection.full_refresh):
        raise wrong_usage(
            "--continuous runs all flows, from their checkpoints",
            "run once with --full-refresh, then with --continuous",
        )
    pace = Pace(
        trigger_ms=_milliseconds("--trigger", trigger),
        views_s=_milliseconds("--views-every", views_every) / 1000,
    )
    with failures_told():
        target = _target(master, remote)
        loaded = load_project(project, _settings(conf))
        with displayed() as display:
            if continuous:
                done = run_on(loaded, target, pace, display)
            else:
                done = run_once(loaded, target, selection, display)
    _show(done, json=json)


@app.command()
def status(
    project: ProjectArgument = Path(), conf: ConfOption = None, json: JsonOption = False
) -> None:
    """Show the current or last run, flow by flow; starts no Spark.

    LAG-NOW counts the messages after the last finished micro-batch. It connects to brokers with the
    TLS and password settings of the project.

    \b
    Example:
      kafkaesque pipeline status ./greetings
    """
    from kafkaesque.spark.pipelines.status import read_status

    with failures_told():
        document, problems = read_status(project, _settings(conf))
    names = ("kind", "state", "started_at", "ended_at", "updated_at", "target", "error")
    facts = [(name.replace("_", "-"), document.get(name)) for name in names]
    if document.get("before"):
        ending = document["before"]
        facts.append(("before", f"{ending['kind']}, {ending['state']} at {ending['ended_at']}"))
    screen = Screen(json=json)
    run_table = Table(
        title="run", columns=("FACT", "VALUE"), rows=[fact for fact in facts if fact[1]]
    )
    flows = flow_table(document["flows"], title="flows", lag="lag_now")
    screen.show([run_table, flows], document)
    for problem in problems:
        screen.note(problem)
    if problems:
        raise typer.Exit(UNREACHABLE)


def _show(done: "Run", *, json: bool) -> None:
    document = done.document()
    Screen(json=json).show(flow_table(document["flows"]), document)


def _target(master: str | None, remote: str | None) -> "Target":
    from kafkaesque.spark.pipelines.session import LOCAL_MASTER, Target

    if master is not None and remote is not None:
        raise wrong_usage("--master starts a Spark, --remote uses one that runs: give one of them")
    return Target(master=master or LOCAL_MASTER, remote=remote)


def _settings(conf: list[str] | None) -> dict[str, str]:
    return parse_pairs(conf or (), "--conf", "kafkaesque.bootstrap.servers=127.0.0.1:9092")


def _names(lists: list[str] | None) -> list[str]:
    return [name.strip() for words in lists or () for name in words.split(",") if name.strip()]


app.command()(search)


def _milliseconds(option: str, text: str) -> int:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise wrong_usage(f"{option} {text!r} is no duration", f"{option} 500ms, 1s or 2m")
    return int(float(found[1]) * _UNITS_MS[found[2]])
