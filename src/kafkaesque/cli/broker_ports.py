"""Where the brokers of a local cluster listen: counted up from the first, or any that are free."""

import random
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Final

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.model.counted import are, counted

PORT_MAX = 65_535
#: Above the ports that services are known by, below those that Linux gives to outgoing connections.
_PORTS: Final = range(10_240, 32_768)
_BLOCK: Final = 32
#: Not to be foreseen, so that two who look at the same time rarely find the same.
_CHANCE: Final = random.SystemRandom()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """Where one broker listens, by protocol; those that are 0 are nowhere."""

    kafka: int
    peer: int
    text: int = 0
    admin: int = 0
    sqs: int = 0
    amqp: int = 0
    mqtt: int = 0
    nats: int = 0
    registry: int = 0
    stomp: int = 0
    websocket: int = 0

    def named(self) -> list[tuple[str, int]]:
        """Return the ports that are used, with what they are for."""
        all_ports = [(_KAFKA if name == KAFKA else name, getattr(self, name)) for name in _NAMES]
        return [(name, port) for name, port in all_ports if port or name in (_KAFKA, PEER)]

    def moved(self, count: int) -> "BrokerPorts":
        """Return the ports of the broker that comes so many behind this one."""
        ports = {name: getattr(self, name) for name in _NAMES}
        return BrokerPorts(**{name: port + count if port else 0 for name, port in ports.items()})


KAFKA: Final = "kafka"
PEER: Final = "peer"
_KAFKA: Final = "Kafka"
_NAMES: Final = tuple(each.name for each in fields(BrokerPorts))
#: Every protocol that a local broker can speak; the command line itself needs Kafka's.
PROTOCOLS: Final = tuple(name for name in _NAMES if name != PEER)


def narrowed(
    brokers: Sequence[BrokerPorts], protocols: str, defaults: Sequence[BrokerPorts]
) -> list[BrokerPorts]:
    """Return the ports without those of protocols that are not wanted.

    Args:
        protocols: the wanted ones, with commas between them.
        defaults: where a wanted one listens that had no port before.

    Raises:
        CommandFailed: there is no such protocol, or Kafka's is left out.
    """
    wanted = [word.strip() for word in protocols.split(",") if word.strip()]
    unknown = [word for word in wanted if word not in PROTOCOLS]
    if unknown or KAFKA not in wanted:
        what = f"{unknown[0]} is no protocol" if unknown else "kafka is missing"
        hint = f"some of {','.join(PROTOCOLS)}, and always kafka, which the command line needs"
        raise wrong_usage(f"--protocols {protocols}: {what}", hint)
    return [
        BrokerPorts(
            **{
                name: getattr(broker, name) or getattr(default, name)
                for name in _NAMES
                if name in wanted or name == PEER
            }
        )
        for broker, default in zip(brokers, defaults, strict=True)
    ]


def ports_from(first: BrokerPorts, count: int) -> list[BrokerPorts]:
    """Return the ports of some brokers: each broker's are one above the one's before."""
    return [first.moved(number) for number in range(count)]


class _Blocks:
    """Blocks of ports that this process has for itself, as long as it lives.

    A port that was free a moment ago may be another's when a broker listens there, or comes back
    to it. So processes agree on whose ports are whose: who has a block holds a socket of its name
    in Linux's abstract namespace, which is gone with the process. Other systems have no such names;
    there chance has to do.
    """

    def __init__(self) -> None:
        self._left: list[int] = []
        self._lock = threading.Lock()

    def next_port(self) -> int | None:
        """Return a port that was not returned before; None if no block is left."""
        with self._lock:
            if not self._left:
                self._left = self._take()
            return self._left.pop() if self._left else None

    def _take(self) -> list[int]:
        if sys.platform != "linux":
            return []
        firsts = _PORTS[::_BLOCK]
        for first in _CHANCE.sample(firsts, len(firsts)):
            if self._reserve(first):
                return _CHANCE.sample(range(first, first + _BLOCK), _BLOCK)
        return []

    def _reserve(self, first: int) -> bool:
        name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            name.bind(f"\0kafkaesque/ports/{first}")
        except OSError:
            name.close()
            return False
        name.detach()  # nobody closes it: it is held until the process ends
        return True


_blocks: Final = _Blocks()


def unused_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 that nobody used a moment ago.

    The system gives none of them to outgoing connections, which could otherwise take the port of a
    broker while it is away. On Linux, no other process that asks here gets them while this one
    lives, and this one gets them once; when there are no more of these, any that are unused.
    """
    found: list[int] = []
    chances = iter(_CHANCE.sample(_PORTS, len(_PORTS)))
    with ExitStack() as sockets:
        while len(found) < count:
            port = _blocks.next_port() or next(chances, None)
            if port is None:
                needed, there = f"{counted(count, 'port')} {are(count)} needed", len(found)
                raise OSError(f"{needed}, and only {there} {are(there)} unused")
            try:
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found


def free_ports(count: int) -> list[BrokerPorts]:
    """Return ports for some brokers that nobody used a moment ago."""
    numbers = iter(unused_ports(len(_NAMES) * count))
    return [BrokerPorts(**{name: next(numbers) for name in _NAMES}) for _ in range(count)]


def check_ports(host: str, brokers: Sequence[BrokerPorts]) -> None:
    """Check that every port is a port, used once, and free.

    Raises:
        CommandFailed: one is not; the message says which, and of which broker.
    """
    seen: dict[int, str] = {}
    flags: dict[int, str] = {}
    for number, ports in enumerate(brokers, start=1):
        for purpose, port in ports.named():
            name = f"{purpose} port of broker {number}"
            flags[port] = _flag(purpose)
            if not 0 < port <= PORT_MAX:
                raise wrong_usage(f"{port}, the {name}, is not a port", "1 to 65535")
            if port in seen:
                raise wrong_usage(
                    f"{port} would be both the {name} and the {seen[port]}",
                    f"set {', '.join(_flag(each) for each, _ in ports.named())} further apart",
                )
            seen[port] = name
    for port, name in seen.items():
        _check_free(host, port, name, flags[port])


def _check_free(host: str, port: int, name: str, flag: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            raise CommandFailed(
                f"cannot listen on {host}:{port}, the {name}: {(error.strerror or '').lower()}",
                hint=f"stop what uses it, or choose another one with {flag}",
            ) from None


def _flag(purpose: str) -> str:
    return "--port" if purpose == _KAFKA else f"--{purpose}-port"
