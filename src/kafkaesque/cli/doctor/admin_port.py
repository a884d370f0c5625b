"""A broker's admin port, asked: its metrics, whether it is ready, and what its clock says."""

import re
import ssl
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection

import msgspec

from kafkaesque.cli import tls
from kafkaesque.cli.admin_pages import authorization
from kafkaesque.cli.doctor.facts import AdminFacts
from kafkaesque.cli.missing_rules import NO_RULE, on_cluster

TIMEOUT_S = 5.0
#: More is no metrics page of ours.
PAGE_BYTES_MAX = 32 * 1024 * 1024
REASONS_MAX = 20

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)")
_VERSION = re.compile(r'version="([^"]*)"')
_BROKER = re.compile(r'kafkaesque_broker_info\{[^}]*\bbroker="([0-9]+)"')


class _OfflineReplica(msgspec.Struct, frozen=True):
    partition: str
    reason: str


class _OfflineReplicas(msgspec.Struct, frozen=True):
    """The page `/offline-replicas`; earlier releases have none."""

    replicas: list[_OfflineReplica]
    copied: list[str] = []


class _Controllers(msgspec.Struct, frozen=True):
    """The page `/controllers`; earlier releases have none."""

    voters: list[int]
    has_lost_log: bool = False


class Forbidden(OSError):
    """It answers, and no rule allows to look at it."""


def ask_admin(address: str, number: int) -> AdminFacts:
    """Return what a broker says of itself.

    Raises:
        Forbidden: no rule allows it.
        OSError: it does not answer, or somebody else does.
    """
    host, _, port = address.rpartition(":")
    connection = _connect(host, int(port))
    try:
        # First the connection: what is measured is one way there and back.
        headers = authorization(address, is_encrypted=isinstance(connection, HTTPSConnection))
        status, ready = _get(connection, "/health/ready", headers)
        begun = time.time()
        shown, page = _get(connection, "/metrics", headers)
        ended = time.time()
        offline, damaged = _get(connection, "/offline-replicas", headers)
        copies = msgspec.json.decode(damaged, type=_OfflineReplicas) if offline == 200 else None
        there, page_of_controllers = _get(connection, "/controllers", headers)
        controllers = (
            msgspec.json.decode(page_of_controllers, type=_Controllers)
            if there == 200
            else _Controllers([])
        )
    except (HTTPException, ValueError) as error:
        raise OSError(f"{address} is no admin port: {error!r}") from None
    finally:
        connection.close()
    if shown == 401:
        raise OSError(f"{address} requires a log-in: kafkaesque login, or KAFKAESQUE_USER")
    if shown == 403:
        raise Forbidden(f"{NO_RULE} {on_cluster('describe')}")
    metrics, version = read_metrics(page)
    told = metrics.get("kafkaesque_broker_time_seconds")
    if told is None:
        raise OSError(f"{address} is no admin port of a broker")
    if (broker := _BROKER.search(page)) is not None and int(broker[1]) != number:
        raise OSError(f"it is the admin port of broker {broker[1]}, not of broker {number}")
    return AdminFacts(
        metrics=metrics,
        version=version,
        reasons=() if status == 200 else ready.splitlines()[:REASONS_MAX],
        clock_ahead_s=told - (begun + ended) / 2,
        clock_error_s=(ended - begun) / 2,
        damaged={e.partition: e.reason for e in copies.replicas} if copies is not None else {},
        copied=copies.copied if copies is not None else (),
        controllers=controllers.voters,
        has_lost_log=controllers.has_lost_log,
    )


def _connect(host: str, port: int) -> HTTPConnection:
    """Return a connection, by TLS where commands speak it and this port does, too.

    Raises:
        OSError: nobody listens, or is not to be trusted.
    """
    context = tls.context()
    if context is not None:
        secured = HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        try:
            secured.connect()
        except ssl.SSLCertVerificationError:
            raise
        except ssl.SSLError:
            pass  # This port may speak in the clear though others do not.
        else:
            return secured
    return HTTPConnection(host, port, timeout=TIMEOUT_S)


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


def _get(connection: HTTPConnection, path: str, headers: dict[str, str]) -> tuple[int, str]:
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read(PAGE_BYTES_MAX + 1)
    if len(body) > PAGE_BYTES_MAX:
        raise ValueError(f"{path} is longer than {PAGE_BYTES_MAX} bytes")
    return answer.status, body.decode(errors="replace")
