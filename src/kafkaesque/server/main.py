"""Runs one broker in this process, until it is told to stop."""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from pathlib import Path

from kafkaesque.broker.broker import Broker
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.gateway.text.gateway import TextGateway
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.runtime.env import RealEnv
from kafkaesque.runtime.loop import new_loop, report_to
from kafkaesque.server.config import ServerConfig

EXIT_OK = 0
EXIT_CANNOT_START = 1
EXIT_BROKEN = 70

_log = logging.getLogger("kafkaesque.server")


class Server:
    """One broker with its ports."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._loop = new_loop()
        self._exit_code = EXIT_OK
        self._is_stopping = False
        report_to(self._loop, self._on_fatal)
        self._world = RealEnv(self._loop, config.data, self._on_fatal)
        self._broker = Broker(env=self._world.env, config=config.broker, report=_log.info)
        self._kafka = KafkaGateway(self._broker, _log.info)
        self._text = TextGateway(self._broker, _log.info)

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; return the exit code."""
        asyncio.set_event_loop(self._loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._on_signal)
        try:
            self._broker.start(self._on_ready)
        except (KafkaesqueError, OSError) as error:
            _log.error("broker %d cannot start: %s", self._config.broker.node, error)
            return EXIT_CANNOT_START
        self._loop.run_forever()
        self._world.close()
        return self._exit_code

    def _on_ready(self) -> None:
        config = self._config.broker
        host = self._config.listen_host
        try:
            self._kafka.start(config.kafka_address._replace(host=host))
            if config.text_address is not None:
                self._text.start(config.text_address._replace(host=host))
        except OSError as error:
            _log.error("broker %d cannot listen: %s", config.node, error)
            self._exit_code = EXIT_CANNOT_START
            self._stop()
            return
        # What is loaded now stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        _log.info("broker %d is ready: Kafka on %s", config.node, config.kafka_address)
        line = json.dumps({"ready": config.node, "kafka": str(config.kafka_address)})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def _on_signal(self) -> None:
        if self._is_stopping:
            _log.warning("stopping at once")
            os._exit(EXIT_BROKEN)
        _log.info("broker %d is stopping", self._config.broker.node)
        self._stop()

    def _stop(self) -> None:
        self._is_stopping = True
        self._kafka.stop()
        self._text.stop()
        self._broker.stop(self._loop.stop)

    def _on_fatal(self, error: BaseException) -> None:
        """Something that must never happen did: report it and stop, before it does harm."""
        _log.critical("broker %d stops: %s", self._config.broker.node, error, exc_info=error)
        logging.shutdown()
        os._exit(EXIT_BROKEN)


def run_broker(config: ServerConfig) -> int:
    """Run a broker; return the process's exit code."""
    logging.basicConfig(
        level=config.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    Path(config.data).mkdir(parents=True, exist_ok=True)
    try:
        server = Server(config)
    except KafkaesqueError as error:
        _log.error("broker %d cannot start: %s", config.broker.node, error)
        return EXIT_CANNOT_START
    return server.run()
