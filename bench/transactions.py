"""What transactions cost: messages in transactions beside the same messages without.

    scripts/bench --only transactions

Each round runs, on each side and one after the other, producers that send 100 messages of 1 KB in a
transaction, idempotent ones that wait for 100 messages before the next, and idempotent ones that
wait for nothing. Beside the throughput the share of the first in the others is shown, round by
round, so that what else the machine does meets both.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from bench.contest import Case, Contest, Figures, Side, topic_of
from bench.load import run_load

PARTITIONS = 6
MESSAGE_BYTES = 1000
MESSAGES_PER_TRANSACTION = 100
PRODUCERS = (1, 16)
KINDS = {
    "transactional": "in transactions",
    "flushed": "idempotent, waiting for each 100",
    "plain": "idempotent",
}
WARM_UP_S = 5.0


def measure_transactions(contest: Contest) -> None:
    """Produce in transactions, and without, with one producer and with many."""
    for brokers in (3,) if contest.settings.quick else (1, 3):
        with contest.clusters(brokers) as sides:
            seconds = min(WARM_UP_S, contest.settings.seconds)
            for side in sides:
                for kind in KINDS:
                    _run(side, kind, PRODUCERS[-1], sync=False, seconds=seconds)
            for sync, producers in product((False, True), PRODUCERS):
                turn = partial(_compare, contest, brokers, producers, sync)
                contest.take_turns(sides, turn)


def _run(side: Side, kind: str, producers: int, *, sync: bool, seconds: float) -> dict[str, float]:
    with topic_of(side, partitions=PARTITIONS, sync=sync) as topic:
        return run_load(
            "parcels",
            side.bootstrap_servers,
            topic,
            kind=kind,
            producers=producers,
            parcel=MESSAGES_PER_TRANSACTION,
            size=MESSAGE_BYTES,
            seconds=seconds,
        )


def _compare(contest: Contest, brokers: int, producers: int, sync: bool, side: Side) -> Figures:
    who = "1 producer" if producers == 1 else f"{producers} producers"
    where = "1 broker" if brokers == 1 else f"{brokers} brokers"
    detail = f"{who}, {'sync' if sync else 'no sync'}, {where}"
    figures: dict[Case, float] = {}
    rates: dict[str, float] = {}
    for kind, name in KINDS.items():
        found = _run(side, kind, producers, sync=sync, seconds=contest.settings.seconds)
        rates[kind] = found["messages"] * MESSAGE_BYTES / found["seconds"] / 1e6
        case = Case(measure=name, detail=detail, unit="MB/s", higher_is_better=True)
        figures[case] = rates[kind]
        if kind == "transactional":
            wait = Case(measure="a commit takes", detail=detail, unit="ms", higher_is_better=False)
            figures[wait] = found["wait_ms"]
    for kind in ("flushed", "plain"):
        name = f"in transactions / {KINDS[kind]}"
        case = Case(measure=name, detail=detail, unit="share", higher_is_better=True)
        figures[case] = rates["transactional"] / rates[kind]
    return figures
