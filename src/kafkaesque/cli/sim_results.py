"""What came of many seeds: told at the end, and kept in a file that grows from call to call.

A line of the file is a seed: which code ran it, how, how long it took, what was wrong. A seed that
is there already, of the same code and run in the same way, is not run again.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kafkaesque
from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.screen import counted

if TYPE_CHECKING:
    from kafkaesque.sim.runner import SimReport

#: The sources that are simulated; what was compiled from them names them.
PACKAGE = Path(kafkaesque.__file__).parent
#: Rooms that no simulated machine enters.
_OUTSIDE = ("cli", "server", "spark", "testing")
_HOUR_MS = 3_600_000


def name_code() -> str:
    """Return a name for the code that is simulated, and simulates: a digest of its sources."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE)
        if name.parts[0] not in _OUTSIDE:
            digest.update(name.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(slots=True)
class Tally:
    """Sums over seeds."""

    seeds: int = 0
    bad: list[int] = field(default_factory=list)
    faults: int = 0
    acknowledged: int = 0
    simulated_ms: int = 0
    cpu_seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a seed."""
        self.seeds += 1
        if line["anomalies"]:
            self.bad.append(line["seed"])
        self.faults += line["faults"]
        self.acknowledged += line["acknowledged"]
        self.simulated_ms += line["simulated_ms"]
        self.cpu_seconds += line["cpu_seconds"]
        self.counts.update(line["counts"])

    def __str__(self) -> str:
        hours, cpu = self.simulated_ms / _HOUR_MS, max(self.cpu_seconds, 0.001)
        return (
            f"{hours:.2f} simulated hours, {counted(self.faults, 'fault')}, one every "
            f"{self.simulated_ms / 1000 / max(self.faults, 1):.1f} s, "
            f"{counted(self.acknowledged, 'message')} acknowledged; {cpu / 3600:.2f} hours of one "
            f"core, in which {self.simulated_ms / 1000 / cpu:.0f} times as much time passes"
        )


def make_line(report: "SimReport", cpu_seconds: float) -> dict[str, Any]:
    """Return what is kept of a seed."""
    return {
        "seed": report.seed,
        "anomalies": report.anomalies,
        "faults": report.faults,
        "acknowledged": report.acknowledged,
        "simulated_ms": report.simulated_ms,
        "cpu_seconds": round(cpu_seconds, 3),
        "counts": report.counts,
        "digest": report.digest,
    }


class ResultsFile:
    """Lines of seeds; it is only ever added to."""

    def __init__(self, path: Path, how: str) -> None:
        """`how` says how seeds are run: what was run otherwise is not counted with it."""
        self._path = path
        self._how = how
        self._code = name_code()

    def done(self) -> Iterator[dict[str, Any]]:
        """Read the seeds that this code has run in this way.

        Raises:
            CommandFailed: the file has something else in it.
        """
        if not self._path.exists():
            return
        for number, text in enumerate(
            self._path.read_text("utf-8", "replace").splitlines(), start=1
        ):
            try:
                line = json.loads(text)
                is_ours = (line["code"], line["how"]) == (self._code, self._how)
            except (ValueError, KeyError, TypeError):
                raise wrong_usage(
                    f"line {number} of {self._path} is not a seed's result",
                    "another file; or without that line, if it was cut off",
                ) from None
            if is_ours:
                yield line

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a seed."""
        kept = {"code": self._code, "how": self._how, "at": int(time.time()), **line}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(kept) + "\n")
