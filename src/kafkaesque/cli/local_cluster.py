"""A cluster of brokers on this machine, in one directory: its files, its start, its end."""

import fcntl
import json
import os
import re
import secrets
import signal
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from kafkaesque.broker.listeners import is_local_host
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.broker_ports import BrokerPorts, check_ports
from kafkaesque.cli.cluster_file import CLUSTER_FILE, ClusterFile, read_cluster_file
from kafkaesque.cli.directory_holder import is_held
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.local_broker import FOR_ALL, Broker, Event, variable_of
from kafkaesque.cli.screen import counted
from kafkaesque.cli.secure_files import SECRET_NAME, SecureFiles
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.exposure import ALLOW_OPEN

STOP_TIMEOUT_S = 10.0
#: So many brokers' controllers vote, the first ones: more only make every change wait longer.
VOTERS_MAX = 5
LOCK_NAME = ".lock"
SECRET_BYTES = 32
#: What a directory may hold that is to become ours: what is ours, and what a new file system has.
_HARMLESS = re.compile(
    r"\.lock|lost\+found|cluster\.secret|broker-[0-9]+(\.toml|\.log)?"
    r"|certs|clients|(admin|app)\.password|\.?admin\.(totp|recovery-codes)(\.new)?|\.?first-users\.json(\.new)?"
)
#: A person at a terminal does not wait three seconds for a second member that never comes.
LOCAL_OPTIONS: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}


class LocalCluster:
    """A directory with some brokers; what was written to it before is gone on with."""

    def __init__(
        self,
        directory: Path,
        ports: Sequence[BrokerPorts],
        *,
        host: str = "127.0.0.1",
        options: Mapping[str, str] | None = None,
        is_secure: bool = False,
        allows_open: bool = False,
    ) -> None:
        """A cluster that is secure stays so, whatever a later start says.

        With `allows_open`, one that is not may be where other machines reach it.
        """
        self.directory = directory.absolute()
        self.brokers = [
            Broker(number, self.directory, each, host) for number, each in enumerate(ports, start=1)
        ]
        self.events: SimpleQueue[Event] = SimpleQueue()
        self._lock: IO[str] | None = None
        self.cluster_id = ""
        self._host = host
        self._options = {**LOCAL_OPTIONS, **(options or {})}
        self._is_secure = is_secure
        self._allows_open = allows_open
        #: What secures it, if anything does; known once it is prepared.
        self.security: SecureFiles | None = None
        #: Whether this start makes the cluster, as far as is known before it is prepared.
        self.is_new = True
        #: Whether its administrator was given a second factor by the start that made it.
        self.has_second_factor = False

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def admin_address(self) -> str:
        """The admin port of the first broker that has one; empty: none has."""
        ports = (broker.ports.admin for broker in self.brokers if broker.ports.admin)
        return next((f"{self._host}:{port}" for port in ports), "")

    def broker(self, number: int) -> Broker:
        return self.brokers[number - 1]

    def prepare(self) -> None:
        """Write the configuration files; nothing runs yet.

        Raises:
            CommandFailed: an option is wrong, a port is taken, or the directory is another's.
        """
        try:
            options = {**BROKER_OPTIONS.defaults(), **BROKER_OPTIONS.parse(self._options)}
            BROKER_OPTIONS.check_orders(options.__getitem__)
        except ConfigError as error:
            known = FOR_ALL.intersection(self._options)
            if known:
                name = min(known)
                variable = f"{variable_of(name)}={self._options[name]}"
                what = f"{name} is read when a broker starts, and no --option"
                raise wrong_usage(what, f"{variable} kafkaesque up") from None
            raise wrong_usage(str(error), "--option name=value") from None
        try:
            self._write_files()
        except CommandFailed:
            self.close()
            raise
        except OSError as error:
            self.close()
            reason = (error.strerror or str(error)).lower()
            raise CommandFailed(f"cannot write to {self.directory}: {reason}") from None

    def _write_files(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        _check_ours(self.directory)
        self._lock = _lock(self.directory)
        before = read_cluster_file(self.directory)
        self._choose_security(before)
        check_ports(self._host, [broker.ports for broker in self.brokers])
        voters = self._join(before)
        for broker in self.brokers:
            broker.config_path.write_text(self._configuration(broker, voters), "utf-8")
        if self.security is not None:
            self.security.write_clients(
                self.bootstrap_servers,
                self.admin_address,
                has_second_factor=self.has_second_factor,
            )

    def start(self) -> None:
        """Start every broker."""
        for broker in self.brokers:
            broker.start(self.events)

    def look(self) -> None:
        """Put what others have done, to brokers that had ended here, among the events."""
        for broker in self.brokers:
            found = broker.look()
            if found is not None:
                self.events.put(found)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> list[int]:
        """Have every broker stop in order; kill, and return, those that take too long."""
        self.look()
        for broker in self.brokers:
            broker.signal(signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        late = [each for each in self.brokers if not each.wait(deadline - time.monotonic())]
        for broker in late:
            broker.signal(signal.SIGKILL)
            broker.wait(timeout_s)
        return [broker.number for broker in late]

    def not_ours(self) -> list[int]:
        """Return the brokers that run and cannot be stopped from here, such as another user's."""
        return [
            each.number for each in self.brokers if not each.is_running() and is_held(each.data)
        ]

    def kill(self) -> None:
        """End every broker at once."""
        for broker in self.brokers:
            broker.signal(signal.SIGKILL)

    def close(self) -> None:
        """End what still runs, and let others have the directory."""
        self.kill()
        for broker in self.brokers:
            broker.wait(STOP_TIMEOUT_S)
            broker.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _choose_security(self, before: ClusterFile | None) -> None:
        """Decide whether the cluster is secure: the first start does, for all that follow.

        Raises:
            CommandFailed: it cannot be what is asked for.
        """
        if self._is_secure and before is not None and not before.is_secure:
            raise wrong_usage(
                f"the cluster in {self.directory} was made without --secure",
                "another --data; or docs/security.md, to secure a cluster that runs",
            )
        if self._is_secure or (before is not None and before.is_secure):
            self.security = SecureFiles(self.directory)
        elif not is_local_host(self._host) and not self._allows_open:
            raise wrong_usage(
                f"other machines reach {self._host}, and everybody who does could read, write and "
                "delete everything",
                "--secure; or --allow-open-listeners, if you want that",
            )

    def _join(self, before: ClusterFile | None) -> Sequence[int]:
        """Return the voters; the first start decides on them and on the cluster's id."""
        count = len(self.brokers)
        self.is_new = before is None
        if before is None:
            self.cluster_id = (self.security and self.security.find_cluster_id()) or _new_id()
            voters: Sequence[int] = range(1, min(count, VOTERS_MAX) + 1)
            _make_secret(self._secret_path)
            # Codes are shown at an admin port alone.
            self.has_second_factor = self.security is not None and bool(self.admin_address)
        else:
            self.cluster_id, voters = before.cluster_id, before.controllers
            self.has_second_factor = before.has_second_factor
            if count < len(before.brokers):
                raise wrong_usage(
                    f"the cluster in {self.directory} has {counted(len(before.brokers), 'broker')},"
                    f" not {count}",
                    f"--brokers {len(before.brokers)}, or another --data",
                )
        if self.security is not None:
            # Before the file that makes it a cluster: one that is founded without its first users
            # would let nobody in.
            numbers = [broker.number for broker in self.brokers]
            self.security.prepare(
                self.cluster_id,
                numbers,
                self._host,
                is_new=self.is_new,
                has_second_factor=self.has_second_factor,
            )
        now = ClusterFile(
            cluster_id=self.cluster_id,
            controllers=list(voters),
            brokers=[broker.ports for broker in self.brokers],
            is_secure=self.security is not None,
            has_second_factor=self.has_second_factor,
        )
        now.write(self.directory)
        return voters

    @property
    def _secret_path(self) -> Path:
        return self.directory / SECRET_NAME

    def _configuration(self, broker: Broker, voters: Sequence[int]) -> str:
        ports = broker.ports
        values: dict[str, str | int | bool] = {
            "id": broker.number,
            "cluster.id": self.cluster_id,
            "data": str(broker.data),
            "host": self._host,
            "kafka.port": ports.kafka,
            "sqs.port": ports.sqs,
            "amqp.port": ports.amqp,
            "mqtt.port": ports.mqtt,
            "nats.port": ports.nats,
            "stomp.port": ports.stomp,
            "websocket.port": ports.websocket,
            "peer.port": ports.peer,
        }
        with_log_in = self.security is not None
        # The keys of [broker] open these to everybody: with a log-in they are tables.
        others = {"text": ports.text, "admin": ports.admin, "registry": ports.registry}
        values.update(
            {f"{name}.port": port for name, port in others.items() if not (port and with_log_in)}
        )
        # A cluster that was founded without one goes on without one.
        if self._secret_path.exists():
            values["cluster.secret.file"] = str(self._secret_path)
        if self._allows_open:
            values[ALLOW_OPEN] = True
        tls: Mapping[str, str | bool] = {}
        if self.security is not None:
            values.update(self.security.section())
            tls = self.security.tls_section(broker.number)
        lines = ["# Written by `kafkaesque up` at every start.", "[broker]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        if self.security is not None:
            for name, port in others.items():
                lines += self.security.listener_lines(name, port) if port else []
        if tls:
            lines += ["", "[tls]"]
            lines += [f"{name} = {json.dumps(value)}" for name, value in tls.items()]
        lines += ["", "[controllers]"]
        for number in voters:
            lines.append(f'{number} = "{self._host}:{self.broker(number).ports.peer}"')
        lines += ["", "[options]"]
        lines += [f'"{name}" = {json.dumps(value)}' for name, value in self._options.items()]
        return "\n".join(lines) + "\n"


def _new_id() -> str:
    return urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")


def _check_ours(directory: Path) -> None:
    """Refuse a directory with other things in it: ours would lie among them for good.

    Raises:
        CommandFailed: the sentence names one of them.
    """
    names = [path.name for path in directory.iterdir()]
    foreign = [name for name in names if not _HARMLESS.fullmatch(name)]
    if CLUSTER_FILE in names or not foreign:
        return
    raise wrong_usage(
        f"{directory} is not empty, and not a cluster's directory: it has {min(foreign)!r}",
        f"--data {directory / 'kafkaesque-data'}, or any directory that is empty or new",
    )


def _make_secret(path: Path) -> None:
    """Write a secret for a new cluster, readable by its owner alone; one that is there stays."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(SECRET_BYTES) + "\n")


def _lock(directory: Path) -> IO[str]:
    """Keep others from writing the configuration of brokers that run; until the file is closed.

    Raises:
        CommandFailed: somebody else does that already.
    """
    lock = (directory / LOCK_NAME).open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        raise CommandFailed(
            f"the cluster in {directory} runs already (pid {holder})",
            hint="kafkaesque cluster status, or another --data",
        ) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock
