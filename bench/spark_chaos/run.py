"""One run: brokers, a cluster of Spark, a query, kills from a schedule, the count in the end."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.processes import BrokerProcess, ask_metadata, die_with_parent
from bench.spark_chaos import family
from bench.spark_chaos.query import FAILED
from bench.spark_chaos.schedule import Kill, Kind
from bench.spark_chaos.topics import PARTITIONS, Feeder, Follower, read_all
from bench.spark_chaos.transformation import compare, transform
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.cli.quickstart.delays_pipeline import JAVA_OPTIONS
from kafkaesque.spark.pipelines.spark_home import make_light_home
from kafkaesque.spark.standalone import MASTER, StandaloneCluster
from tests.clients.cluster import KafkaesqueCluster

BROKERS, WORKERS = 3, 2
SOURCE, SINK = "source", "sink"
COORDINATORS = ("__transaction_state", "__consumer_offsets")
MARK = "KAFKAESQUE_CHAOS"
REPO = Path(__file__).parents[2]
#: So long without a new result is a query that does not get on; a busy machine takes its time.
STUCK_S = 240.0
FLUSH_S_MAX = 120.0
#: Results too many would come in this time.
AT_REST_S = 5.0
LEAVE_S_MAX = 20.0
POLL_S = 0.05


class RunBroken(RuntimeError):
    """The run cannot go on."""


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of a run."""

    seed: int
    kills: Counter[Kind] = field(default_factory=Counter)
    #: From each kill to the next result, by kind; of those that no other kill followed at once.
    silence_s: dict[Kind, list[float]] = field(default_factory=dict)
    fed: int = 0
    expected: int = 0
    found: int = 0
    lost: int = 0
    doubled: int = 0
    foreign: int = 0
    query_failures: int = 0
    drivers_ended: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Run:
    """The processes, what is done to them, and what came of it."""

    def __init__(
        self,
        kills: Sequence[Kill],
        *,
        seed: int,
        folder: Path,
        per_second: int,
        kills_s_max: float,
        guarantee: str = "exactly-once",
        say: Callable[[str], None],
    ) -> None:
        self._kills = kills
        self._guarantee = guarantee
        self._kills_s_max = kills_s_max
        self._folder = folder
        self._per_second = per_second
        self._say = say
        self.report = Report(seed=seed)
        self._mark = f"{MARK}={secrets.token_hex(8)}"
        self._driver: subprocess.Popen[bytes] | None = None
        self._brokers = KafkaesqueCluster(BROKERS, directory=folder)
        port, ui_port = unused_ports(2)
        self._spark = StandaloneCluster(
            folder, workers=WORKERS, cores=1, memory="1g", port=port, ui_port=ui_port
        )

    def run(self) -> Report:
        """Do all of it; problems stand in the report.

        Raises:
            RunBroken: the query does not get on, or a process ended that nobody had killed.
            BrokerNotReadyError, ConnectorError: something does not start.
        """
        began = time.monotonic()
        # Whatever is started from here on has the mark, and finds this folder's modules.
        name, _, value = self._mark.partition("=")
        places = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(REPO)]))
        os.environ |= {
            name: value,
            "PYTHONPATH": places,
            "PYSPARK_PYTHON": sys.executable,
            "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
        }
        self._home = make_light_home(self._folder / "spark-home")
        try:
            self._brokers.prepare()
            self._brokers.start()
            self._create_topics()
            self._spark.start()
            self._kill_and_count()
        finally:
            self._end_driver()
            self._spark.stop()
            for broker in self._brokers.brokers:
                broker.stop()
            self._check_family()
            with suppress(OSError):
                lines = self._log_path.read_text(errors="replace").splitlines()
                self.report.query_failures = sum(line.startswith(FAILED) for line in lines)
            self.report.seconds = time.monotonic() - began
        return self.report

    def close(self) -> None:
        """Remove the brokers' data."""
        self._brokers.close()

    @property
    def _servers(self) -> str:
        return self._brokers.bootstrap_servers

    @property
    def _log_path(self) -> Path:
        return self._folder / "query.log"

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        topics = [NewTopic(name, PARTITIONS, BROKERS) for name in (SOURCE, SINK)]
        for made in admin.create_topics(topics).values():
            made.result()

    # -- the course of a run

    def _kill_and_count(self) -> None:
        feeder = Feeder(self._servers, SOURCE, self._per_second)
        self._follower = Follower(self._servers, SINK)
        feeder.start()
        self._follower.start()
        try:
            self._start_driver()
            self._await_results(1)
            deadline = time.monotonic() + self._kills_s_max
            for number, kill in enumerate(self._kills, start=1):
                if time.monotonic() > deadline:
                    break
                self._perform(number, kill)
            left = feeder.finish(FLUSH_S_MAX)
            if left:
                raise RunBroken(f"{left} records wait for an acknowledgement in the end")
            self.report.problems += feeder.failures
            self._count(feeder.sent)
        finally:
            feeder.finish(0.0)
            self._follower.finish()

    def _perform(self, number: int, kill: Kill) -> None:
        time.sleep(kill.wait_s)
        self._look()
        before, killed_at = self._follower.count, time.monotonic()
        match kill.kind:
            case Kind.DRIVER:
                whom = self._kill_driver()
            case Kind.EXECUTOR:
                whom = self._kill_executor(kill)
            case Kind.WORKER:
                whom = self._kill_worker(kill)
            case Kind.LEADER:
                whom = self._kill_leader(kill)
        self.report.kills[kill.kind] += 1
        is_last = number == len(self._kills)
        follows_at_once = not is_last and self._kills[number].is_overlapping
        took = "overlapped"
        if not follows_at_once:
            self._await_results(before + 1)
            silence_s = time.monotonic() - killed_at
            self.report.silence_s.setdefault(kill.kind, []).append(silence_s)
            took = f"next result after {silence_s:.1f} s"
        self._say(f"{number:4} {whom}; {took}; {self._follower.count} results")

    def _count(self, fed: int) -> None:
        report = self.report
        expected = Counter(each for n in range(fed) for each in transform(b"%d" % n))
        report.fed, report.expected = fed, expected.total()
        try:
            self._await_results(report.expected)
            time.sleep(AT_REST_S)
        except RunBroken as error:
            report.problems.append(str(error))
        self._end_driver()
        self._brokers.wait_until_ready()
        source = read_all(self._servers, SOURCE)
        if source != Counter(b"%d" % number for number in range(fed)):
            report.problems.append(f"the source topic has {source.total()} records of {fed} sent")
        found = read_all(self._servers, SINK)
        report.found = found.total()
        report.lost, report.doubled, report.foreign = compare(expected, found)

    def _await_results(self, count: int) -> None:
        """Wait for so many results; time counts from the last new one."""
        seen, since = self._follower.count, time.monotonic()
        while self._follower.count < count:
            if self._follower.count > seen:
                seen, since = self._follower.count, time.monotonic()
            elif time.monotonic() - since > STUCK_S:
                raise RunBroken(f"no result for {STUCK_S:.0f} s; see {self._log_path}")
            self._look()
            time.sleep(POLL_S)

    def _look(self) -> None:
        """See that everything runs; a driver that has ended is started again."""
        for broker in self._brokers.brokers:
            broker.raise_if_ended()
        for ended in self._spark.ended():
            raise RunBroken(f"{ended.name} ended with exit code {ended.exit_code}")
        if self._driver is not None and self._driver.poll() is not None:
            self.report.drivers_ended += 1
            self._say(f"     the driver ended by itself with exit code {self._driver.returncode}")
            self._start_driver()

    # -- who is killed

    def _start_driver(self) -> None:
        arguments = (self._spark.url, self._servers, SOURCE, SINK, self._guarantee)
        checkpoint = str(self._folder / "checkpoint")
        with self._log_path.open("ab") as log:
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "bench.spark_chaos.query", *arguments, checkpoint],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
                cwd=self._folder,
                env={**os.environ, "SPARK_HOME": str(self._home)},
            )

    def _end_driver(self) -> int:
        """Kill the driver with its JVM and the processes that plan its stream."""
        driver, self._driver = self._driver, None
        if driver is None:
            return 0
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        return driver.pid

    def _kill_driver(self) -> str:
        pid = self._end_driver()
        self._start_driver()
        return f"driver {pid}"

    def _kill_executor(self, kill: Kill) -> str:
        pid = self._victim(lambda: self._executors, kill.choice)
        family.kill(pid)
        return f"executor {pid}"

    def _kill_worker(self, kill: Kill) -> str:
        pid = self._victim(lambda: family.python_workers_of(self._spark_parents), kill.choice)
        family.kill(pid)
        return f"Python worker {pid}"

    @property
    def _executors(self) -> list[int]:
        names = [name for name in self._spark.names if name != MASTER]
        return family.executors_of([self._spark.pid(name) for name in names])

    @property
    def _spark_parents(self) -> list[int]:
        driver = [] if self._driver is None else [self._driver.pid]
        return [*self._executors, *driver]

    def _victim(self, candidates: Callable[[], list[int]], choice: float) -> int:
        """Return one of those that run, as soon as one does."""
        deadline = time.monotonic() + STUCK_S
        while not (found := candidates()):
            if time.monotonic() > deadline:
                raise RunBroken(f"nobody to kill within {STUCK_S:.0f} s; see {self._log_path}")
            self._look()
            time.sleep(POLL_S)
        return found[int(choice * len(found))]

    def _kill_leader(self, kill: Kill) -> str:
        self._brokers.wait_until_ready()
        topics = (SOURCE, SINK, *COORDINATORS)
        view = ask_metadata(self._brokers.brokers[0].port, topics)
        led = sorted((where, node) for where, node in view.leaders.items() if node > 0)
        (topic, partition), node = led[int(kill.choice * len(led))]
        broker: BrokerProcess = self._brokers.brokers[node - 1]
        broker.kill()
        time.sleep(kill.down_s)
        broker.start()
        return f"broker {node}, leader of {topic}-{partition}, for {kill.down_s:.1f} s"

    # -- the end

    def _check_family(self) -> None:
        """See that everything that was started has ended; what has not is ended."""
        deadline = time.monotonic() + LEAVE_S_MAX
        while left := family.marked_with(self._mark):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        for pid, words in left.items():
            self.report.problems.append(f"process {pid} was left running: {words[:200]}")
            family.kill(pid)
