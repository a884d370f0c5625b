"""The ports of `kafkaesque up` as its options, whatever protocols there are."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from kafkaesque.cli.broker_ports import BrokerPorts, unused_ports

#: What a broker has a port for.
NAMES = tuple(each.name for each in fields(BrokerPorts))
#: How many ports are asked for at a time: what a process is given as a whole lies within them.
PORTS = 64
ROUNDS = 8


def free_stretches(brokers: int, names: Sequence[str] = NAMES) -> dict[str, int]:
    """Return broker 1's port for each protocol; the others' follow, all unused."""
    firsts: list[int] = []
    for _ in range(ROUNDS):
        ports = set(unused_ports(PORTS))
        while ports and len(firsts) < len(names):
            row = range(min(ports), min(ports) + brokers)
            if ports.issuperset(row):
                firsts.append(row[0])
            ports -= set(row)
    if len(firsts) < len(names):
        raise AssertionError("no free ports in a row")
    return dict(zip(names, firsts, strict=True))


def port_words(ports: Mapping[str, int]) -> list[str]:
    """Return the options that say where to listen; nowhere, if nothing is said of a protocol."""
    words = []
    for name in NAMES:
        words += ["--port" if name == "kafka" else f"--{name}-port", str(ports.get(name, 0))]
    return words
