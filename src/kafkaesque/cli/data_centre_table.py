"""The table of lost data centres, for people and for programs."""

from kafkaesque.cli.screen import Screen, Table
from kafkaesque.sim.data_centres import Outcome, play, rows


def show_table(seed: int, *, json: bool) -> int:
    """Play the rows one after the other and show what came of them; return how many are wrong."""
    screen = Screen(json=json)
    outcomes = []
    table = rows()
    with screen.progress("rows", len(table)) as bar:
        for row in table:
            outcomes.append(play(row, seed))
            bar.advance()
    screen.show(_table(outcomes), [_document(outcome) for outcome in outcomes])
    return sum(not outcome.is_unclean and bool(outcome.lost) for outcome in outcomes)


def _document(outcome: Outcome) -> dict[str, object]:
    row = outcome.row
    return {
        "layout": row.layout.name,
        "replication_factor": row.replication_factor,
        "min_insync_replicas": row.min_insync,
        "unclean": row.is_unclean_allowed,
        "lost_data_centre": row.lost,
        "writable_after_ms": outcome.writable_after_ms,
        "readable_after_ms": outcome.readable_after_ms,
        "acknowledged": outcome.acknowledged,
        "lost": outcome.lost,
        "given_up": outcome.given_up,
        "unclean_election": outcome.is_unclean,
    }


def _table(outcomes: list[Outcome]) -> Table:
    columns = ("data centres", "RF", "min ISR", "unclean", "lost", "written", "read", "gone")
    return Table(
        columns=columns,
        rows=[
            (
                outcome.row.layout.name,
                outcome.row.replication_factor,
                outcome.row.min_insync,
                "on" if outcome.row.is_unclean_allowed else "off",
                outcome.row.lost,
                _after(outcome.writable_after_ms),
                _after(outcome.readable_after_ms),
                outcome.lost,
            )
            for outcome in outcomes
        ],
        title="One data centre is lost: time until acks=all and reads work again, messages lost",
    )


def _after(ms: int | None) -> str:
    return "when it is back" if ms is None else f"{ms / 1000:.1f} s"
