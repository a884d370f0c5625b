"""The consuming group from outside: three processes, how far they are, what they got."""

import json
import subprocess
import sys
from array import array
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

from kafkaesque.cli.local_broker import end_with_parent
from kafkaesque.cli.quickstart.reader import NUMBERS_PER_MESSAGE

LEAVE_TIMEOUT_S = 10.0
MEMBERS = 3
GROUP = "passengers"


class ReadingGroup:
    """The members as processes; each ends with us, whatever happens to us."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, group: str = GROUP) -> None:
        self._files = [directory / f"member-{number}.bin" for number in range(1, MEMBERS + 1)]
        self._reports: list[dict[str, object]] = [{} for _ in self._files]
        self._errors = directory / "members.log"
        command = [
            sys.executable,
            "-m",
            "kafkaesque.cli.quickstart.reader",
            bootstrap,
            topic,
            group,
        ]
        self._processes = []
        for number, file in enumerate(self._files):
            with self._errors.open("ab") as errors:
                process = subprocess.Popen(
                    [*command, str(file)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                    preexec_fn=end_with_parent,
                )
            self._processes.append(process)
            Thread(target=self._listen, args=(number, process), daemon=True).start()

    @property
    def count(self) -> int:
        """Messages that were delivered so far, those delivered again among them."""
        return sum(int(str(report.get("count", 0))) for report in self._reports)

    def log_tail(self) -> str:
        return self._errors.read_text(errors="replace")[-2000:]

    def is_at(self, ends: Mapping[int, int]) -> bool:
        """Whether every partition has been read to its end by one of the members."""
        reached: dict[int, int] = {}
        for report in self._reports:
            positions = report.get("positions")
            if isinstance(positions, dict):
                for partition, offset in positions.items():
                    reached[int(partition)] = max(reached.get(int(partition), 0), int(offset))
        return all(reached.get(partition, 0) >= end for partition, end in ends.items())

    def leave(self) -> None:
        """Have the members leave the group and wait until their files are whole."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(LEAVE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(LEAVE_TIMEOUT_S)

    def kill(self) -> None:
        """End the members at once."""
        for process in self._processes:
            process.kill()
            process.wait(LEAVE_TIMEOUT_S)

    def deliveries(self) -> "array[int]":
        """Return partition, offset and row of each message that was delivered."""
        numbers = array("q")
        for path in self._files:
            data = path.read_bytes()
            whole = numbers.itemsize * NUMBERS_PER_MESSAGE
            numbers.frombytes(data[: len(data) // whole * whole])
        return numbers

    def _listen(self, number: int, process: "subprocess.Popen[bytes]") -> None:
        if process.stdout is None:
            return
        with process.stdout as lines:
            for line in lines:
                try:
                    self._reports[number] = json.loads(line)
                except ValueError:
                    continue
