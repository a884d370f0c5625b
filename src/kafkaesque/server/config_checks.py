"""What may be wrong with a configuration that is right in itself: where it runs, and with whom.

`kafkaesque broker --check` asks all of it; a broker that starts asks what needs no other machine.
"""

import errno
import os
import socket
import struct
from pathlib import Path
from typing import cast

from kafkaesque.env.disk import Disk
from kafkaesque.env.network import Address
from kafkaesque.model.errors import ConfigError, KafkaesqueError
from kafkaesque.runtime.directory import RealDirectory
from kafkaesque.server.config import ServerConfig
from kafkaesque.storage.directory import check_owner

#: So long each seed may take to answer, or not to.
SEED_SECONDS_MAX = 1.0

#: ApiVersions, version 0: what every Kafka port answers, and no peer port.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def make_data_directory(path: Path) -> None:
    """Make the data directory unless it is there.

    Raises:
        ConfigError: it cannot be made, or nothing could be written in it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the data directory {path} cannot be made: {error.strerror}") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"this user may not read and write in the data directory {path}")


def check_data_directory(config: ServerConfig) -> None:
    """See whether the data directory is this broker's, or could be made; nothing new stays.

    Raises:
        ConfigError: see `make_data_directory`; or the directory is another broker's, or another
            cluster's, or does not say whose it is.
    """
    path = config.data
    missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        make_data_directory(path)
        _check_owner(config)
    finally:
        for each in missing:
            if each.is_dir():
                each.rmdir()


def _check_owner(config: ServerConfig) -> None:
    # Nothing of it is written or locked: its broker may be running.
    disk = cast("Disk", RealDirectory(config.data))
    try:
        check_owner(disk, config.broker.cluster_id, config.broker.node)
    except KafkaesqueError as error:
        raise ConfigError(f"{error} (the data directory is {config.data})") from None


def check_addresses(config: ServerConfig) -> None:
    """See whether this machine has the addresses on which the broker listens.

    A port that is in use says nothing about a file: the broker itself may be running.

    Raises:
        ConfigError: nothing could listen there.
    """
    broker = config.broker
    addresses = [each.address for each in broker.listeners]
    for address in (*addresses, broker.peer_listener or broker.peer_address):
        try:
            family, kind, _, _, where = socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind) as tried:
                tried.bind(where)
        except (OSError, UnicodeError) as error:
            if getattr(error, "errno", None) != errno.EADDRINUSE:
                reason = getattr(error, "strerror", None) or "it cannot be a name"
                raise ConfigError(f"cannot listen on {address}: {reason}") from None


def find_own_seed(config: ServerConfig) -> str | None:
    """Return what is to be said of a seed that is the broker itself; None if there is none."""
    own = config.broker.peer_address
    if own not in config.broker.seeds:
        return None
    if config.broker.seed_addresses():
        return f"the seed {own} is this broker's own peer address: it is useless, leave it out"
    return (
        f"the only seed, {own}, is this broker's own peer address: it will find no others "
        "through it, which is right only for the first broker of a cluster; otherwise name another "
        "broker's peer address"
    )


def look_at_seeds(config: ServerConfig) -> list[str]:
    """Return what is wrong with seeds as seen from this machine, now; waits."""
    found = (_look_at(address) for address in config.broker.seed_addresses())
    return [sentence for sentence in found if sentence is not None]


def _look_at(address: Address) -> str | None:
    try:
        with socket.create_connection(address, SEED_SECONDS_MAX) as connection:
            connection.sendall(_API_VERSIONS)
            head = _read_head(connection)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be a name"
        return f"the name of the seed {address} does not resolve here: {reason}"
    except OSError:
        return None  # It does not run, or cannot be reached from here: nothing is known of it.
    if head[4:8] == b"\0\0\0\1":
        return f"the seed {address} is a Kafka port: name the broker's peer.port (9190 by default)"
    return None


def _read_head(connection: socket.socket) -> bytes:
    head = b""
    while len(head) < 8:
        data = connection.recv(8 - len(head))
        if not data:
            break
        head += data
    return head
