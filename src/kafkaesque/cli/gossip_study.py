"""`kafkaesque sim gossip`: runs the experiments on all cores and prints what they found."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kafkaesque.cli.arguments import check_output, wrong_usage
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Screen, Table
from kafkaesque.sim.gossip.study import EXPERIMENTS, Findings, Piece, Scale, plan

QUICK = Scale(
    nodes=2_000,
    repeats=2,
    rounds_of=(10, 100, 1_000),
    clusters_of=(3, 10),
    kills=20,
    power_cuts=3,
    node_minutes=100,
    node_minutes_beside=40,
)


def run_study(
    seed: int,
    only: Sequence[str],
    *,
    is_quick: bool,
    jobs: int | None,
    plot: Path | None,
    json: bool,
) -> list[str]:
    """Run the experiments, print their tables, and return what is not as promised.

    Raises:
        CommandFailed: the charts cannot be written.
    """
    for each in only:
        if each not in EXPERIMENTS:
            words = f"--only {each} is not one of {', '.join(EXPERIMENTS)}"
            raise wrong_usage(words, f"--only {EXPERIMENTS[0]}")
    charted = {"rumours", "rounds", "failures"}
    if plot is not None and only and not charted & set(only):
        raise wrong_usage(f"there is no chart of {', '.join(only)}", "--only rumours")
    check_output(plot, "--plot")
    scale = QUICK if is_quick else Scale()
    pieces = plan(seed, scale, only or EXPERIMENTS)
    screen = Screen(json=json)
    found = {}
    with screen.progress("pieces", len(pieces)) as bar:
        for key, value in _run(pieces, jobs or os.cpu_count() or 1):
            found[key] = value
            bar.advance()
    findings = Findings(found)
    tables = findings.tables(scale)
    document = {
        "tables": [
            {"title": each.title, "columns": each.columns, "rows": each.rows} for each in tables
        ],
        "problems": findings.problems(),
    }
    shown = [Table(title=each.title, columns=each.columns, rows=each.rows) for each in tables]
    screen.show(shown, document)
    for problem in findings.problems():
        screen.note(f"not as promised: {problem}")
    if plot is not None:
        try:
            plot.write_text(findings.plot(scale), "utf-8")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CommandFailed(f"cannot write {plot}: {reason}") from None
    return findings.problems()


def _run(pieces: Sequence[Piece], jobs: int) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if jobs == 1:
        for piece in pieces:
            yield piece.run()
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(max_workers=jobs, mp_context=context) as pool:
        for future in as_completed([pool.submit(piece.run) for piece in pieces]):
            yield future.result()
