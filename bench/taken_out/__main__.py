"""Takes the checks of security out, one by one, and sees that the tests notice.

    scripts/taken-out                  all of the table (half an hour where others work, too)
    scripts/taken-out --group 13 14    those of some groups of docs/security-tests.md
    scripts/taken-out --word Origin    those with a word, or several, in their description
    scripts/taken-out --list           runs nothing

The table is bench/taken_out/checks: for each check its group, its text in the sources, what stands
there without it, and the tests which must fail then. The sources are copied to a temporary folder;
the tests of a row pass there first, and fail after its check was taken out.

Ends with 4 if a check can be taken out and a test of its row passes, and with 2 if a row does not
fit the sources.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.taken_out.run import Verdict, run_rows
from bench.taken_out.table import GROUPS, ROOT, Row, RowRefused, check_row, read_rows
from kafkaesque.cli.exit_codes import DAMAGED, OK, WRONG_USAGE

#: Characters that are shown of what has noticed.
SHOWN = 200


def read_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="scripts/taken-out",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--group", type=int, nargs="+", choices=GROUPS, metavar="N")
    parser.add_argument(
        "--word", nargs="+", default=[""], help="only rows with one of them in their description"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time (all cores)")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each test (120)")
    parser.add_argument("--list", action="store_true", help="show the rows and run nothing")
    return parser.parse_args()


def show(verdict: Verdict) -> None:
    """Print what came of one row."""
    row, words = verdict.row, verdict.words
    told = words if len(words) <= SHOWN else words[: SHOWN - 3] + "..."
    what = f"caught by {told}" if verdict.is_caught else f"NOT CAUGHT: {words}"
    print(f"{row.group:>2}  {row.check}\n      {what} [{verdict.seconds:.0f} s]", flush=True)


def summarize(verdicts: Sequence[Verdict]) -> str:
    """Return how many were caught, of each group and together."""
    lines = []
    for group in GROUPS:
        found = [each for each in verdicts if each.row.group == group]
        if found:
            caught = sum(each.is_caught for each in found)
            lines.append(f"group {group:>2}: {caught} of {len(found)} caught")
    missed = [f"NOT CAUGHT: {each.row}" for each in verdicts if not each.is_caught]
    caught = len(verdicts) - len(missed)
    lines += [*missed, f"{len(verdicts)} checks taken out: {caught} caught, {len(missed)} not"]
    return "\n".join(lines)


def choose(arguments: argparse.Namespace) -> list[Row]:
    """Return the rows that are asked for.

    Raises:
        RowRefused: one of the table does not fit.
    """
    rows = read_rows()
    for each in rows:
        check_row(each)
    groups = arguments.group or GROUPS
    return [
        each
        for each in rows
        if each.group in groups and any(word in each.check for word in arguments.word)
    ]


def main() -> int:
    """Run; return the exit status."""
    arguments = read_arguments()
    try:
        rows = choose(arguments)
    except RowRefused as error:
        print(error, file=sys.stderr)
        return WRONG_USAGE
    if arguments.list:
        for each in rows:
            print(f"{each.group:>2}  {each.check}\n      {each.file}")
        return OK
    with tempfile.TemporaryDirectory(prefix="taken-out-") as directory:
        verdicts = run_rows(
            rows, ROOT, Path(directory), jobs=arguments.jobs, limit_s=arguments.limit, say=show
        )
    print(f"\n{summarize(verdicts)}")
    return OK if all(each.is_caught for each in verdicts) else DAMAGED


if __name__ == "__main__":
    sys.exit(main())
