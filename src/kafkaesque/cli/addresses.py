"""Where the command line connects to, and for how long it waits there."""

from kafkaesque.cli.arguments import wrong_usage

CONNECT_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_S = 15.0
PORT_MAX = 65_535
ADDRESSES_MAX = 100
#: What helps where nobody answers.
START_HINT = "kafkaesque up     (a cluster on this machine), or --bootstrap-server HOST:PORT"


def parse_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Return hosts and ports of `host:port,...`.

    No port is assumed: with another one in mind, somebody would talk to another cluster.

    Raises:
        CommandFailed: not such a list.
    """
    found = []
    for word in bootstrap.split(",")[:ADDRESSES_MAX]:
        host, colon, port = word.strip().rpartition(":")
        if (port and not colon) or port.endswith("]"):
            host = word.strip()
            raise wrong_usage(f"{host!r} has no port", f"--bootstrap-server {host}:9092")
        if not host or not port.isdigit() or not 0 < int(port) <= PORT_MAX:
            raise wrong_usage(
                f"{word.strip()!r} is not the address of a broker",
                "--bootstrap-server 127.0.0.1:9092",
            )
        found.append((host.strip("[]"), int(port)))
    return found
