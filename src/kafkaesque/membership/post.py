"""Puts packets into frames, with as many rumours as there is room for."""

from collections.abc import Iterable
from typing import Final

from kafkaesque.env.network import Address
from kafkaesque.membership.entries import Entry
from kafkaesque.membership.messages import (
    Ack,
    Gossip,
    Message,
    Ping,
    ProbeRequest,
    ProbeResult,
)
from kafkaesque.membership.ready import Datagram, Outbox
from kafkaesque.membership.rumours import RumourBoard
from kafkaesque.membership.seal import SEAL_BYTES, Keyring
from kafkaesque.membership.view import ClusterView
from kafkaesque.membership.wire import ENTRIES_MAX, write_entry, write_message, write_packet
from kafkaesque.model.ids import NodeId

#: Messages with which rumours ride along: the entries of all others have a purpose of their own.
_CARRIERS = Ping | Ack | ProbeRequest | ProbeResult | Gossip


class Post:
    """Sends for one member; frames are numbered through each of its lives."""

    __slots__ = (
        "_board",
        "_frame_bytes_max",
        "_keyring",
        "_node",
        "_number",
        "_outbox",
        "_view",
        "life",
        "now_ms",
        "rides_along",
    )

    def __init__(
        self,
        *,
        node: NodeId,
        life: int,
        keyring: Keyring,
        board: RumourBoard,
        view: ClusterView,
        outbox: Outbox,
        frame_bytes_max: int,
        rides_along: bool,
    ) -> None:
        """`rides_along`: rumours go with probes, too, and not with `Gossip` alone."""
        self._node: Final = node
        self._keyring: Final = keyring
        self._board: Final = board
        self._view: Final = view
        self._outbox: Final = outbox
        self._frame_bytes_max: Final = frame_bytes_max
        self.rides_along: Final = rides_along
        self._number = 0
        self.life = life
        self.now_ms = 0

    def send(
        self, to: NodeId, address: Address, message: Message, first: Iterable[Entry] = ()
    ) -> list[Entry]:
        """Send a message, `first` as far as it fits, and rumours; return the rumours.

        A message that is longer than a frame by itself is the caller's mistake.
        """
        head = write_message(message)
        room = self._frame_bytes_max - SEAL_BYTES - len(head) - 1
        written: list[bytes] = []
        for entry in first:
            raw = write_entry(self._at_hand(entry))
            if len(raw) <= room and len(written) < ENTRIES_MAX:
                room -= len(raw)
                written.append(raw)
        rumours: list[Entry] = []
        if len(self._board) and isinstance(message, _CARRIERS if self.rides_along else Gossip):
            for entry, raw in self._board.choose(room, ENTRIES_MAX - len(written), self._at_hand):
                rumours.append(entry)
                written.append(raw)
        self._seal(to, address, write_packet(head, written))
        return rumours

    def send_entries(
        self, to: NodeId, address: Address, message: Message, entries: Iterable[Entry], most: int
    ) -> None:
        """Send as many entries as go into so many frames."""
        head = write_message(message)
        room_bytes = self._frame_bytes_max - SEAL_BYTES - len(head) - 1
        room, written, frames = room_bytes, list[bytes](), 0
        for entry in entries:
            raw = write_entry(self._at_hand(entry))
            if len(raw) > room or len(written) == ENTRIES_MAX:
                self._seal(to, address, write_packet(head, written))
                room, written, frames = room_bytes, [], frames + 1
                if frames == most:
                    return
            room -= len(raw)
            written.append(raw)
        if written:
            self._seal(to, address, write_packet(head, written))

    def room_after(self, head_bytes: int) -> int:
        """Return how many bytes a frame has for what follows the head of a message."""
        return self._frame_bytes_max - SEAL_BYTES - head_bytes

    def _at_hand(self, entry: Entry) -> Entry:
        return self._view.at_hand(entry, self.now_ms)

    def _seal(self, to: NodeId, address: Address, packet: bytes) -> None:
        self._number += 1
        frame = self._keyring.seal(self._node, to, self.life, self._number, packet)
        self._outbox.datagrams.append(Datagram(address, frame))
