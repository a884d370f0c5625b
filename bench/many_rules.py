"""A broker with many rules and users beside itself without: `python -m bench.many_rules`.

One broker with a listener where clients log in (SCRAM over TLS). Before and after 10,000 rules and
1,000 users are made by Kafka's admin calls: the time from its start until it answers, how long
Metadata for one topic takes a client with one rule, and the broker's resident memory.
"""

from __future__ import annotations

import argparse
import ssl
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from bench.processes import wait_until_ready
from bench.secured import SecuredOurs, Way, answer_of, log_in, make_user
from bench.wire import write_text
from kafkaesque.server.authority import Authority
from tests.clients.cluster import CLUSTER_ID

TIMEOUT_S: Final = 120.0
#: Asked for in one request.
BATCH: Final = 500
#: The least that Apache Kafka takes: the clients compute these.
_SCRAM: Final = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
_TOPIC: Final = "asked"


def make_rules(admin: AdminClient, count: int, users: int) -> None:
    """Make rules for prefixes, each user with as many as others; every tenth denies."""
    for begin in range(0, count, BATCH):
        rules = [
            AclBinding(
                ResourceType.TOPIC,
                f"team-{number}-",
                ResourcePatternType.PREFIXED,
                f"User:user-{number % users}",
                "*",
                AclOperation.READ,
                AclPermissionType.DENY if number % 10 == 9 else AclPermissionType.ALLOW,
            )
            for number in range(begin, min(begin + BATCH, count))
        ]
        for future in admin.create_acls(rules, request_timeout=TIMEOUT_S).values():
            future.result(TIMEOUT_S)


def make_users(admin: AdminClient, count: int) -> None:
    """Make users with passwords."""
    for begin in range(0, count, BATCH):
        changes: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(f"user-{number}", _SCRAM, b"a password")
            for number in range(begin, min(begin + BATCH, count))
        ]
        found = admin.alter_user_scram_credentials(changes, request_timeout=TIMEOUT_S)
        for future in found.values():
            future.result(TIMEOUT_S)


def metadata_times(way: Way, count: int) -> list[float]:
    """Ask for one topic's metadata, one time after the other; return seconds, sorted."""
    context = ssl.create_default_context(cafile=str(way.ca))
    body = struct.pack(">i", 1) + write_text(_TOPIC)
    request = struct.pack(">hhih", 3, 1, 1, -1) + body
    request = struct.pack(">i", len(request)) + request
    times: list[float] = []
    with log_in(way, context) as sock:
        for _ in range(count):
            begun = time.perf_counter()
            sock.sendall(request)
            answer_of(sock)
            times.append(time.perf_counter() - begun)
    return sorted(times)


def look(what: str, way: Way, requests: int, starts: int) -> None:
    """Start the broker again, ask it, and print how long that took."""
    took = []
    for _ in range(starts):
        way.broker.kill()
        begun = time.monotonic()
        way.broker.start()
        took.append(wait_until_ready(way.broker, brokers=1, timeout_s=TIMEOUT_S) - begun)
    metadata_times(way, requests // 10)
    times = metadata_times(way, requests)
    middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
    print(
        f"{what:8} start {median(took):.2f} s; Metadata p50 {middle * 1e6:.0f} us, "
        f"p99 {late * 1e6:.0f} us; {way.broker.rss_bytes() / 2**20:.1f} MiB"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rules", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--starts", type=int, default=3)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-many-rules-") as folder:
        home = Path(folder)
        authority = Authority.create(home / "ca", CLUSTER_ID)
        (home / "ours").mkdir()
        with SecuredOurs(home / "ours", authority) as ours:
            way = Way(
                name="ours",
                clear=ours.bootstrap_servers,
                port=ours.secured_port,
                ca=home / "ca" / "ca.pem",
                broker=ours.brokers[0],
                topic_options={},
            )
            make_user(way)
            # It would tell of each time that the broker is killed.
            admin = AdminClient({"bootstrap.servers": way.clear, "log_level": 0})
            admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(TIMEOUT_S)
            look("without", way, given.requests, given.starts)
            begun = time.monotonic()
            make_users(admin, given.users)
            make_rules(admin, given.rules, given.users)
            print(f"made in {time.monotonic() - begun:.1f} s")
            look("with", way, given.requests, given.starts)


if __name__ == "__main__":
    main()
