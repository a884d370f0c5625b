"""Runs one broker in this process, until it is told to stop."""

import json
import logging
import signal
import sys
from collections.abc import Callable

from kafkaesque import __version__
from kafkaesque.admin.gateway import AdminGateway
from kafkaesque.broker.broker import Broker
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.gateway.text.gateway import TextGateway
from kafkaesque.model.errors import DiskFailed, DiskFull, KafkaesqueError
from kafkaesque.runtime.env import RealEnv
from kafkaesque.runtime.runner import run, settle_gc
from kafkaesque.server.config import ServerConfig
from kafkaesque.server.config_checks import find_own_seed, make_data_directory
from kafkaesque.server.logs import set_up_logging
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

    def __init__(self, config: ServerConfig, world: RealEnv) -> None:
        self._config = config
        self._network = world.env.network
        self._broker = Broker(
            env=world.env,
            config=config.broker,
            report=_log.info,
            report_error=_log.error,
            report_warning=_log.warning,
        )
        doors = self._broker.doors
        self._kafka = KafkaGateway(doors, _log.info)
        self._text = TextGateway(doors, _log.info)
        self._admin = AdminGateway(doors, __version__, _log.info)
        #: Whether this process is one too many, and ends with a failure.
        self.is_doomed = False

    def start(self) -> None:
        """Recover the disk and join the cluster; clients are let in when that is done.

        Raises:
            KafkaesqueError: the data directory cannot be used.
            OSError: a port cannot be bound.
        """
        # Now, and not when the broker is ready: whoever starts it should hear of it at once.
        for address in self._client_addresses():
            self._try_port(address)
        self._broker.on_failed = self._close_client_ports
        self._broker.on_contested = self._end
        self._broker.start(self._on_ready)
        admin = self._config.broker.admin_address
        if admin is not None:
            # From now on, so that it says why the broker is not ready.
            self._admin.start(admin._replace(host=self._config.listen_host))

    def _client_addresses(self) -> list[Address]:
        config = self._config.broker
        host = self._config.listen_host
        addresses = [config.kafka_address._replace(host=host)]
        if config.text_address is not None:
            addresses.append(config.text_address._replace(host=host))
        return addresses

    def _try_port(self, address: Address) -> None:
        options = ListenOptions(framing=Framing.STREAM)
        self._network.listen(address, options, _Nobody).close()

    def _on_ready(self) -> None:
        config = self._config.broker
        kafka, *text = self._client_addresses()
        self._kafka.start(kafka)
        for address in text:
            self._text.start(address)
        settle_gc()
        _log.info("broker %d is ready: Kafka on %s", config.node, config.kafka_address)
        line = json.dumps({"ready": config.node, "kafka": str(config.kafka_address)})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def stop(self, on_stopped: Callable[[], None]) -> None:
        """Hand leadership over, answer what can be answered, close; data is synced then."""

        def on_broker_stopped() -> None:
            self._close_client_ports()
            self._admin.stop()
            on_stopped()

        self._broker.stop(on_broker_stopped)

    def _end(self) -> None:
        self.is_doomed = True
        signal.raise_signal(signal.SIGTERM)

    def _close_client_ports(self) -> None:
        self._kafka.stop()
        self._text.stop()


def run_broker(config: ServerConfig) -> int:
    """Run a broker; return the process's exit status."""
    set_up_logging(config.log_level, config.log_format, config.broker.node)

    servers: list[Server] = []

    def start(world: RealEnv) -> Server:
        servers.append(Server(config, world))
        servers[0].start()
        return servers[0]

    own_seed = find_own_seed(config)
    if own_seed is not None:
        _log.warning("broker %d: %s", config.broker.node, own_seed)
    try:
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
