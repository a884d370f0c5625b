"""Where a log starts, when its end moves back before that."""

import pytest

from kafkaesque.model.ids import Term
from tests.unit.storage.helpers import World, add, read_all


@pytest.mark.parametrize("write_caching", [False, True])
@pytest.mark.parametrize("crash", ["kill", "power cut", "restart"])
@pytest.mark.parametrize("how", ["cut", "snapshot", "cut after a checkpoint"])
def test_what_comes_where_something_else_was_given_up_is_there(
    how: str, crash: str, write_caching: bool
) -> None:
    world = World()
    log = world.log(write_caching=write_caching)
    if how == "snapshot":
        # It is to start where it has yet to grow to, and then another leader says nothing of that.
        log.reset_to(start_offset=30, base_offset=20, index=20, term=Term(1))
        log.cap_start()
    else:
        for _ in range(4):
            add(log, 1, 10)
        world.commit()
        log.advance_start(30)
        if how == "cut after a checkpoint":
            world.restart()
            log = world.log(write_caching=write_caching)
        log.truncate_to(20)
    assert (log.start_offset, log.end_offset) == (20, 20)
    for _ in range(3):
        add(log, 2, 10)
    world.commit()
    data = read_all(log)
    for _ in range(2):
        {"kill": world.kill, "power cut": world.power_cut, "restart": world.restart}[crash]()
        log = world.log(write_caching=write_caching)
        assert (log.start_offset, log.end_offset) == (20, 50)
        assert read_all(log) == data


def test_a_log_that_starts_before_its_end_keeps_its_start() -> None:
    world = World()
    log = world.log()
    for _ in range(4):
        add(log, 1, 10)
    world.commit()
    log.advance_start(20)
    log.truncate_to(30)
    log.cap_start()
    assert (log.start_offset, log.end_offset) == (20, 30)
    assert [log.term_before(offset) for offset in (0, 1, 30, 31)] == [-1, 1, 1, -1]
    world.commit()
    world.kill()
    assert world.log().start_offset == 20
