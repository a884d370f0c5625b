"""One broker's machine: its process, its disk, its clock, and how to strike each of them."""

from __future__ import annotations

import errno
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from bench.processes import BrokerProcess
from kafkaesque.cli.read_only_disk import read_only_disk
from kafkaesque.storage.checkpoint import load_checkpoint
from kafkaesque.storage.errors import StorageCorrupt

#: A broker that ends because its disk fails is started again after this time.
AGAIN_S: Final = 1.0
#: How often it is looked whether a broker has given up its disk.
LOOK_S: Final = 1.0
#: A broker that was told to stop and has not is killed, and that is reported.
STOP_S_MAX: Final = 30.0
DISK_BYTES: Final = 3 << 30
_PAGE_BYTES: Final = 4096
#: `struct control` of interpose.c, up to `faults`.
_CONTROL: Final = struct.Struct("qqiiii")
_DAMAGED_STATUS: Final = 4


class Wanted(Enum):
    """What a machine's program is to do, as far as the nemesis has said."""

    RUNNING = auto()
    STOPPED = auto()
    #: Told to end in order; it is started again when it has.
    STOPPING = auto()
    #: Its files are being read by `kafkaesque log verify`; then it is started.
    CHECKED = auto()


class Control:
    """The page of memory that tells a process what its clock and its disk do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(_PAGE_BYTES))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _PAGE_BYTES)
        self.clock_offset_ms = 0.0
        self.sync_delay_ms = 0.0
        self.failing: dict[str, bool] = {"syncs": False, "writes": False, "reads": False}

    def apply(self) -> None:
        """Let the process see what this object says; what has failed so far stays counted."""
        numbers = [errno.EIO if self.failing[what] else 0 for what in self.failing]
        _CONTROL.pack_into(
            self._page,
            0,
            int(self.clock_offset_ms * 1e6),
            int(self.sync_delay_ms * 1e3),
            *numbers,
            self.failures,
        )

    @property
    def failures(self) -> int:
        """How many calls were made to fail."""
        return int(_CONTROL.unpack_from(self._page)[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What was done to a file."""

    partition: Path
    text: str
    #: Whether the checkpoint answers for it; what is newer is restored from the write-ahead log.
    is_durable: bool


class Machine:
    """A broker; everything here is called from one thread, which outlives the process."""

    def __init__(
        self,
        name: str,
        *,
        home: Path,
        address: str,
        port: int,
        enter: Sequence[str],
        interposer: Path | None,
        say: Callable[[str], None],
        anomaly: Callable[[str], None],
    ) -> None:
        self.name = name
        self.address = address
        self.port = port
        self.disk = home / "disk"
        self.data = self.disk / "data"
        self.control = Control(home / "control")
        self._say = say
        self._anomaly = anomaly
        self._wanted = Wanted.STOPPED
        self._is_paused = False
        self._damage: Damage | None = None
        self._checker: subprocess.Popen[bytes] | None = None
        self._told_at = 0.0
        self._ended_at: float | None = None
        self._failures_at_start = 0
        #: Whether its disk was too full since it was started.
        self._was_full = False
        self._filler = self.disk / "filler"
        self.own_ends = 0
        #: How often it had given up its disk, and was restarted for that when the disk was well.
        self.repairs = 0
        self._looked_at = 0.0
        environment = {"CHAOS_CONTROL": str(self.control.path), "CHAOS_DISK": str(self.disk)}
        if interposer is not None:
            environment["LD_PRELOAD"] = str(interposer)
        self.configuration = home / "broker.toml"
        self.log_path = home / "broker.log"
        self._log_at = 0
        command = [sys.executable, "-m", "kafkaesque.server", "--config", str(self.configuration)]
        self._process = BrokerProcess(
            [*enter, *command], log_path=self.log_path, port=port, environment=environment
        )

    def __str__(self) -> str:
        return f"broker {self.name}"

    # -- the process

    @property
    def is_running(self) -> bool:
        """Whether there is a process, stopped in its tracks or not."""
        return self._process.is_running()

    @property
    def has_run(self) -> bool:
        """Whether it was ever started."""
        return self.log_path.exists()

    @property
    def is_wanted(self) -> bool:
        """Whether it is to run, and nobody has stopped it."""
        return self._wanted is Wanted.RUNNING and not self._is_paused

    @property
    def is_ready(self) -> bool:
        """Whether it has said that it serves since it was started last."""
        return self.is_running and self._has_said(b"is ready: ")

    def start(self) -> None:
        """Start the program, if it does not run."""
        self._wanted = Wanted.RUNNING
        self._ended_at = None
        if not self.is_running:
            self._log_at = self.log_path.stat().st_size if self.log_path.exists() else 0
            self._failures_at_start = self.control.failures
            self._was_full = self._filler.exists()
            self._process.start()

    def kill(self) -> None:
        """End the program as SIGKILL does."""
        self._wanted = Wanted.STOPPED
        self.resume()
        self._process.kill()

    def terminate(self) -> None:
        """Ask the program to end; it stays away."""
        self._wanted = Wanted.STOPPED
        self.resume()
        if self.is_running:
            os.kill(self._process.pid, signal.SIGTERM)

    def restart(self) -> None:
        """Let the program end in order, and begin again."""
        if not self.is_running:
            self.start()
            return
        self._wanted = Wanted.STOPPING
        self._told_at = time.monotonic()
        os.kill(self._process.pid, signal.SIGTERM)

    def pause(self) -> None:
        """Stop the program in its tracks."""
        if self.is_running and not self._is_paused:
            os.kill(self._process.pid, signal.SIGSTOP)
            self._is_paused = True

    def resume(self) -> None:
        """Let it go on."""
        if self._is_paused and self.is_running:
            os.kill(self._process.pid, signal.SIGCONT)
        self._is_paused = False

    def heal(self) -> None:
        """Let the program run, with room on its disk."""
        self.resume()
        self.empty()
        if self._wanted is Wanted.STOPPED:
            self.start()

    def tick(self) -> None:
        """Go on with what takes time: start what has ended, and judge why it did."""
        now = time.monotonic()
        if self._wanted is Wanted.STOPPING:
            if not self.is_running:
                self.start()
            elif now > self._told_at + STOP_S_MAX:
                self._say(f"{self} has not stopped within {STOP_S_MAX:.0f} s; it is killed")
                self._process.kill()
        elif self._wanted is Wanted.CHECKED:
            self._go_on_checking()
        elif self._wanted is Wanted.RUNNING and not self.is_running:
            self._on_own_end(now)
        elif self.is_wanted and now > self._looked_at + LOOK_S:
            self._looked_at = now
            if not self._is_struck and self._has_said(b"event=disk.failed"):
                self.repairs += 1
                self._say(f"{self} has given up its disk, which is well again: it is restarted")
                self.restart()

    @property
    def _is_struck(self) -> bool:
        return any(self.control.failing.values()) or self._filler.exists()

    def _has_said(self, text: bytes) -> bool:
        """Return whether something stands in its log since it was started last."""
        if not self.log_path.exists():
            return False
        with self.log_path.open("rb") as log:
            log.seek(self._log_at)
            return text in log.read()

    def _on_own_end(self, now: float) -> None:
        if self._ended_at is None:
            self._ended_at = now
            has_reason = self._was_full or self.control.failures > self._failures_at_start
            self.own_ends += 1
            if has_reason:
                self._say(f"{self} has ended, because of its disk")
            else:
                tail = self._process.log_tail()
                self._anomaly(f"broker ended: {self} has ended by itself: {tail}")
        elif now > self._ended_at + AGAIN_S:
            self.start()

    # -- the disk

    def mount(self) -> bool:
        """Give the machine a file system of its own; False: it stays on the run's."""
        self.disk.mkdir(parents=True, exist_ok=True)
        image = self.disk.parent / "disk.img"
        with image.open("wb") as file:
            file.truncate(DISK_BYTES)
        for command in (
            ["mkfs.ext4", "-q", "-m", "0", str(image)],
            ["mount", "-o", "loop,noatime", str(image), str(self.disk)],
        ):
            if shutil.which(command[0]) is None:
                return False
            done = subprocess.run(command, capture_output=True)
            if done.returncode:
                self._say(done.stderr.decode(errors="replace").strip())
                image.unlink()
                return False
        return True

    def unmount(self) -> None:
        """Take the file system away, and what was on it."""
        image = self.disk.parent / "disk.img"
        if image.exists():
            subprocess.run(["umount", "--lazy", str(self.disk)], capture_output=True)
            image.unlink()

    def fill(self, left_bytes: int) -> None:
        """Leave so much room on its disk."""
        room = os.statvfs(self.disk)
        size = room.f_bavail * room.f_frsize - left_bytes
        self._was_full = True
        with self._filler.open("wb") as file:
            while size >= room.f_frsize:
                try:
                    os.posix_fallocate(file.fileno(), 0, size)
                except OSError:
                    size -= 1 << 20
                else:
                    return

    def empty(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)

    def lose_disk(self) -> None:
        """Kill the program and remove all that it had."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)

    def damage(self, kind: str, dice: random.Random) -> str | None:
        """Kill the program and damage a closed file; return what was done, None: nothing can be.

        It starts again when `kafkaesque log verify` has read its files.
        """
        self.kill()
        closed = [
            segment
            for directory in sorted(self.data.glob("*-*"))
            for segment in sorted(directory.glob("*.log"))[:-1]
            if segment.stat().st_size
        ]
        if not closed:
            self.start()
            return None
        segment = dice.choice(closed)
        size = segment.stat().st_size
        if kind == "truncation":
            at = dice.randrange(size)
            os.truncate(segment, at)
            what = f"cut from {size} to {at} bytes"
        else:
            at, bit = dice.randrange(size), dice.randrange(8)
            with segment.open("r+b") as file:
                file.seek(at)
                byte = file.read(1)[0] ^ (1 << bit)
                file.seek(at)
                file.write(bytes([byte]))
            what = f"bit {bit} of byte {at} of {size} flipped"
        self._damage = Damage(
            partition=segment.parent,
            text=f"{segment.name}: {what}",
            is_durable=at < self._checkpointed_bytes(segment),
        )
        self._wanted = Wanted.CHECKED
        self._checker = subprocess.Popen(
            [sys.executable, "-m", "kafkaesque.cli.app", "log", "verify", str(self.data)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return f"{segment.parent.name}/{self._damage.text}"

    def _checkpointed_bytes(self, segment: Path) -> int:
        """Return how much of a segment the next start takes as it is."""
        try:
            checkpoint = load_checkpoint(read_only_disk(self.data))
        except StorageCorrupt:
            return 0
        sizes = {
            (log.identity.directory, summary.base_offset): summary.size_bytes
            for log in checkpoint.logs
            for summary in log.segments
        }
        return sizes.get((segment.parent.name, int(segment.stem)), 0)

    def _go_on_checking(self) -> None:
        checker, damage = self._checker, self._damage
        if checker is None or damage is None or checker.poll() is None:
            return
        said, _ = checker.communicate()
        self._checker = None
        if checker.returncode == _DAMAGED_STATUS:
            pass
        elif checker.returncode == 0 and not damage.is_durable:
            # The start has to make it good, and replicas are compared in the end: no cure.
            self._damage = None
        else:
            self._anomaly(
                f"unnoticed damage: `kafkaesque log verify` ended with {checker.returncode}; "
                f"{damage.partition.name}/{damage.text}: {said.decode(errors='replace')[-1000:]}"
            )
        self.start()

    def cure(self) -> None:
        """Do what the handbook says: stop it, remove the damaged partition, start it."""
        if self._checker is not None:
            self._checker.kill()
            self._checker.communicate()
            self._checker = None
        self.kill()
        if self._damage is not None:
            shutil.rmtree(self._damage.partition, ignore_errors=True)
            self._damage = None
        self.start()


def compile_interposer(directory: Path) -> Path | None:
    """Return the library that tells processes the time and what disks do; None: no compiler."""
    target = directory / "interpose.so"
    source = Path(__file__).with_name("interpose.c")
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(target), str(source), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True)
    except OSError:
        return None
    return target if done.returncode == 0 else None
