"""A broker's admin port, asked: its metrics, whether it is ready, and what its clock says."""

import re
import time
from http.client import HTTPConnection, HTTPException

from kafkaesque.cli.doctor.facts import AdminFacts

TIMEOUT_S = 5.0
#: More is no metrics page of ours.
PAGE_BYTES_MAX = 32 * 1024 * 1024
REASONS_MAX = 20

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)")
_VERSION = re.compile(r'version="([^"]*)"')


def ask_admin(address: str) -> AdminFacts:
    """Return what a broker says of itself.

    Raises:
        OSError: it does not answer, or something else does.
    """
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    try:
        # First the connection: what is measured is one way there and back.
        status, ready = _get(connection, "/health/ready")
        begun = time.time()
        _, page = _get(connection, "/metrics")
        ended = time.time()
    except (HTTPException, ValueError) as error:
        raise OSError(f"{address} is no admin port: {error!r}") from None
    finally:
        connection.close()
    metrics, version = read_metrics(page)
    told = metrics.get("kafkaesque_broker_time_seconds")
    if told is None:
        raise OSError(f"{address} is no admin port of a broker")
    return AdminFacts(
        metrics=metrics,
        version=version,
        reasons=() if status == 200 else ready.splitlines()[:REASONS_MAX],
        clock_ahead_s=told - (begun + ended) / 2,
        clock_error_s=(ended - begun) / 2,
    )


def read_metrics(page: str) -> tuple[dict[str, float], str]:
    """Return the samples by name, the first one of each, and the broker's version."""
    found: dict[str, float] = {}
    version = ""
    for line in page.splitlines():
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            continue
        name, labels, value = sample.groups()
        found.setdefault(name, float(value))
        if name == "kafkaesque_broker_info" and (said := _VERSION.search(labels or "")):
            version = said[1]
    return found, version


def _get(connection: HTTPConnection, path: str) -> tuple[int, str]:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read(PAGE_BYTES_MAX + 1)
    if len(body) > PAGE_BYTES_MAX:
        raise ValueError(f"{path} is longer than {PAGE_BYTES_MAX} bytes")
    return answer.status, body.decode(errors="replace")
