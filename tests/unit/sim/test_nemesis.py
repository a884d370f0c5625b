from itertools import pairwise

import pytest

from kafkaesque.sim.disk import SimDisk
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.faults import AROUND_CONTROLLER, KINDS, Fault, Ground, closed_files
from kafkaesque.sim.nemesis import (
    ALL,
    DAMAGING,
    GAP_MS_MAX,
    LOSING,
    OF_LINKS,
    SURVIVABLE,
    Nemesis,
    PlanOptions,
    check_plan,
    make_plan,
    plan_around_controller,
    plan_power_cuts,
)

NAMES = ["alpha", "beta", "gamma"]
OPTIONS = PlanOptions(duration_ms=60_000, between_ms=300, kinds=SURVIVABLE + DAMAGING + LOSING)


def make_world() -> World:
    world = World(1)
    for name in NAMES:
        world.add_machine(name).boot()
    return world


def restart(machine: Machine) -> None:
    machine.boot()


def test_a_plan_is_a_function_of_its_seed() -> None:
    assert make_plan(7, NAMES, OPTIONS) == make_plan(7, NAMES, OPTIONS)
    assert make_plan(7, NAMES, OPTIONS) != make_plan(8, NAMES, OPTIONS)


def test_plans_hold_every_kind_of_fault_within_their_time() -> None:
    plan = make_plan(1, NAMES, OPTIONS)
    assert {fault.kind for fault in plan} == set(SURVIVABLE + DAMAGING + LOSING)
    assert {fault.kind for fault in plan} == set(KINDS) - set(AROUND_CONTROLLER)
    assert all(1_000 <= fault.begin_ms < fault.end_ms <= 60_000 for fault in plan)
    assert [fault.begin_ms for fault in plan] == sorted(fault.begin_ms for fault in plan)
    assert any(len(fault.targets) == 3 for fault in plan if fault.kind in ("kill", "power cut"))


def test_partitions_come_in_many_shapes() -> None:
    options = PlanOptions(duration_ms=100_000, between_ms=100, kinds=("block",))
    names = ["a", "b", "c", "d", "e"]
    shapes = set()
    for fault in make_plan(1, names, options):
        pairs = list(zip(fault.targets[::2], fault.targets[1::2], strict=True))
        assert all(source != target for source, target in pairs)
        shapes.add(len(pairs))
    assert {8, 4, 12} <= shapes, "one alone both ways, one way, two halves"
    assert len(shapes) > 6


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no fault 'earthquake'"):
        make_plan(1, NAMES, PlanOptions(kinds=("earthquake",)))


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        (Fault(kind="earthquake", targets=("alpha",), begin_ms=0, end_ms=1), "no fault"),
        (Fault(kind="kill", targets=("delta",), begin_ms=0, end_ms=1), "no delta"),
        (Fault(kind="kill", targets=("alpha",), begin_ms=2, end_ms=1), "begins at 2"),
    ],
)
def test_a_plan_by_hand_is_checked(fault: Fault, wrong: str) -> None:
    check_plan(make_plan(7, NAMES, OPTIONS), NAMES)
    with pytest.raises(ValueError, match=wrong):
        check_plan([fault], NAMES)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_fault_begins_ends_and_is_told(kind: str) -> None:
    world = make_world()
    ground = Ground(world, restart, controller=lambda: "beta")
    is_of_links = kind in (*OF_LINKS, *AROUND_CONTROLLER)
    targets = ("alpha", "beta") if is_of_links else ("alpha",)
    fault = Fault(kind=kind, targets=targets, begin_ms=0, end_ms=10, strength=1.0)
    ground.begin(fault)
    lines = world.loop.history.lines()
    assert any(f"nemesis  begins: {kind} {' '.join(targets)}" in line for line in lines)
    ground.end(fault)
    ground.end(fault)
    assert all(machine.running and not machine.paused for machine in world.machines.values())
    assert not world.wire.link("alpha", "beta").blocked
    assert world.wire.link("alpha", "beta").extra_ms == 0
    assert world.machines["alpha"].drive.faults.capacity_bytes is None


@pytest.mark.parametrize("seed", range(5))
def test_when_a_plan_is_over_everything_is_healed(seed: int) -> None:
    world = make_world()
    nemesis = Nemesis(Ground(world, restart))
    nemesis.commit(make_plan(seed, NAMES, OPTIONS), 30_000)
    world.loop.run_for(29_999)
    ended = [nemesis.ended]
    world.loop.run_for(2)
    ended.append(nemesis.ended)
    assert ended == [False, True]
    count = len(world.loop.history.lines())
    world.loop.run_for(60_000)
    assert len(world.loop.history.lines()) == count, "nothing begins any more"
    for machine in world.machines.values():
        assert machine.running
        assert not machine.paused
        assert machine.drive.faults.slowness == 1.0
        assert machine.drive.faults.failing_syncs == 0
    for source in NAMES:
        for target in NAMES:
            link = world.wire.link(source, target)
            assert (link.blocked, link.extra_ms, link.loss) == (False, 0.0, 0.0)


def test_one_machine_of_a_plan_loses_its_disk_however_often() -> None:
    options = PlanOptions(duration_ms=100_000, between_ms=1_000, kinds=LOSING)
    losers = set()
    for seed in range(10):
        plan = make_plan(seed, NAMES, options)
        assert len(plan) > 10
        (targets,) = {fault.targets for fault in plan}
        losers.add(targets)
    assert len(losers) == len(NAMES)


def test_a_machine_with_a_lost_disk_comes_back_with_an_empty_one() -> None:
    world = make_world()
    machine = world.machines["alpha"]
    disk = SimDisk(machine.drive, machine._life)  # type: ignore[arg-type]
    disk.open("file", create=True)
    nemesis = Nemesis(Ground(world, restart))
    nemesis.commit(
        [Fault(kind="lost disk", targets=("alpha",), begin_ms=10, end_ms=20)], duration_ms=100
    )
    world.loop.run_for(15)
    was_running = machine.running
    world.loop.run_for(15)
    assert (was_running, machine.running) == (False, True)
    assert not machine.drive.volume.files()


def test_a_fault_begins_every_five_seconds_at_least() -> None:
    options = PlanOptions(duration_ms=300_000, between_ms=20_000, kinds=ALL)
    begins = [fault.begin_ms for fault in make_plan(3, NAMES, options)]
    assert max(after - before for before, after in pairwise(begins)) <= GAP_MS_MAX


def test_power_cuts_strike_all_and_leave_time_to_come_back() -> None:
    plan, end_ms = plan_power_cuts(1, NAMES, 50)
    assert len(plan) == 50
    assert all(fault.targets == tuple(NAMES) for fault in plan)
    assert all(before.end_ms < after.begin_ms for before, after in pairwise(plan))
    assert end_ms > plan[-1].end_ms


def test_a_flapping_link_comes_and_goes_until_it_is_whole_again() -> None:
    world = make_world()
    ground = Ground(world, restart)
    fault = Fault(kind="flapping", targets=("alpha", "beta"), begin_ms=0, end_ms=100, strength=10.0)
    ground.begin(fault)
    seen = []
    for _ in range(6):
        seen.append(world.wire.link("alpha", "beta").blocked)
        world.loop.run_for(10)
    assert seen == [True, False] * 3
    ground.end(fault)
    world.loop.run_for(100)
    assert not world.wire.link("alpha", "beta").blocked


def struck(world: World) -> set[tuple[str, str]]:
    links = [(source, target) for source in NAMES for target in NAMES]
    return {each for each in links if world.wire.link(*each).blocked}


def around(kind: str, *targets: str) -> Fault:
    return Fault(kind=kind, targets=targets, begin_ms=0, end_ms=10, strength=50.0)


@pytest.mark.parametrize(
    ("kind", "targets", "links"),
    [
        ("controller cut", ("alpha", "gamma"), {("alpha", "beta"), ("beta", "alpha")}),
        ("controller cut", ("beta", "gamma"), {("gamma", "beta"), ("beta", "gamma")}),
        ("deaf controller", ("beta", "gamma", "alpha"), {("alpha", "beta"), ("gamma", "beta")}),
        ("unheard controller", ("gamma", "alpha"), {("beta", "gamma")}),
        ("controller cut", ("beta",), set()),
    ],
)
def test_links_of_whoever_is_controller_are_struck(
    kind: str, targets: tuple[str, ...], links: set[tuple[str, str]]
) -> None:
    world = make_world()
    ground = Ground(world, restart, controller=lambda: "beta")
    fault = around(kind, *targets)
    ground.begin(fault)
    assert struck(world) == links
    ground.end(fault)
    assert not struck(world)


def test_a_broker_that_is_cut_off_hears_of_no_later_controller_either() -> None:
    world = make_world()
    controllers: list[str | None] = [None]
    ground = Ground(world, restart, controller=lambda: controllers[-1])
    fault = around("unheard controller", "alpha", "gamma")
    ground.begin(fault)
    seen = []
    for each in (None, "beta", "gamma", "alpha", "beta"):
        controllers.append(each)
        world.loop.run_for(1_000)
        seen.append(struck(world))
    assert seen == [set(), {("beta", "alpha")}, *[{("gamma", "alpha")}] * 2, {("beta", "alpha")}]
    ground.end(fault)
    world.loop.run_for(1_000)
    assert not struck(world)


def test_a_fault_on_several_links_stays_with_the_controller_that_it_found() -> None:
    world = make_world()
    controllers = ["beta"]
    ground = Ground(world, restart, controller=lambda: controllers[-1])
    ground.begin(around("unheard controller", "alpha", "gamma", "beta"))
    controllers.append("alpha")
    world.loop.run_for(1_000)
    assert struck(world) == {("beta", "alpha"), ("beta", "gamma")}
    ground.heal()
    world.loop.run_for(1_000)
    assert not struck(world)


def test_faults_around_the_controller_come_beside_the_others_and_some_are_long() -> None:
    options = PlanOptions(duration_ms=360_000)
    plans = [plan_around_controller(seed, NAMES, options) for seed in range(20)]
    assert plans == [plan_around_controller(seed, NAMES, options) for seed in range(20)]
    faults = [fault for plan in plans for fault in plan]
    assert {fault.kind for fault in faults} == set(AROUND_CONTROLLER)
    assert {len(fault.targets) for fault in faults} == {2, 3}
    lasting = [fault.end_ms - fault.begin_ms for fault in faults]
    assert max(lasting) > 20_000
    assert min(lasting) < 1_000
    assert 15 < len(faults) / len(plans) < 35
    assert all(1_000 <= fault.begin_ms < fault.end_ms <= 360_000 for fault in faults)


def test_brokers_are_restarted_one_after_another_each_when_the_one_before_is_back() -> None:
    world = make_world()
    stopped: list[str] = []
    back: set[str] = set()
    ground = Ground(
        world, restart, lambda machine: stopped.append(machine.name), lambda m: m.name in back
    )
    ground.begin(Fault(kind="rolling restart", targets=("beta", "alpha"), begin_ms=0, end_ms=9))
    world.loop.run_for(1_000)
    assert stopped == ["beta"]
    back.add("beta")
    world.loop.run_for(1_000)
    assert stopped == ["beta", "alpha"]


def test_only_files_that_nobody_writes_are_truncated() -> None:
    world = make_world()
    machine = world.machines["alpha"]
    disk = SimDisk(machine.drive, machine._life)  # type: ignore[arg-type]
    disk.make_dir("log-0")
    for path in ("log-0/0.log", "log-0/0.index", "log-0/7.log", "log-0/7.index", "meta.json"):
        disk.open(path, create=True).write_at(0, [bytes(100)])
    assert [path for path, _ in closed_files(machine)] == ["log-0/0.index", "log-0/0.log"]
    ground = Ground(world, restart)
    cut = Fault(kind="truncation", targets=("alpha",), begin_ms=0, end_ms=1, strength=0.5)
    for _ in range(20):
        ground.begin(cut)
    sizes = {path: len(inode.content) for path, inode in machine.drive.volume.files()}
    assert sizes["log-0/0.log"] < 100
    assert (sizes["log-0/7.log"], sizes["log-0/7.index"], sizes["meta.json"]) == (100, 100, 100)
