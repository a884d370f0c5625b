"""The options that say where the brokers are, of both ends."""

from __future__ import annotations

from kafkaesque.spark.cluster import ClusterOptions
from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.options import OptionReader
from kafkaesque.spark.security_options import parse_security

PORT_MAX = 65_535
_TIMEOUT_MS_MAX = 3_600_000


def parse_cluster(options: OptionReader) -> ClusterOptions:
    """Return where the brokers are, and how to speak with them.

    Raises:
        WrongOption: it is not said, or not rightly.
    """
    request_ms = options.number(
        "kafka.request.timeout.ms", least=1, most=_TIMEOUT_MS_MAX, default=30_000
    )
    api_ms = options.number(
        "kafka.default.api.timeout.ms", least=1, most=_TIMEOUT_MS_MAX, default=60_000
    )
    return ClusterOptions(
        bootstrap_servers=_parse_addresses(options.required("kafka.bootstrap.servers")),
        client_id=options.text("kafka.client.id") or "kafkaesque-spark",
        request_timeout_s=request_ms / 1000,
        api_timeout_s=api_ms / 1000,
        security=parse_security(options),
    )


def _parse_addresses(text: str) -> tuple[tuple[str, int], ...]:
    addresses: list[tuple[str, int]] = []
    for address in text.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= PORT_MAX:
            raise WrongOption(
                "the option kafka.bootstrap.servers is a list of HOST:PORT with commas between,"
                f" not {text!r}"
            )
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return tuple(addresses)
