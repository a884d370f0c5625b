"""A network of its own in user space: namespaces, and a switch that loses, delays and cuts packets.

Each machine has a network namespace with one interface, a TUN device whose other end is held here;
a packet goes from one machine to another only through this process. So a link can be cut in one
direction only, and can lose or delay what goes over it, without any module of the kernel but TUN.
The namespaces have no names and live as long as somebody is in them: nothing is left behind.

Run as a process: it prints one line of JSON (its pid, and by name of a machine the address and the
descriptor of its namespace), then takes lines of JSON: all links that are not as they should be,
as [source, target, loss from 0 to 1, delay in ms].
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
MTU = 9_000
#: Packets that are on their way; more are lost, as in any switch.
DELAYED_MAX = 20_000
_PACKETS_AT_ONCE = 64
_SUBNET = "10.77.0"
DEVICE = "chaos0"

_libc = ctypes.CDLL(None, use_errno=True)


def address_of(place: int) -> str:
    """Return the address of the machine at a place in the list of names."""
    return f"{_SUBNET}.{place + 1}"


def _unshare() -> None:
    if _libc.unshare(_CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace can be made: {os.strerror(number)}")


def _open_device(address: str) -> int:
    """Make the interface of the namespace that this process is in; return its other end."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH14x", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(device, _TUNSETIFF, request)
    for words in (
        ["link", "set", "lo", "up"],
        ["addr", "add", f"{address}/24", "dev", DEVICE],
        ["link", "set", DEVICE, "mtu", str(MTU), "up"],
    ):
        subprocess.run(["ip", *words], check=True, capture_output=True)
    return device


class Switch:
    """The packets between machines."""

    def __init__(self, names: list[str]) -> None:
        """The first name is of the machine whose namespace this process is in already."""
        self.namespaces: dict[str, int] = {}
        self._names = names
        self._devices: list[int] = []
        for place, name in enumerate(names):
            if place:
                _unshare()
            self.namespaces[name] = os.open("/proc/self/ns/net", os.O_RDONLY)
            self._devices.append(_open_device(address_of(place)))
        self._places = {device: place for place, device in enumerate(self._devices)}
        self._links: dict[tuple[int, int], tuple[float, float]] = {}
        self._delayed: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self._dice = random.Random(20)

    def impair(self, links: list[tuple[str, str, float, float]]) -> None:
        """Let exactly these links be struck."""
        place = {name: number for number, name in enumerate(self._names)}
        self._links = {(place[a], place[b]): (loss, ms) for a, b, loss, ms in links}

    def run(self, commands: int) -> None:
        """Carry packets until the commands end."""
        os.set_blocking(commands, False)
        poll = select.epoll()
        for device in (*self._devices, commands):
            poll.register(device, select.EPOLLIN)
        text = b""
        while True:
            for ready, _ in poll.poll(self._wait_s()):
                if ready != commands:
                    self._take(ready)
                    continue
                read = os.read(commands, 1 << 16)
                if not read:
                    return
                *lines, text = (text + read).split(b"\n")
                for line in lines:
                    self.impair(json.loads(line))
            self._deliver_delayed()

    def _wait_s(self) -> float:
        if not self._delayed:
            return -1
        return max(0.0, self._delayed[0][0] - time.monotonic())

    def _take(self, device: int) -> None:
        source = self._places[device]
        for _ in range(_PACKETS_AT_ONCE):
            try:
                packet = os.read(device, MTU + 100)
            except BlockingIOError:
                return
            # Version 4 only, to a machine of ours: the last byte of its address is its place.
            if len(packet) < 20 or packet[0] >> 4 != 4 or packet[16:19] != b"\x0a\x4d\x00":
                continue
            target = packet[19] - 1
            if 0 <= target < len(self._devices) and target != source:
                self._carry(source, target, packet)

    def _carry(self, source: int, target: int, packet: bytes) -> None:
        struck = self._links.get((source, target))
        if struck is None:
            self._deliver(target, packet)
            return
        loss, delay_ms = struck
        if self._dice.random() < loss or len(self._delayed) >= DELAYED_MAX:
            return
        self._count += 1
        due = time.monotonic() + delay_ms * self._dice.uniform(0.5, 1.5) / 1_000
        heapq.heappush(self._delayed, (due, self._count, target, packet))

    def _deliver_delayed(self) -> None:
        now = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            _, _, target, packet = heapq.heappop(self._delayed)
            self._deliver(target, packet)

    def _deliver(self, target: int, packet: bytes) -> None:
        try:
            os.write(self._devices[target], packet)
        except OSError:
            pass  # its queue is full, or it has no address any more: the packet is lost


class Network:
    """The run's side of the switch: starts it, and says which links are struck."""

    def __init__(self, names: list[str]) -> None:
        """Raises OSError if there can be no such network here."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.chaos.switch", *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if self._process.stdout is None or self._process.stdin is None:
            raise OSError("the switch has no pipes")
        self._commands = self._process.stdin
        line = self._process.stdout.readline()
        if not line:
            _, said = self._process.communicate()
            last = said.decode(errors="replace").strip().splitlines()[-1:] or ["it says nothing"]
            raise OSError(f"the switch did not start: {last[0]}")
        self._told = json.loads(line)
        #: By number of the fault: its links, loss and delay.
        self._struck: dict[int, tuple[list[tuple[str, str]], float, float]] = {}

    def address(self, name: str) -> str:
        """Return a machine's address."""
        return str(self._told["addresses"][name])

    def enter(self, name: str) -> list[str]:
        """Return what goes before a command that is to run on a machine."""
        number = self._told["namespaces"][name]
        return ["nsenter", f"--net=/proc/{self._process.pid}/fd/{number}", "--"]

    def strike(
        self, fault: int, links: list[tuple[str, str]], *, loss: float = 0.0, delay_ms: float = 0.0
    ) -> None:
        """Let links lose or delay packets, until `mend` is told the same fault."""
        self._struck[fault] = links, loss, delay_ms
        self._tell()

    def mend(self, fault: int) -> None:
        """End what a fault does to links."""
        if self._struck.pop(fault, None) is not None:
            self._tell()

    def _tell(self) -> None:
        links: dict[tuple[str, str], tuple[float, float]] = {}
        for pairs, loss, delay_ms in self._struck.values():
            for pair in pairs:
                other_loss, other_ms = links.get(pair, (0.0, 0.0))
                links[pair] = (max(loss, other_loss), delay_ms + other_ms)
        line = json.dumps([[*pair, *struck] for pair, struck in links.items()])
        self._commands.write(line.encode() + b"\n")
        self._commands.flush()

    def close(self) -> None:
        """End the network."""
        self._commands.close()
        self._process.wait(10)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def main() -> None:
    """Carry packets between machines of the names on the command line."""
    names = sys.argv[1:]
    switch = Switch(names)
    addresses = {name: address_of(place) for place, name in enumerate(names)}
    told = {"namespaces": switch.namespaces, "addresses": addresses}
    print(json.dumps(told), flush=True)
    switch.run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
