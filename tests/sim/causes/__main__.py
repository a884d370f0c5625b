"""`python -m tests.sim.causes`: injects causes in simulated clusters, and prints the table."""

import argparse
import sys
from collections import defaultdict

from tests.sim.causes import every
from tests.sim.causes.table import HEALTHY, KINDS, Verdict

#: Of all answers to injected causes.
RIGHT_MIN = 0.95
ANSWER_MS_MAX = 1_000


def main() -> int:
    """Return 0 if the bounds are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many causes, at least")
    parser.add_argument("--seed", type=int, default=0, help="the first round's")
    parser.add_argument("--kind", action="append", help="only these kinds; may be repeated")
    parser.add_argument("--verbose", action="store_true", help="print each answer as it comes")
    asked = parser.parse_args()
    kinds = tuple(asked.kind or (*KINDS, HEALTHY))
    verdicts = []
    for verdict in every.draw(asked.count, asked.seed, kinds):
        verdicts.append(verdict)
        if asked.verbose:
            word = "right" if verdict.is_right else "WRONG"
            print(f"{word}  {verdict.injection.kind}: {verdict.injection.name}: {verdict.said}")
            sys.stdout.flush()
    return show(verdicts)


def show(verdicts: list[Verdict]) -> int:
    """Print the table, and what was wrong."""
    by_kind: dict[str, list[Verdict]] = defaultdict(list)
    for each in verdicts:
        by_kind[each.injection.kind].append(each)
    print(
        f"{'injected cause':<22}{'ways':>5}{'asked':>6}{'right first':>12}{'wrong, certain':>15}"
        f"{'slowest':>10}"
    )
    for kind in (*KINDS, HEALTHY):
        if by_kind[kind]:
            print(_row(kind, by_kind[kind]))
    injected = [each for each in verdicts if each.injection.kind != HEALTHY]
    print(_row("all causes", injected))
    for each in verdicts:
        if not each.is_right:
            print(
                f"wrong, seed {each.seed}, {each.injection.kind}: {each.injection.name}: "
                f"{each.said}"
            )
    right = sum(each.is_right for each in injected)
    is_kept = (
        right >= RIGHT_MIN * len(injected)
        and not any(each.is_misleading for each in verdicts)
        and all(each.virtual_ms < ANSWER_MS_MAX for each in verdicts)
        and all(each.is_right for each in by_kind[HEALTHY])
    )
    print("the bounds are kept" if is_kept else "the bounds are NOT kept")
    return 0 if is_kept else 1


def _row(name: str, verdicts: list[Verdict]) -> str:
    ways = len({(each.injection.kind, each.injection.name) for each in verdicts})
    right = sum(each.is_right for each in verdicts)
    misleading = sum(each.is_misleading for each in verdicts)
    slowest = max(each.virtual_ms for each in verdicts)
    return f"{name:<22}{ways:>5}{len(verdicts):>6}{right:>12}{misleading:>15}{slowest:>7.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
