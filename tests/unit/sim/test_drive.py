"""What a power cut, and a drive with faults, may do to files."""

import random

import pytest

from kafkaesque.env import Env
from kafkaesque.model.errors import DiskFailed, DiskFull
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.inode import SECTOR_BYTES


def machine_of(seed: int) -> Machine:
    return World(seed).add_machine("alpha")


def read_all(env: Env, path: str) -> bytes:
    return env.disk.open(path).read_blocking(0, 1 << 30)


def after_power_cut(machine: Machine) -> Env:
    machine.cut_power()
    assert not machine.running
    return machine.boot()


@pytest.mark.parametrize("seed", range(20))
def test_what_was_synced_survives_and_a_kill_loses_nothing_at_all(seed: int) -> None:
    machine = machine_of(seed)
    env = machine.boot()
    env.disk.make_dir("topic")
    file = env.disk.open("topic/log", create=True)
    file.write_at(0, [b"synced" * 1000])
    env.disk.sync_blocking([file], ["topic", ""])
    machine.kill()
    env = machine.boot()
    file = env.disk.open("topic/log")
    file.write_at(6000, [b"unsynced"])
    machine.kill()
    env = machine.boot()
    assert read_all(env, "topic/log") == b"synced" * 1000 + b"unsynced"
    env = after_power_cut(machine)
    assert read_all(env, "topic/log")[:6000] == b"synced" * 1000


def outcome(seed: int) -> str:
    machine = machine_of(seed)
    env = machine.boot()
    file = env.disk.open("log", create=True)
    file.write_at(0, [b"a" * 10_000])
    env.disk.sync_blocking([file], [""])
    file.write_at(5_000, [b"b" * 10_000])
    content = read_all(after_power_cut(machine), "log")
    assert content[:4_608] == b"a" * 4_608, "no other sector was touched"
    expected = b"a" * 5_000 + b"b" * 10_000
    if content == expected:
        return "all"
    if content == b"a" * 10_000:
        return "nothing"
    for at in range(0, len(content), SECTOR_BYTES):
        old = (b"a" * 10_000)[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
        new = expected[at : at + SECTOR_BYTES]
        sector = content[at : at + SECTOR_BYTES]
        assert sector in (old[: len(sector)], new[: len(sector)])
    return "torn"


def test_what_was_not_synced_is_kept_lost_or_torn() -> None:
    outcomes = [outcome(seed) for seed in range(60)]
    assert {"all", "nothing", "torn"} == set(outcomes)


@pytest.mark.parametrize("seed", range(30))
def test_every_surviving_sector_was_once_written_since_the_last_sync(seed: int) -> None:
    """Random writes, cuts and syncs on one file, against a model that remembers every state."""
    chance = random.Random(seed)
    machine = machine_of(seed)
    env = machine.boot()
    file = env.disk.open("log", create=True)
    env.disk.sync_blocking([file], [""])
    states = [b""]
    current = bytearray()
    for step in range(40):
        action = chance.randrange(10)
        if action < 6:
            at = chance.randint(0, len(current) + 3_000)
            data = bytes([1 + step]) * chance.randint(1, 6_000)
            file.write_at(at, [data])
            current.extend(bytes(max(0, at - len(current))))
            current[at : at + len(data)] = data
            states.append(bytes(current))
        elif action < 8:
            size = chance.randint(0, len(current) + 2_000)
            file.truncate(size)
            current = bytearray(bytes(current[:size]).ljust(size, b"\0"))
            states.append(bytes(current))
        elif action < 9:
            env.disk.sync_blocking([file])
            states = [bytes(current)]
        else:
            env = after_power_cut(machine)
            file = env.disk.open("log")
            content = file.read_blocking(0, 1 << 30)
            check_survivors(content, states)
            # What is there after a restart was on the device all along.
            current = bytearray(content)
            states = [content]


def check_survivors(content: bytes, states: list[bytes]) -> None:
    sizes = [len(state) for state in states]
    assert min(sizes) <= len(content) <= max(sizes)
    for at in range(0, len(content), SECTOR_BYTES):
        sector = content[at : at + SECTOR_BYTES]
        possible = [
            state[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")[: len(sector)]
            for state in states
        ]
        assert sector in (*possible, bytes(len(sector)))


def test_a_sync_covers_what_was_written_before_it_was_asked_for() -> None:
    lost = 0
    for seed in range(30):
        machine = machine_of(seed)
        env = machine.boot()
        file = env.disk.open("log", create=True)
        env.disk.sync_blocking([], [""])
        file.write_at(0, [b"before" * 1_000])
        synced: list[object] = []
        env.disk.sync([file], synced.append)
        file.write_at(0, [b"AFTER!" * 1_000])
        machine.world.loop.run_until(lambda synced=synced: bool(synced))  # type: ignore[misc]
        assert synced == [None]
        content = read_all(after_power_cut(machine), "log")
        assert len(content) == 6_000
        for at in range(0, 6_000, SECTOR_BYTES):
            assert content[at : at + SECTOR_BYTES] in (
                (b"before" * 1_000)[at : at + SECTOR_BYTES],
                (b"AFTER!" * 1_000)[at : at + SECTOR_BYTES],
            )
        lost += content == b"before" * 1_000
    assert lost > 0


def test_a_power_cut_in_the_midst_of_a_sync_promises_nothing() -> None:
    seen = set()
    for seed in range(40):
        machine = machine_of(seed)
        env = machine.boot()
        file = env.disk.open("log", create=True)
        env.disk.sync_blocking([], [""])
        file.write_at(0, [b"x" * 512])
        synced: list[object] = []
        env.disk.sync([file], synced.append)
        machine.world.loop.run_for(0.05)
        env = after_power_cut(machine)
        machine.world.loop.run_for(100)
        assert synced == []
        seen.add(read_all(env, "log"))
    assert {b"", b"x" * 512} <= seen


def test_names_survive_in_the_order_in_which_they_were_made() -> None:
    seen = set()
    for seed in range(60):
        machine = machine_of(seed)
        env = machine.boot()
        for name in "abcd":
            env.disk.open(name, create=True)
        env.disk.rename("a", "e")
        env.disk.remove("b")
        seen.add("".join(after_power_cut(machine).disk.list_dir("")))
    assert seen <= {"", "a", "ab", "abc", "abcd", "bcde", "cde"}
    assert {"", "cde"} < seen


def test_synced_names_survive_together_with_what_they_depend_on() -> None:
    for seed in range(30):
        machine = machine_of(seed)
        env = machine.boot()
        env.disk.make_dir("x")
        env.disk.make_dir("y")
        env.disk.sync_blocking([], [""])
        env.disk.open("x/file", create=True)
        env.disk.rename("x/file", "y/file")
        env.disk.sync_blocking([], ["y"])
        disk = after_power_cut(machine).disk
        assert disk.list_dir("y") == ["file"]
        assert disk.list_dir("x") == [], "it does not come back under its old name"


def test_a_replaced_file_is_the_old_one_or_the_new_one() -> None:
    seen = set()
    for seed in range(40):
        machine = machine_of(seed)
        env = machine.boot()
        for name, content in (("checkpoint", b"old"), ("checkpoint.new", b"new")):
            file = env.disk.open(name, create=True)
            file.write_at(0, [content])
            env.disk.sync_blocking([file], [""])
        env.disk.rename("checkpoint.new", "checkpoint")
        seen.add(read_all(after_power_cut(machine), "checkpoint"))
    assert seen == {b"old", b"new"}


def test_after_a_failed_sync_the_data_is_gone_at_the_next_power_cut() -> None:
    machine = machine_of(1)
    env = machine.boot()
    file = env.disk.open("log", create=True)
    file.write_at(0, [b"old." * 2_000])
    env.disk.sync_blocking([file], [""])
    file.write_at(0, [b"new!" * 2_000])
    machine.drive.faults.failing_syncs = 1
    failed: list[DiskFailed | None] = []
    env.disk.sync([file], failed.append)
    machine.world.loop.run_until(lambda: bool(failed))
    assert isinstance(failed[0], DiskFailed)
    assert file.read_blocking(0, 8) == b"new!new!", "the cache goes on showing it"
    env.disk.sync_blocking([file])
    file.write_at(4_096, [b"NEW!" * 1_000])
    env.disk.sync_blocking([file])
    content = read_all(after_power_cut(machine), "log")
    assert content[:4_096] == b"old." * 1_024, "the second sync said nothing about it"
    assert content[4_096:8_000] == b"NEW!" * 976


def test_a_full_drive_takes_a_part_and_says_so() -> None:
    machine = machine_of(1)
    disk = machine.boot().disk
    file = disk.open("log", create=True)
    machine.drive.faults.capacity_bytes = 1_000
    file.write_at(0, [b"x" * 800])
    assert (disk.free_bytes(), disk.total_bytes()) == (200, 1_000)
    with pytest.raises(DiskFull):
        file.write_at(800, [b"y" * 300])
    assert 800 <= file.size() <= 1_000
    with pytest.raises(DiskFull):
        file.preallocate(2_000)
    file.write_at(0, [b"z" * 800])
    machine.drive.faults.capacity_bytes = None
    file.write_at(800, [b"y" * 300])


def test_failing_reads_and_writes() -> None:
    machine = machine_of(1)
    env = machine.boot()
    file = env.disk.open("log", create=True)
    faults = machine.drive.faults
    faults.failing_writes = 1
    with pytest.raises(DiskFailed, match="cannot write log"):
        file.write_at(0, [b"x"])
    file.write_at(0, [b"x"])
    faults.failing_reads = 2
    with pytest.raises(DiskFailed, match="cannot read log"):
        file.read_blocking(0, 1)
    answers: list[bytes | DiskFailed] = []
    env.disk.read(file, 0, 1, answers.append)
    machine.world.loop.run_until(lambda: bool(answers))
    assert isinstance(answers[0], DiskFailed)
    assert file.read_blocking(0, 1) == b"x"


def test_damage_that_nobody_reports() -> None:
    machine = machine_of(1)
    file = machine.boot().disk.open("log", create=True)
    file.write_at(0, [bytes(20_000)])
    assert "flipped" in machine.drive.flip_bit("log")
    assert sum(byte.bit_count() for byte in file.read_blocking(0, 20_000)) == 1
    assert "nothing" in machine.drive.flip_bit("missing")
    machine.drive.faults.misdirected_writes = 1
    file.write_at(20_000, [b"x" * 100])
    assert file.size() >= 20_100
    everything = file.read_blocking(0, 1 << 30)
    assert everything.count(b"x" * 100) == 1
    file.write_at(20_000, [b"y" * 100])
    assert file.read_blocking(20_000, 100) == b"y" * 100


def test_old_ranges_are_cold_now_and_then_and_warm_after_a_read() -> None:
    machine = machine_of(1)
    env = machine.boot()
    file = env.disk.open("log", create=True)
    file.write_at(0, [bytes(20_000_000)])
    cold = [at for at in range(0, 19_000_000, 200_000) if file.read_cached(at, 100) is None]
    assert 10 < len(cold) < 60
    assert all(file.read_cached(19_900_000, 100_000) is not None for _ in range(50))
    for at in cold:
        answers: list[object] = []
        env.disk.read(file, at, 100, answers.append)
        machine.world.loop.run_until(lambda answers=answers: bool(answers))  # type: ignore[misc]
        assert file.read_cached(at, 100) == bytes(100)


def test_a_slow_drive_is_slow() -> None:
    times = []
    for slowness in (1.0, 100.0):
        machine = machine_of(3)
        machine.drive.faults.slowness = slowness
        env = machine.boot()
        synced: list[object] = []
        for _ in range(20):
            env.disk.sync([], synced.append)
        machine.world.loop.run_until(lambda synced=synced: len(synced) == 20)  # type: ignore[misc]
        times.append(machine.world.loop.now_ns)
    assert times[1] > 50 * times[0]
