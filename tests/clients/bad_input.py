"""What the tests of bad input share: a broker to do it to, raw connections, and who looks on.

A test brings up a `Victim`, a broker process of its own, with a bystander beside it (see
`tests.clients.bystander`). Within `victim.watched()` the bystander must see no error and no pause,
and the broker's memory must not grow by more than a bound.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from bench.processes import BrokerProcess, ask_metadata, wait_until_ready
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.model.batch_encoder import DEFAULT_OPTIONS, BatchOptions, encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_groups_request import DescribeGroupsRequest
from kafkaesque.protocols.kafka.messages.fetch_request import FetchPartition
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.clients.cluster import READY_TIMEOUT_S, configuration
from tests.waiting import eventually

#: No answer of a broker that is well takes longer, even on a machine that is busy.
ANSWER_TIMEOUT_S = 60.0
#: Brokers give one another up after this: a broker that is held up for longer loses its leaderships
#: to a client's bad input. So long, at most, it may work while somebody beside that client waits;
#: in processor time, as how long others let it wait for a processor and a disk is not its doing.
BUSY_S_MAX = 3.0
#: By how much the broker's memory may grow in one test, unless the test says something else.
GROWTH_BYTES_MAX = 64 * 1024 * 1024
MIB = 1024 * 1024

#: Runs a broker with other values for constants of its modules, given as "module:NAME=value".
_LAUNCHER = """\
import importlib, sys
settings, sys.argv[1:] = sys.argv[1].split(), sys.argv[2:]
for setting in settings:
    place, value = setting.split("=")
    module, name = place.split(":")
    module = importlib.import_module("kafkaesque." + module)
    assert hasattr(module, name), place
    setattr(module, name, int(value))
from kafkaesque.server.__main__ import main
sys.exit(main())
"""


class Wire:
    """A raw connection to a broker's port."""

    def __init__(self, port: int, *, timeout_s: float = ANSWER_TIMEOUT_S, receive_bytes: int = 0):
        """With `receive_bytes`, the kernel takes about so much that the test does not read."""
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(timeout_s)
        self.socket.connect(("127.0.0.1", port))
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes | bytearray) -> None:
        self.socket.sendall(data)

    def ask(self, api: int, version: int, message: Any) -> Any:
        """Return the answer to a request that is well formed."""
        self._correlation += 1
        self.send(write_request(api, version, self._correlation, "test", message))
        return self.answer(api, version)

    def answer(self, api: int, version: int) -> Any:
        """Return the next answer, which must be of this kind and version."""
        return read_response(memoryview(self.frame()), api, version)[1]

    def frame(self) -> bytes:
        """Return the next frame, without its length."""
        return self.read(int.from_bytes(self.read(4), "big"))

    def read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts += part
        return bytes(parts)

    def reset_on_close(self) -> None:
        """Close later as a process does that is killed: without a good-bye."""
        no_linger = struct.pack("ii", 1, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)

    def is_closed_by_broker(self, seconds: float = ANSWER_TIMEOUT_S) -> bool:
        """Wait until the broker closes; False if it does not, and fails if it says anything."""
        self.socket.settimeout(seconds)
        try:
            said = self.socket.recv(1)
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        assert not said, f"the broker answered {said!r}"
        return True


class Victim:
    """One broker process on free ports, in a directory of its own, and a bystander beside it."""

    def __init__(
        self,
        *,
        options: Mapping[str, str] | None = None,
        constants: Sequence[str] = (),
        files_soft: int | None = None,
        files_hard: int | None = None,
    ) -> None:
        """`constants` are "module:NAME=value"; `files_soft` and `files_hard` limit open files."""
        self.options = {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
            # Times of records here lie years back, or nowhere.
            "log.retention.ms": "-1",
            **(options or {}),
        }
        self._constants = constants
        limits = (("S", files_soft), ("H", files_hard))
        self._limits = [f"ulimit -{kind}n {n}" for kind, n in limits if n is not None]
        self._topics = 0

    def __enter__(self) -> Victim:
        self._home = Path(tempfile.mkdtemp(prefix="kafkaesque-bad-input-"))
        self.kafka_port, self.peer_port, self.text_port = unused_ports(3)
        path = self._home / "broker.toml"
        text = configuration(
            1,
            self._home / "data",
            [self.kafka_port],
            [self.peer_port],
            self.options,
            text_port=self.text_port,
        )
        path.write_text(text)
        self.process = BrokerProcess(
            self._command(path), log_path=self._home / "broker.log", port=self.kafka_port
        )
        self.process.start()
        try:
            wait_until_ready(self.process, brokers=1, timeout_s=READY_TIMEOUT_S)
            topic = self.make_topic()
            port, pid = str(self.kafka_port), str(self.process.pid)
            self._bystander = subprocess.Popen(
                [sys.executable, "-m", "tests.clients.bystander", port, topic, pid],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
            )
            self.look()
        except BaseException:
            self.process.kill()
            raise
        return self

    def _command(self, configuration_path: Path) -> list[str]:
        command = [sys.executable, "-c", _LAUNCHER, " ".join(self._constants)]
        command += ["--config", str(configuration_path)]
        if self._limits:
            command = ["sh", "-c", " && ".join([*self._limits, 'exec "$@"']), "sh", *command]
        return command

    def __exit__(self, *_: object) -> None:
        # Its input ends, so it does.
        self._bystander.communicate()
        self.process.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    # -- what is seen

    def look(self) -> dict[str, Any]:
        """Return what the bystander saw since the last look."""
        assert self._bystander.stdin is not None
        assert self._bystander.stdout is not None
        self._bystander.stdin.write("\n")
        self._bystander.stdin.flush()
        seen: dict[str, Any] = json.loads(self._bystander.stdout.readline())
        return seen

    @contextmanager
    def watched(
        self, *, growth_bytes_max: int = GROWTH_BYTES_MAX, busy_s_max: float = BUSY_S_MAX
    ) -> Iterator[None]:
        """Fail if what happens inside disturbs the bystander or makes the broker grow."""
        earlier = self.look()
        assert not earlier["errors"], (earlier["errors"], self.log())
        before = self.process.rss_bytes()
        yield
        self.process.raise_if_ended()
        growth = self.process.rss_bytes() - before
        seen = self.look()
        assert not seen["errors"], (seen["errors"], self.log())
        assert seen["rounds"] > 0
        busy_s = seen["busiest_s"]
        assert busy_s <= busy_s_max, f"it worked for {busy_s} s while somebody else waited"
        assert growth <= growth_bytes_max, f"{growth / MIB:.0f} MiB more than before"

    def process_directory(self, name: str) -> Iterator[Path]:
        """Return what is in a directory of the broker's process in /proc."""
        return Path(f"/proc/{self.process.pid}/{name}").iterdir()

    def log(self) -> str:
        return self.process.log_tail()

    # -- what is done

    def connect(self, *, receive_bytes: int = 0) -> Wire:
        return Wire(self.kafka_port, receive_bytes=receive_bytes)

    def ask(self, api: int, version: int, message: Any) -> Any:
        """Return the answer to a request, asked on a connection of its own."""
        with self.connect() as wire:
            return wire.ask(api, version, message)

    def make_topic_with(self, *values: bytes, partitions: int = 1) -> str:
        """Create a topic with records in its first partition."""
        name = self.make_topic(partitions)
        self.ask(ApiKey.PRODUCE, 9, produce_request(name, batch(*values)))
        return name

    def find_coordinators(self) -> None:
        """Have the topic for committed offsets made, and wait until all groups are loaded."""
        keys = [f"group-{number}" for number in range(20)]
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
        described = DescribeGroupsRequest(groups=keys)

        def are_loaded() -> bool:
            found = self.ask(ApiKey.FIND_COORDINATOR, 4, request).coordinators
            groups = self.ask(ApiKey.DESCRIBE_GROUPS, 5, described).groups
            return {each.error_code for each in [*found, *groups]} == {ErrorCode.NONE}

        eventually(are_loaded, "all groups are loaded", seconds=ANSWER_TIMEOUT_S)

    def make_topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic of a new name and wait until it has leaders."""
        self._topics += 1
        name = f"topic-{self._topics}"
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
            ],
        )
        with self.connect() as wire:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            (answer,) = wire.ask(ApiKey.CREATE_TOPICS, 5, request).topics
        assert answer.error_code == ErrorCode.NONE, answer

        def has_leaders() -> bool:
            leaders = ask_metadata(self.kafka_port, [name], ANSWER_TIMEOUT_S).leaders.values()
            return min(leaders, default=-1) >= 0

        what = f"leaders for {name}"
        eventually(has_leaders, what, seconds=ANSWER_TIMEOUT_S, pause_s=0.01)
        return name


def batch(*values: bytes, options: BatchOptions = DEFAULT_OPTIONS) -> bytearray:
    """Return a batch of records with these values."""
    records = [Record(at, 1000 + at, None, value, ()) for at, value in enumerate(values)]
    return encode_batch(records, options)


def produce_request(
    topic: str,
    records: bytes | bytearray | None,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 10_000,
) -> ProduceRequest:
    """Return a request with one partition's records."""
    data = PartitionProduceData(index=partition, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def fetched(
    index: int, *, offset: int = 0, epoch: int = -1, last_epoch: int = -1, size: int = 1000
) -> FetchPartition:
    """Return what a Fetch wants of a partition."""
    return FetchPartition(
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=-1,
        partition_max_bytes=size,
    )
