"""`cluster.json` in the directory of a local cluster: what the next start goes on with."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kafkaesque.cli.broker_ports import BrokerPorts
from kafkaesque.cli.failure import CommandFailed

CLUSTER_FILE = "cluster.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """A cluster's identity: its id, whose controllers vote, and its brokers' ports."""

    cluster_id: str
    controllers: Sequence[int]
    brokers: Sequence[BrokerPorts]
    #: Whether its clients log in, over TLS.
    is_secure: bool = False
    #: Whether its administrator was given a second factor when it was made.
    has_second_factor: bool = False

    def write(self, directory: Path) -> None:
        """Replace the directory's file."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        (directory / CLUSTER_FILE).write_text(text, "utf-8")


def read_cluster_file(directory: Path) -> ClusterFile | None:
    """Return what the last start wrote; None where there was none.

    Raises:
        CommandFailed: the file is somebody else's.
    """
    path = directory / CLUSTER_FILE
    try:
        found = json.loads(path.read_text("utf-8"))
        return ClusterFile(
            cluster_id=str(found["cluster_id"]),
            controllers=[int(number) for number in found["controllers"]],
            brokers=[BrokerPorts(**ports) for ports in found["brokers"]],
            is_secure=bool(found.get("is_secure", False)),
            has_second_factor=bool(found.get("has_second_factor", False)),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise CommandFailed(
            f"{path} does not describe a cluster: is it in the right directory?"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandFailed(f"cannot read {path}: {reason}") from None
