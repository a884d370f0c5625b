"""Random conversations of several clients with brokers, which have to survive them.

A walk opens connections, lets their clients say things in one piece or in many, stops reading, ends
connections in every way, stops and kills brokers, and lets time go by, so that whatever waits for
somebody ends after he is gone. An exception of a broker's is raised by the loop at once. In the end
all connections are gone, and nothing is left of them.
"""

from __future__ import annotations

import gc
import random
import traceback
from collections.abc import Sequence
from socket import SHUT_WR
from typing import Any, Final

from kafkaesque.chassis.link import ClientConnection
from kafkaesque.env.network import Address, Connection
from kafkaesque.gateway.queueing.deletions import Deletions
from kafkaesque.sim.loop import NS_PER_MS
from tests.unit.chassis.client import Client
from tests.unit.gateway_walks.ground import PATIENCE_MS, Ground, exceptions_kept
from tests.unit.gateway_walks.speaker import Speaker

PEERS_MAX: Final = 5
#: How long is waited between two things that are done, in ms; mostly not at all.
WAITS_MS: Final = (0, 0, 0, 0, 0.1, 1, 1, 5, 20, 100, 100, 600)
LONG_WAITS_MS: Final = (3_000, 3_000, 11_000, 35_000, 130_000)
LONG_ONE_IN: Final = 25
#: What outlives its connection has to be gone after this.
REST_MS: Final = 150_000
WAYS: Final = ("close", "half", "abort", "reset")
RECEIVED_BYTES_MAX: Final = 1_000_000


class Peer:
    """One connection, and what its client says."""

    def __init__(self, ground: Ground, speaker: Speaker, broker: str) -> None:
        self._ground: Final = ground
        self.speaker: Final = speaker
        self.client: Final = Client(ground.env, Address(broker, speaker.port))
        self._heard = 0
        self.is_ended = False
        self.how = ""

    def write(self, data: bytes) -> None:
        connection = self.client.connection
        if connection is not None and not self.client.is_closed and not self.is_ended:
            connection.write((data,))

    def hear(self) -> None:
        data = self.client.received[self._heard :]
        if data:
            self._heard += len(data)
            if len(self.client.received) > RECEIVED_BYTES_MAX:
                self.client.received, self._heard = b"", 0
            self.speaker.hear(data)

    def read(self, *, on: bool) -> None:
        connection = self.client.connection
        if connection is not None and not self.client.is_closed:
            (connection.resume_reading if on else connection.pause_reading)()

    def end(self, how: str) -> None:
        """Close, half-close, or reset."""
        connection = self.client.connection
        self.read(on=True)
        self.is_ended, self.how = True, how
        if connection is None or self.client.is_closed:
            return
        if how == "half":
            # What it has written leaves first, and what it is answered still comes.
            self._ground.loop.after(
                NS_PER_MS, "half", lambda: _socket(connection).shutdown(SHUT_WR)
            )
        elif how == "close":
            connection.close()
        else:
            _socket(connection).reset_on_close = how == "reset"
            connection.abort()


def _socket(connection: Connection) -> Any:
    """Return the simulated socket below a connection."""
    return connection._sock  # type: ignore[attr-defined]


class Walk:
    """One random conversation."""

    def __init__(
        self,
        ground: Ground,
        dice: random.Random,
        kinds: Sequence[type[Speaker]],
        *,
        with_stops: bool = False,
    ) -> None:
        """`kinds` are the protocols that are spoken, the more often the nearer to the front."""
        self.ground: Final = ground
        self.dice: Final = dice
        self.kinds: Final = kinds
        self.with_stops: Final = with_stops
        self.peers: Final[list[Peer]] = []
        self.gone: Final[list[Peer]] = []
        self.said: Final[list[bytes]] = []

    def run(self, steps: int) -> None:
        self._open()
        for _ in range(steps):
            self.step()
        self.end()

    def step(self) -> None:
        dice = self.dice
        for peer in self.peers:
            peer.hear()
        choice = dice.randrange(100)
        if not self.peers or (choice < 8 and len(self.peers) < PEERS_MAX):
            self._open()
        elif choice < 80:
            self._say(dice.choice(self.peers))
        elif choice < 84:
            dice.choice(self.peers).read(on=False)
        elif choice < 87:
            dice.choice(self.peers).read(on=True)
        elif choice < 95:
            peer = self.peers.pop(dice.randrange(len(self.peers)))
            if dice.randrange(2):
                self._say(peer)
            peer.end(dice.choice(WAYS))
            self.gone.append(peer)
        elif choice == 95 and self.with_stops:
            name = dice.choice(self.ground.cluster.names)
            (self.ground.stop if dice.randrange(3) else self.ground.kill)(name)
        elif choice == 96:
            oscillator = self.ground.world.machines[self.ground.cluster.names[0]].oscillator
            oscillator.jump_wall(dice.choice((-86_400_000, -1_000, 1_000, 3_600_000)))
        is_long = dice.randrange(LONG_ONE_IN) == 0
        self.ground.wait(dice.choice(LONG_WAITS_MS if is_long else WAITS_MS))

    def _open(self) -> None:
        dice = self.dice
        first = self.kinds[0]
        kind = first if dice.randrange(4) else dice.choice(self.kinds)
        peer = Peer(self.ground, kind(dice), dice.choice(self.ground.cluster.names))
        self.peers.append(peer)
        self.ground.wait(10)
        data = peer.speaker.opening()
        if dice.randrange(8) == 0:
            data += b"".join(peer.speaker.say() for _ in range(dice.randrange(4)))
        self._write(peer, data)
        if dice.randrange(4):
            self.ground.wait(10)

    def _say(self, peer: Peer) -> None:
        dice = self.dice
        count = dice.choice((1, 1, 1, 2, 3, 5, 9))
        said = b"".join(peer.speaker.say() for _ in range(count))
        if said and dice.randrange(40) == 0:
            changed = bytearray(said)
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
            said = bytes(changed)
        self._write(peer, said)

    def _write(self, peer: Peer, data: bytes) -> None:
        dice = self.dice
        self.said.append(data)
        if dice.randrange(3):
            peer.write(data)
            return
        at = 0
        while at < len(data):
            size = dice.choice((1, 3, 10, 100, 1_000, 10_000))
            peer.write(data[at : at + size])
            at += size
            if dice.randrange(2):
                self.ground.wait(dice.choice((0, 0.3, 1)))

    def end(self) -> None:
        """All go, each in its own way; the broker lets go of them."""
        ground, everybody = self.ground, self.peers + self.gone
        for peer in self.peers:
            peer.end(self.dice.choice(WAYS))
        ground.settle()
        for peer in everybody:
            if type(peer.speaker).streams_on:
                # Who has ended its side may still read, as long as there is something.
                peer.end("abort")
        ground.loop.run_until(
            lambda: (
                all(peer.client.is_closed for peer in everybody)
                and not any(gateway.connections for gateway in ground.gateways())
            ),
            PATIENCE_MS,
            every_ms=10,
        )


def rest(ground: Ground) -> None:
    """Wait until what may outlive connections has ended, and look that nothing is left of them."""
    for each in gc.get_objects():
        if isinstance(each, Deletions):
            # A few consumers that are over wait there until the metadata change.
            each._clean_at = 0
    ground.wait(REST_MS)
    ground.settle()
    for broker in ground.brokers:
        for led in broker.doors.queues.led_here():
            if led is not None:
                assert led.counts.consumers == 0, led
    check_nothing_is_left(ground)


def check_nothing_is_left(ground: Ground) -> None:
    """Look that no connection is kept in memory, and no exception with its frames."""
    gc.collect()
    # A broker that was killed keeps what it had, as its process would.
    alive = {id(gateway.chassis) for gateway in ground.gateways()}
    objects = gc.get_objects()
    left = [
        each
        for each in objects
        if isinstance(each, ClientConnection) and id(each.shared.chassis) in alive
    ]
    assert not left, [(each, list(map(type, gc.get_referrers(each)))) for each in left[:3]]
    before = {id(each) for each in ground.raised_before}
    raised = [each for each in exceptions_kept() if id(each) not in before]
    assert not raised, [(each, traceback.format_tb(each.__traceback__)[-1]) for each in raised[:3]]
