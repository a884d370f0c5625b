"""What a broker's process has beside the broker: files that are read again, and spans that leave.

What reads, checks and watches certificates and keys, and what sends spans, is imported here, in
functions, and so only by brokers that have such files, or such a place.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafkaesque.broker.doors import Doors
from kafkaesque.runtime.env import RealEnv
from kafkaesque.server.config import ServerConfig

_log: Final = logging.getLogger("kafkaesque.server")


class Watch(Protocol):
    """Looks whether files have changed."""

    def stop(self) -> None:
        """Look no more."""

    def reload(self) -> None:
        """Read them again, changed or not."""


#: Begins to use what was loaded, and to look for changes.
StartWatch = Callable[[RealEnv, Doors], Watch]


def load_watched(config: ServerConfig) -> Sequence[StartWatch]:
    """Load the files that a broker's configuration names; return what starts to watch them.

    Raises:
        ConfigError: a file cannot be used.
    """
    starts = (_load_certificates(config), _load_keys(config), _load_tracing(config))
    return [each for each in starts if each is not None]


def _load_certificates(config: ServerConfig) -> StartWatch | None:
    if not config.tls:
        return None
    from kafkaesque.server.certificate_watch import CertificateWatch
    from kafkaesque.server.certificates import load_all

    loaded = load_all(config.tls)

    def start(world: RealEnv, _: Doors) -> Watch:
        watch = CertificateWatch(
            settings=config.tls,
            clock=world.env.clock,
            workers=world.disk.readers,
            use=world.network.use_tls,
            report=_log.info,
            report_warning=_log.warning,
            report_error=_log.error,
        )
        watch.start(loaded)
        return watch

    return start


def _load_keys(config: ServerConfig) -> StartWatch | None:
    oauth = config.oauth
    if oauth is None:
        return None
    from kafkaesque.server.key_set_watch import KeySetWatch
    from kafkaesque.server.oauth_settings import load_verifier

    verifier = load_verifier(oauth)

    def start(world: RealEnv, doors: Doors) -> Watch:
        watch = KeySetWatch(
            settings=oauth,
            clock=world.env.clock,
            workers=world.disk.readers,
            use=doors.access.check_tokens_with,
            report=_log.info,
            report_error=_log.error,
        )
        watch.start(verifier)
        return watch

    return start


def _load_tracing(config: ServerConfig) -> StartWatch | None:
    endpoint = config.tracing_endpoint
    if not endpoint:
        return None
    from kafkaesque.broker.tracer import Tracer
    from kafkaesque.server.trace_export import TraceExport

    def start(world: RealEnv, doors: Doors) -> Watch:
        tracer = Tracer(world.env.clock, world.env.dice)
        doors.activity.tracer = tracer
        export = TraceExport(
            endpoint=endpoint,
            tracer=tracer,
            node=doors.cluster.node,
            cluster_id=config.broker.cluster_id,
            report=_log.info,
            report_warning=_log.warning,
        )
        export.start()
        return export

    return start
