"""What goes wrong in a run, by what goes on in it."""

from collections.abc import Sequence
from dataclasses import replace

from kafkaesque.sim.faults import Fault
from kafkaesque.sim.nemesis import (
    OF_CLOCKS,
    OF_LINKS,
    OF_PROCESSES,
    PlanOptions,
    make_plan,
    plan_around_controller,
    plan_cut_links,
)
from kafkaesque.sim.options import SimOptions


def draw_plan(
    seed: int, brokers: Sequence[str], workers: Sequence[str], options: SimOptions
) -> list[Fault]:
    """Return all faults of a seed, but for those by which an unclean topic loses majorities."""
    kinds = options.kinds
    if options.steady_clocks and "namesakes" in options.activities:
        kinds = tuple(each for each in kinds if each not in OF_CLOCKS)
    drawn = PlanOptions(
        duration_ms=options.duration_ms,
        between_ms=options.between_ms,
        kinds=kinds,
        all_one_in=options.all_one_in,
        damaged=options.damaged,
    )
    plan = make_plan(seed, brokers, drawn)
    if "namesakes" in options.activities and "block" in kinds:
        plan += plan_cut_links(seed, brokers, drawn)
    if workers:
        alone = replace(drawn, kinds=tuple(each for each in drawn.kinds if each in OF_PROCESSES))
        links = replace(drawn, kinds=tuple(each for each in drawn.kinds if each in OF_LINKS))
        plan += make_plan(seed, workers, alone, "workers") if alone.kinds else []
        plan += make_plan(seed, [*brokers, *workers], links, "links") if links.kinds else []
    if options.strikes_controller:
        plan += plan_around_controller(seed, brokers, drawn)
    return plan
