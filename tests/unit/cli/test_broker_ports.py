"""Which ports a cluster is given when nobody has chosen any."""

import socket
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest

from kafkaesque.cli.broker_ports import unused_ports

_TIMES, _ASKED = 5, 400
#: Prints ports and keeps them until its input ends.
_ANOTHER = f"""
from kafkaesque.cli.broker_ports import unused_ports
print(*(port for _ in range({_TIMES}) for port in unused_ports({_ASKED})), flush=True)
input()
"""


def test_nobody_is_given_a_port_twice() -> None:
    ports = [port for _ in range(4) for port in unused_ports(100)]
    assert len(set(ports)) == len(ports)
    assert all(10_240 <= port < 32_768 for port in ports)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract names")
def test_processes_that_live_at_the_same_time_have_different_ports() -> None:
    mine = {port for _ in range(_TIMES) for port in unused_ports(_ASKED)}
    others = [
        subprocess.Popen(
            [sys.executable, "-c", _ANOTHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        found = [
            {int(port) for port in other.stdout.readline().split()}
            for other in others
            if other.stdout is not None
        ]
    finally:
        for other in others:
            other.communicate("\n", timeout=60)
    assert [len(ports) for ports in found] == [_TIMES * _ASKED] * 2
    assert not mine & found[0]
    assert not mine & found[1]
    assert not found[0] & found[1]


def test_a_port_that_is_used_is_nobodys() -> None:
    with ExitStack() as sockets:
        for port in unused_ports(3):
            # The others that are near it would be next.
            for near in range(port - 31, port + 32):
                with suppress(OSError):
                    sockets.enter_context(socket.socket()).bind(("127.0.0.1", near))
        found = unused_ports(200)
        for port in found:
            with socket.socket() as free:
                free.bind(("127.0.0.1", port))
