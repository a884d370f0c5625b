"""What the commands do with a project: check it, run it once or continuously."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from kafkaesque.spark.options_file import with_options_file
from kafkaesque.spark.pipelines.continuous import Pace, run_continuously
from kafkaesque.spark.pipelines.definitions import Definitions, define, working_in
from kafkaesque.spark.pipelines.errors import Interrupted, PipelineError
from kafkaesque.spark.pipelines.events import EventQueue, StopWanted
from kafkaesque.spark.pipelines.file_tables import check_file_tables
from kafkaesque.spark.pipelines.flow_progress import COMPLETED, FAILED, STOPPED
from kafkaesque.spark.pipelines.project import Project
from kafkaesque.spark.pipelines.run import CONTINUOUS, PLAINTEXT, TRIGGERED, Run, Watcher
from kafkaesque.spark.pipelines.run_record import locked
from kafkaesque.spark.pipelines.session import Session, Target, check_target, opened_session
from kafkaesque.spark.pipelines.topic_checks import check_topics
from kafkaesque.spark.pipelines.triggered import Selection, check_graph, run_triggered

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """A project whose files could be read and whose topics are there."""

    session: Session
    graph_id: str
    found: Definitions


@contextlib.contextmanager
def _defined(
    project: Project, target: Target, made_anew: Sequence[str] | None = ()
) -> Iterator[Defined]:
    """Have a session with the project's graph while the block runs.

    `made_anew` are the tables of a full refresh, None for all.
    """
    check_target(target)
    with (
        _ended_at_once(),
        locked(project.state_folder) as lock,
        opened_session(project, target, lock) as session,
        working_in(project.folder),
    ):
        graph_id, found = define(session.spark, project, session.settings)
        default_format = session.spark.conf.get("spark.sql.sources.default", "")
        check_file_tables(found, project, default_format, made_anew)
        check_topics(found, must_answer=target.remote is None)
        yield Defined(session=session, graph_id=graph_id, found=found)


def dry_run(project: Project, target: Target) -> Definitions:
    """Check a project without running it; returns what it defines.

    Raises:
        PipelineError: what is wrong with it, or with what it needs.
    """
    with _defined(project, target) as defined:
        check_graph(defined.session, project, defined.graph_id)
        return defined.found


def run_once(project: Project, target: Target, selection: Selection, watcher: Watcher) -> Run:
    """Process what is there, and return how it went.

    Raises:
        PipelineError: as `dry_run`, or a flow failed, or somebody interrupted it.
    """
    made_anew = None if selection.full_refresh_all else selection.full_refresh
    with _defined(project, target, made_anew) as defined, _signals() as events:
        run = Run(project, TRIGGERED, target.name, _clusters(project, defined.found), watcher)
        with _ending(run, COMPLETED):
            run_triggered(defined.session, project, defined.graph_id, selection, run, events)
        return run


def run_on(project: Project, target: Target, pace: Pace, watcher: Watcher) -> Run:
    """Process what comes until somebody ends it, and return how it went.

    Raises:
        PipelineError: as `dry_run`, or a flow failed too often.
    """
    with _defined(project, target) as defined, _signals() as events:
        check_graph(defined.session, project, defined.graph_id)
        run = Run(project, CONTINUOUS, target.name, _clusters(project, defined.found), watcher)
        with _ending(run, STOPPED):
            run_continuously(defined.session, project, defined.found, pace, run, events)
        return run


def _clusters(project: Project, found: Definitions) -> dict[str, str]:
    """Return the addresses of all clusters that flows read, each with its security protocol."""
    own = {"kafka.bootstrap.servers": project.bootstrap_servers or "", **project.security_options}
    protocols: dict[str, str] = {}
    for options in [own, *(read.options for read in found.reads)]:
        given = {name.lower(): value for name, value in with_options_file(options).items()}
        servers = given.get("kafka.bootstrap.servers")
        if servers:
            protocols[servers] = (given.get("kafka.security.protocol") or PLAINTEXT).upper()
    return dict(sorted(protocols.items()))


@contextlib.contextmanager
def _ending(run: Run, state: str) -> Iterator[None]:
    """Keep how the run ended."""
    try:
        yield
    except Interrupted:
        run.end(STOPPED)
        raise
    except PipelineError as error:
        run.end(FAILED, error.message)
        raise
    except BaseException as error:
        run.end(FAILED, f"{type(error).__name__}: {error}")
        raise
    run.end(state)


@contextlib.contextmanager
def _ended_at_once() -> Iterator[None]:
    """Have Ctrl-C and its like end what the block does, wherever it is."""
    with _handling(signal.default_int_handler):
        try:
            yield
        except KeyboardInterrupt:
            raise Interrupted from None


@contextlib.contextmanager
def _signals() -> Iterator[EventQueue]:
    """Have Ctrl-C and its like put into a queue while the block runs."""
    events: EventQueue = EventQueue()
    with _handling(lambda signum, _: events.put(StopWanted(signum))):
        yield events


@contextlib.contextmanager
def _handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have signals handled so while the block runs; a terminal's end that is ignored stays so."""
    before = {
        number: signal.signal(number, handler)
        for number in _STOP_SIGNALS
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
