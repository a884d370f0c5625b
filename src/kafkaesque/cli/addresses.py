"""Where the command line connects to, and for how long it waits there."""

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.client import addresses
from kafkaesque.client.errors import InvalidArgument

CONNECT_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_S = 15.0


def parse_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Return hosts and ports of `host:port,...`.

    No port is assumed: with another one in mind, somebody would talk to another cluster.

    Raises:
        CommandFailed: not such a list.
    """
    try:
        return [(host, port) for host, port in addresses.parse_addresses(bootstrap)]
    except addresses.PortMissing as error:
        raise wrong_usage(str(error), f"--bootstrap-server {error.host}:9092") from None
    except InvalidArgument as error:
        raise wrong_usage(str(error), "--bootstrap-server 127.0.0.1:9092") from None
