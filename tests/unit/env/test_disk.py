import pytest

from kafkaesque.env.disk import File
from kafkaesque.model.errors import DiskFailed
from tests.unit.env.worlds import World


def new_file(world: World, path: str = "file") -> File:
    return world.env.disk.open(path, create=True)


def test_open_creates_only_when_it_is_told_to(world: World) -> None:
    with pytest.raises(FileNotFoundError):
        world.env.disk.open("missing")
    assert not world.env.disk.exists("missing")
    file = new_file(world, "made")
    assert world.env.disk.exists("made")
    assert file.path == "made"
    assert file.size() == 0
    file.write_at(0, [b"kept"])
    assert world.env.disk.open("made", create=True).read_blocking(0, 10) == b"kept"


def test_writes_are_seen_at_once_by_every_reader(world: World) -> None:
    file = new_file(world)
    assert file.write_at(0, [b"abc", bytearray(b"def"), memoryview(b"ghi"), b""]) == 9
    assert file.size() == 9
    assert file.read_blocking(0, 100) == b"abcdefghi"
    assert file.read_blocking(4, 3) == b"efg"
    assert file.read_blocking(9, 3) == b""
    assert file.read_blocking(100, 3) == b""
    other = world.env.disk.open("file")
    assert other.size() == 9
    assert other.read_blocking(0, 3) == b"abc"
    file.write_at(3, [b"XYZ"])
    assert other.read_blocking(0, 9) == b"abcXYZghi"


def test_a_write_beyond_the_end_leaves_zeros_between(world: World) -> None:
    file = new_file(world)
    file.write_at(5000, [b"end"])
    assert file.size() == 5003
    assert file.read_blocking(0, 6000) == bytes(5000) + b"end"


def test_many_buffers_in_one_write(world: World) -> None:
    file = new_file(world)
    buffers = [b"%d," % number for number in range(3000)]
    expected = b"".join(buffers)
    assert file.write_at(10, buffers) == len(expected)
    assert file.read_blocking(10, len(expected)) == expected
    assert len(buffers) == 3000


def test_truncate_cuts_and_extends_with_zeros(world: World) -> None:
    file = new_file(world)
    file.write_at(0, [b"0123456789"])
    file.truncate(4)
    assert file.size() == 4
    file.truncate(8)
    assert file.size() == 8
    assert file.read_blocking(0, 100) == b"0123" + bytes(4)


def test_preallocate_extends_with_zeros_and_keeps_the_content(world: World) -> None:
    file = new_file(world)
    file.write_at(0, [b"kept"])
    file.preallocate(10_000)
    assert file.size() == 10_000
    assert file.read_blocking(0, 20_000) == b"kept" + bytes(9_996)
    file.preallocate(100)
    assert file.size() == 10_000


def test_read_cached_answers_bytes_or_nothing(world: World) -> None:
    file = new_file(world)
    file.write_at(0, [b"x" * 10_000])
    for position, length, expected in (
        (0, 10_000, b"x" * 10_000),
        (9_000, 5_000, b"x" * 1_000),
        (10_000, 10, b""),
        (20_000, 10, b""),
        (5, 0, b""),
    ):
        assert file.read_cached(position, length) in (expected, None)


def test_read_off_the_loop(world: World) -> None:
    file = new_file(world)
    file.write_at(0, [b"0123456789"])
    seen: list[bytes | DiskFailed] = []
    world.env.disk.read(file, 2, 3, seen.append)
    world.env.disk.read(file, 8, 30, seen.append)
    assert seen == []
    file.close()
    world.env.disk.remove("file")
    world.run_until(lambda: len(seen) == 2)
    assert sorted(map(bytes, seen)) == [b"234", b"89"]  # type: ignore[arg-type]


def test_sync_answers_in_a_later_turn(world: World) -> None:
    disk = world.env.disk
    disk.make_dir("dir/sub")
    files = [new_file(world, f"dir/sub/{number}") for number in range(5)]
    for file in files:
        file.write_at(0, [b"content"])
    seen: list[DiskFailed | None] = []
    disk.sync(files, seen.append, ["dir/sub", "dir", ""])
    disk.sync(files[:1], seen.append)
    disk.sync([], seen.append)
    assert seen == []
    world.run_until(lambda: len(seen) == 3)
    assert seen == [None, None, None]
    disk.sync_blocking(files, ["dir/sub"])


def test_syncing_a_directory_that_is_missing_fails(world: World) -> None:
    seen: list[DiskFailed | None] = []
    world.env.disk.sync([], seen.append, ["missing"])
    world.run_until(lambda: bool(seen))
    assert isinstance(seen[0], DiskFailed)
    assert "missing" in str(seen[0])
    with pytest.raises(DiskFailed, match="missing"):
        world.env.disk.sync_blocking([], ["missing"])


def test_names(world: World) -> None:
    disk = world.env.disk
    assert disk.list_dir("") == []
    assert disk.list_dir("a/b") == []
    disk.make_dir("a/b")
    disk.make_dir("a/b")
    new_file(world, "a/z")
    new_file(world, "a/c")
    assert disk.list_dir("a") == ["b", "c", "z"]
    assert disk.list_dir("a/c") == []
    assert disk.exists("a/b")
    disk.remove("a/c")
    disk.remove("a/c")
    assert disk.list_dir("a") == ["b", "z"]
    with pytest.raises(FileNotFoundError):
        disk.open("nowhere/file", create=True)


def test_rename_replaces_in_one_step(world: World) -> None:
    disk = world.env.disk
    new, old = new_file(world, "checkpoint.new"), new_file(world, "checkpoint")
    new.write_at(0, [b"new"])
    old.write_at(0, [b"old"])
    disk.rename("checkpoint.new", "checkpoint")
    assert disk.list_dir("") == ["checkpoint"]
    assert disk.open("checkpoint").read_blocking(0, 10) == b"new"
    assert old.read_blocking(0, 10) == b"old", "an open file stays what it was"
    disk.make_dir("topic-0")
    new_file(world, "topic-0/log").write_at(0, [b"log"])
    disk.rename("topic-0", "topic-0.deleted")
    assert disk.open("topic-0.deleted/log").read_blocking(0, 10) == b"log"
    assert not disk.exists("topic-0")
    with pytest.raises(FileNotFoundError):
        disk.rename("missing", "other")


def test_removed_trees_are_gone_at_once(world: World) -> None:
    disk = world.env.disk
    disk.make_dir("t/a/b")
    file = new_file(world, "t/a/b/file")
    file.write_at(0, [b"still readable"])
    disk.remove_tree("t")
    disk.remove_tree("t")
    disk.remove_tree("never/was")
    assert not disk.exists("t")
    assert disk.list_dir("") == []
    assert file.read_blocking(0, 5) == b"still"
    disk.make_dir("t")
    assert disk.list_dir("t") == []


def test_a_closed_file_is_not_written_any_more(world: World) -> None:
    file = new_file(world)
    file.write_at(0, [b"x"])
    file.close()
    file.close()
    with pytest.raises(DiskFailed):
        file.write_at(0, [b"y"])
    with pytest.raises(DiskFailed):
        file.truncate(0)


@pytest.mark.parametrize("path", ["/etc", "../up", "a/../../up", ".."])
def test_no_path_leads_out(world: World, path: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        world.env.disk.open(path, create=True)
    with pytest.raises(ValueError, match="leads out"):
        world.env.disk.exists(path)


def test_free_space_is_a_part_of_all_space(world: World) -> None:
    disk = world.env.disk
    assert 0 < disk.free_bytes() <= disk.total_bytes()


def test_a_dot_is_the_root(world: World) -> None:
    disk = world.env.disk
    file = disk.open("./file", create=True)
    disk.sync_blocking([file], ["."])
    assert disk.exists(".")
    assert "file" in disk.list_dir(".")


def test_work_runs_off_the_loop_and_its_errors_come_home(world: World) -> None:
    seen: list[tuple[object, str]] = []

    def done(result: object, error: Exception | None) -> None:
        seen.append((result, repr(error)))

    def broken() -> object:
        raise ValueError("bad input")

    world.env.disk.run(lambda: 6 * 7, done)
    world.env.disk.run(broken, done)
    assert seen == []
    world.run_until(lambda: len(seen) == 2)
    assert sorted(seen, key=repr) == [(42, "None"), (None, "ValueError('bad input')")]
