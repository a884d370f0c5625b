"""Work in steps, on both worlds."""

from kafkaesque.env.disk import StepRun
from kafkaesque.model.errors import DiskFailed
from tests.unit.env import steps
from tests.unit.env.worlds import World


class Work:
    """What came of a piece of work; it goes on by itself for so many steps."""

    def __init__(self, goes_on: int) -> None:
        self.steps: list[int] = []
        self.done: list[tuple[object, Exception | None]] = []
        self.run: StepRun | None = None
        self._goes_on = goes_on

    def on_step(self, step: int) -> None:
        assert not self.done
        self.steps.append(step)
        if len(self.steps) <= self._goes_on:
            assert self.run is not None
            self.run.go_on()

    def on_done(self, result: object, error: Exception | None) -> None:
        self.done.append((result, error))


def test_work_in_steps_gives_each_step_and_its_result(world: World) -> None:
    for _ in range(2):
        work = Work(20)
        work.run = world.env.disk.run_steps(steps.count, 12, work.on_step, work.on_done)
        assert not work.steps, "not within the call that asks for it"
        world.run_until(lambda: bool(work.done))  # noqa: B023
        assert work.steps == list(range(12))
        assert work.done == [("012345678901", None)]
    assert world.env.disk.exists("counted")


def test_work_waits_after_each_step(world: World) -> None:
    work = Work(3)
    work.run = world.env.disk.run_steps(steps.count, 12, work.on_step, work.on_done)
    world.run_until(lambda: len(work.steps) == 4)
    world.settle()
    assert work.steps == [0, 1, 2, 3]
    work.run.go_on()
    world.run_until(lambda: len(work.steps) == 5)
    world.settle()
    assert len(work.steps) == 5
    work.run.stop()
    world.run_until(lambda: bool(work.done))


def test_work_that_is_stopped_cleans_up_and_tells(world: World) -> None:
    work = Work(3)
    work.run = world.env.disk.run_steps(steps.count, 12, work.on_step, work.on_done)
    world.run_until(lambda: len(work.steps) == 4)
    assert world.env.disk.exists("counted")
    work.run.stop()
    world.run_until(lambda: bool(work.done))
    world.settle()
    assert work.done == [(None, None)]
    assert len(work.steps) == 4
    assert not world.env.disk.exists("counted")


def test_work_can_be_stopped_in_the_middle_of_a_step(world: World) -> None:
    work = Work(100)
    work.run = world.env.disk.run_steps(steps.count, 12, work.on_step, work.on_done)
    work.run.stop()
    world.run_until(lambda: bool(work.done))
    world.settle()
    assert work.done == [(None, None)]
    assert not world.env.disk.exists("counted")


def test_work_that_fails_says_why(world: World) -> None:
    work = Work(100)
    work.run = world.env.disk.run_steps(steps.fail, "no such luck", work.on_step, work.on_done)
    world.run_until(lambda: bool(work.done))
    ((result, error),) = work.done
    assert result is None
    assert isinstance(error, DiskFailed)
    assert str(error) == "no such luck"
