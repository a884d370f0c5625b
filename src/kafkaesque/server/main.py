"""Runs one broker in this process, until it is told to stop."""

import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.listeners import ADMIN, AccessMode, Listener
from kafkaesque.chassis.gateway import Gateway, drain_all
from kafkaesque.env.network import Connection, Framing, ListenOptions
from kafkaesque.gateway.chassis_of import make_chassis
from kafkaesque.gateway.forwarding.forwarding import Forwarding
from kafkaesque.model.errors import ConfigError, DiskFailed, DiskFull, KafkaesqueError
from kafkaesque.runtime.env import RealEnv
from kafkaesque.runtime.runner import run, settle_gc
from kafkaesque.server.config import ServerConfig
from kafkaesque.server.config_checks import find_own_seed, make_data_directory
from kafkaesque.server.gateways import load_log_ins, make_gateway, make_gateways
from kafkaesque.server.logs import set_up_logging
from kafkaesque.server.watches import StartWatch, Watch, load_watched
from kafkaesque.storage.errors import StorageCorrupt

EXIT_CANNOT_START = 1
#: What helps where all of a data directory cannot be used. Nothing in it is to be mended by hand:
#: who has the wrong id or an older state votes and answers for what it has not got.
_BEGIN_ANEW = (
    "start this broker with an empty directory and its old id, so that its replicas are copied "
    "from the other brokers"
)
_KEEP_OLD = (
    "move the old one away as a whole, keep it until every partition has a leader, and do so with "
    "one broker at a time"
)

#: Open from the start to the end, so that operators hear why a broker is not ready.
EARLY: Final = (ADMIN,)

_log = logging.getLogger("kafkaesque.server")


class _Nobody:
    """Serves a connection that comes while a port is only being tried."""

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        connection.abort()

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""


class Server:
    """One broker with its ports."""

    def __init__(
        self,
        config: ServerConfig,
        world: RealEnv,
        watched: Sequence[StartWatch],
    ) -> None:
        """`watched` is what was loaded of the files that `config` names."""
        self._config = config
        self._world = world
        self._watched = watched
        self._watches: list[Watch] = []
        self._network = world.env.network
        self._broker = Broker(
            env=world.env,
            config=config.broker,
            report=_log.info,
            report_error=_log.error,
            report_warning=_log.warning,
        )
        chassis = make_chassis(self._broker.doors, _log.info)
        if any(each.access is not AccessMode.OPEN for each in self._listeners):
            load_log_ins()
        self._make_gateway = partial(make_gateway, self._broker.doors, chassis)
        #: Those that are needed, by protocol.
        self._gateways = make_gateways(
            self._broker.doors, chassis, [each.protocol for each in self._listeners]
        )
        self._forwarding = Forwarding(self._broker.doors, _log.warning)
        if ADMIN not in self._gateways:
            self._broker.doors.parts.answer_when_asked(self._make_admin_gateway)
        #: Whether this process is one too many, and ends with a failure.
        self.is_doomed = False

    def start(self) -> None:
        """Recover the disk and join the cluster; clients are let in when that is done.

        Raises:
            KafkaesqueError: the data directory cannot be used, or a port cannot be bound.
        """
        self._watches += [start(self._world, self._broker.doors) for start in self._watched]
        early = [each for each in self._listeners if each.protocol in EARLY]
        for listener in self._listeners:
            if listener not in early:
                # Not only when the broker is ready: who starts it should hear of it at once.
                self._try_port(listener)
        self._broker.on_failed = self._close_client_ports
        self._broker.on_contested = self._end
        with _told_what_moves_it("peer.port"):
            self._broker.start(self._on_ready)
        for listener in early:
            self._open(listener)

    def _make_admin_gateway(self) -> None:
        """Let this broker's part be told to others, which have an admin port and were asked."""
        try:
            self._gateways[ADMIN] = self._make_gateway(ADMIN)
        except Exception as error:
            # Another release may have been installed since the start: that part is missing then.
            _log.error("the admin API cannot be loaded; start this broker again: %r", error)

    @property
    def _listeners(self) -> Sequence[Listener]:
        return self._config.broker.listeners

    def _try_port(self, listener: Listener) -> None:
        options = ListenOptions(framing=Framing.STREAM)
        with _told_what_moves_it(listener.setting):
            self._network.listen(listener.address, options, _Nobody).close()

    def _open(self, listener: Listener) -> None:
        with _told_what_moves_it(listener.setting):
            self._gateways[listener.protocol].start(listener)

    def _on_ready(self) -> None:
        config = self._config.broker
        for listener in self._listeners:
            if listener.protocol not in EARLY:
                self._open(listener)
        self._forwarding.begin()
        settle_gc()
        _log.info("broker %d is ready: Kafka on %s", config.node, config.kafka_address)
        line = json.dumps({"ready": config.node, "kafka": str(config.kafka_address)})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def stop(self, on_stopped: Callable[[], None]) -> None:
        """Hand leadership over, answer what can be answered, close; data is synced then."""

        def on_broker_stopped() -> None:
            for watch in self._watches:
                watch.stop()
            self._forwarding.end()
            for gateway in self._gateways.values():
                gateway.stop()
            on_stopped()

        self._broker.stop(on_broker_stopped, partial(drain_all, self._for_clients()))

    @property
    def reload(self) -> Callable[[], None] | None:
        """Reads certificates and a provider's keys again, if there are any."""
        return self._reload if self._watched else None

    def _reload(self) -> None:
        for watch in self._watches:
            watch.reload()

    def _for_clients(self) -> list[Gateway]:
        return [each for protocol, each in self._gateways.items() if protocol not in EARLY]

    def _end(self) -> None:
        self.is_doomed = True
        signal.raise_signal(signal.SIGTERM)

    def _close_client_ports(self) -> None:
        for gateway in self._for_clients():
            gateway.stop()


@contextmanager
def _told_what_moves_it(setting: str) -> Iterator[None]:
    """Say with a port that cannot be opened what in the broker's file chooses another one."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{reason}; to use another port, change {setting}") from None


def run_broker(config: ServerConfig) -> int:
    """Run a broker; return the process's exit status."""
    set_up_logging(config.log_level, config.log_format, config.broker.node)

    servers: list[Server] = []

    def start(world: RealEnv) -> Server:
        servers.append(Server(config, world, watched))
        servers[0].start()
        return servers[0]

    own_seed = find_own_seed(config)
    if own_seed is not None:
        _log.warning("broker %d: %s", config.broker.node, own_seed)
    try:
        watched = load_watched(config)
        make_data_directory(config.data)
        status = run(config.data, start)
    except (KafkaesqueError, OSError) as error:
        is_disks = isinstance(error, DiskFailed | StorageCorrupt)
        where = f" (the data directory is {config.data})" if is_disks else ""
        if isinstance(error, DiskFull):
            least = config.broker.storage.free_bytes_min
            where += (
                f": remove other files on that disk, or enlarge it. With {least} bytes free the "
                "broker nearly always starts, and then deletes what topics no longer keep"
            )
        if isinstance(error, StorageCorrupt):
            # Storage says the cure itself where it knows what is damaged.
            has_cure = "with an empty directory" in str(error)
            where += f": {_KEEP_OLD if has_cure else f'{_BEGIN_ANEW}: {_KEEP_OLD}'}"
        _log.error("broker %d cannot start: %s%s", config.broker.node, error, where)
        return EXIT_CANNOT_START
    return EXIT_CANNOT_START if servers[0].is_doomed else status
