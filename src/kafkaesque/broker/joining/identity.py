"""Whether this process is the only one of its broker id.

Theory of operation. Two processes of one id would both vote, and promise things to others of which
the other one knows nothing; so one of them stops, and it should be the one that came later, before
it has done anything.

- *At the start* this process asks everybody whose address it knows (its file's controllers and
  seeds, and the brokers that its directory knows) on their peer ports, before it greets anybody
  and opens a Raft group. Who is linked with another process of this id says so, when that one has
  been heard after the question (`claim_desk`). A process of this id that is asked says so itself:
  it is looked for where it was last known to be. One such word, and this process stops.
  Otherwise it goes on when all have answered or refused, and at the latest after `START_MS_MAX`:
  nobody waits for a machine that is down. Of two that start at once and meet, at most one goes on.
- *Later* nobody lets a second process in while the first is linked with it (`peer_link`), and the
  controller does not register it. If it happened anyway, after a pause or where the network was
  parted, whoever hears of it asks again: a process that is not registered yet stops if there is
  another one. One that is stops if more brokers are linked with the other one than with it, and
  otherwise goes on, and says where the other one is.
"""

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.joining.gossip_driver import GossipDriver
from kafkaesque.broker.joining.registration import Registration
from kafkaesque.broker.life import Life
from kafkaesque.broker.peers.door import GREETING_BYTES_MAX
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.messages import (
    Claimed,
    Hello,
    MalformedPeerFrame,
    Verdict,
    read_claimed,
)
from kafkaesque.broker.reports import Reports
from kafkaesque.env import Env
from kafkaesque.env.disk import Buffer
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions, NameUnknown
from kafkaesque.model.ids import NodeId
from kafkaesque.model.log_line import LogLine

#: So long a start waits for answers: a machine that is down gives none.
START_MS_MAX: Final = 1_000
#: So long a broker that runs does, which is not in a hurry.
DOUBT_MS_MAX: Final = 2_000
#: It asks no more often than this, ...
DOUBT_EVERY_MS: Final = 5_000
#: ... and says no more often that there is another one.
TOLD_EVERY_MS: Final = 60_000
#: Addresses that are asked.
ASKED_MAX: Final = 100


class Inquiry:
    """Asks some addresses about this broker's id, for a limited time."""

    def __init__(
        self,
        env: Env,
        write_claim: Callable[[], list[Buffer]],
        limit_ms: int,
        *,
        tls: str,
        on_claimed: Callable[[Claimed], None],
        on_unknown: Callable[[NameUnknown], None],
        on_over: Callable[[], None],
    ) -> None:
        """`on_over`: nobody is left who has not answered, or the time is up.

        `tls` is what brokers speak TLS by, as in `ListenOptions.tls`.
        """
        self._options: Final = ListenOptions(
            framing=Framing.LENGTH_PREFIXED,
            frame_bytes_max=GREETING_BYTES_MAX,
            tls=tls,
            is_closed_first=True,
        )
        self.env: Final = env
        self.write_claim: Final = write_claim
        self.on_unknown: Final = on_unknown
        self._on_claimed: Final = on_claimed
        self._on_over: Final = on_over
        self._asked: Final[dict[Address, _Question]] = {}
        self._open: Final[set[_Question]] = set()
        self._is_over = False
        self._timer: Final = env.clock.call_later(limit_ms, self._end)

    def ask(self, address: Address) -> None:
        """Ask one more, unless it was asked."""
        if self._is_over or address in self._asked or len(self._asked) >= ASKED_MAX:
            return
        question = self._asked[address] = _Question(self)
        self._open.add(question)
        self.env.network.connect(address, self._options, question, question.on_failed)

    def on_answer(self, question: "_Question", claimed: Claimed | None) -> None:
        """One has answered, or will not: that says nothing."""
        if self._is_over:
            return
        if claimed is not None:
            self._on_claimed(claimed)
        self._open.discard(question)
        if not self._open:
            # In a later turn: another answer may already be there, and add to this one.
            self.env.clock.call_soon(self._maybe_end)

    def close(self) -> None:
        """Ask nobody any more; harmless if it was done."""
        self._is_over = True
        self._timer.cancel()
        for question in self._asked.values():
            question.close()

    def _maybe_end(self) -> None:
        if not self._open:
            self._end()

    def _end(self) -> None:
        if not self._is_over:
            self.close()
            self._on_over()


class _Question:
    """One connection on which it is asked; it stands until all have answered."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry: Final = inquiry
        self._connection: Connection | None = None
        self._is_closed = False

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        if self._is_closed:
            connection.abort()
            return
        self._connection = connection
        parts = self._inquiry.write_claim()
        size = sum(len(part) for part in parts)
        connection.write([size.to_bytes(4, "big"), *parts])

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        try:
            claimed = read_claimed(data)
        except MalformedPeerFrame:
            # An earlier release, or one that turns this broker away: its greetings will tell why.
            self._inquiry.on_answer(self, None)
        else:
            self._inquiry.on_answer(self, claimed)

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self._connection = None
        self._inquiry.on_answer(self, None)

    def on_failed(self, error: Exception) -> None:
        """Nobody is there."""
        if isinstance(error, NameUnknown):
            self._inquiry.on_unknown(error)
        self._inquiry.on_answer(self, None)

    def close(self) -> None:
        """Have no answer any more."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.abort()


class Identity:
    """One broker's claim to its id; see the module."""

    def __init__(
        self,
        *,
        env: Env,
        config: BrokerConfig,
        incarnation: int,
        life: Life,
        peers: PeerNetwork,
        metadata: MetadataView,
        registration: Registration,
        gossip: GossipDriver | None,
        reports: Reports,
        on_contested: Callable[[], None],
    ) -> None:
        """`on_contested` is called when this process is the one to stop."""
        self._env = env
        self._incarnation = incarnation
        self._registration = registration
        self._gossip = gossip
        self._on_contested = on_contested
        self._peers = peers
        self._metadata = metadata
        self._config = config
        self._life = life
        self._node = config.node
        self._reports = reports
        self._clock = env.clock
        self._is_settled = False
        self._on_settled: Callable[[], None] = lambda: None
        self._inquiry: Inquiry | None = None
        self._doubt_due_ms = self._told_due_ms = 0
        #: What was answered in this round.
        self._yours: Final[set[int]] = set()
        self._others: Final[dict[int, Address]] = {}
        claims = self._peers.claims
        claims.keeps_id = self._keeps_id
        claims.last_known = self._last_known
        self._peers.on_id_in_use = lambda node: self.doubt()
        registration.on_duplicate = self.doubt

    # -- the start

    def begin(self, on_settled: Callable[[], None]) -> None:
        """Ask; `on_settled` when this process may be the broker, at once if it is alone."""
        self._on_settled = on_settled
        targets = self._first_targets()
        if not targets:
            self._settle()
            return
        self._inquiry = Inquiry(
            self._env,
            self._peers.greeter.write_claim,
            START_MS_MAX,
            tls=self._peers.papers.dials_by,
            on_claimed=self._on_first_claimed,
            on_unknown=self._on_unknown,
            on_over=self._settle,
        )
        for address in targets:
            self._inquiry.ask(address)

    def close(self) -> None:
        """Ask nobody any more."""
        if self._inquiry is not None:
            self._inquiry.close()

    def _first_targets(self) -> list[Address]:
        config = self._config
        known = [
            *config.seed_addresses(),
            *[each for each in config.controllers.values() if each is not None],
            *[
                Address(each.peer_host, each.peer_port)
                for each in self._metadata.state.brokers.values()
            ],
        ]
        return [each for each in dict.fromkeys(known) if each != config.peer_address]

    def _settle(self) -> None:
        self._is_settled = True
        if not self._life.is_stopping:
            self._on_settled()

    def _on_first_claimed(self, claimed: Claimed) -> None:
        where = _address(claimed)
        if claimed.verdict == Verdict.IN_USE:
            self._give_up(claimed.node, where)
        elif where is not None and where != self._config.peer_address:
            # It may be there, though whoever answers is not linked with it.
            if self._inquiry is not None:
                self._inquiry.ask(where)

    def _keeps_id(self, hello: Hello) -> bool:
        """Another process asks for this id: tell whether this one keeps it."""
        if self._is_settled or self._incarnation < hello.incarnation:
            return True
        if not self._life.is_stopping:
            self._give_up(self._node, Address(hello.host, hello.port))
        return False

    def _give_up(self, teller: int, where: Address | None) -> None:
        """Another process is this broker: stop, before this one has taken part in anything."""
        self.close()
        if self._life.is_stopping:
            return
        seen = "it answers" if teller == self._node else f"broker {teller} is linked with it"
        sentence = (
            f"broker {self._node} is already running: {seen} at {where}. Two processes cannot be "
            f"one broker, so this one, at {self._config.peer_address}, stops: give it an id and a "
            "data directory of its own, or end the other one first"
        )
        self._reports.error(LogLine("broker.contested", sentence, address=str(where)))
        self._on_contested()

    def _on_unknown(self, error: NameUnknown) -> None:
        self._reports.warning(
            f"broker {self._node}: {error}. Is it spelt right in seeds and [controllers]?"
        )

    def _last_known(self, node: NodeId) -> Address | None:
        found = None if self._gossip is None else self._gossip.address(node)
        record = self._metadata.state.brokers.get(node)
        if found is not None or record is None:
            return found
        return Address(record.peer_host, record.peer_port)

    # -- later

    def doubt(self, rival: Address | None = None) -> None:
        """There may be another process of this id, maybe at this address: ask who is linked."""
        now_ms = self._clock.now_ms()
        if not self._is_settled or self._life.is_stopping or now_ms < self._doubt_due_ms:
            return
        self._doubt_due_ms = now_ms + DOUBT_EVERY_MS
        self._yours.clear()
        self._others.clear()
        self._inquiry = Inquiry(
            self._env,
            self._peers.greeter.write_claim,
            DOUBT_MS_MAX,
            tls=self._peers.papers.dials_by,
            on_claimed=self._on_claimed,
            on_unknown=lambda error: None,
            on_over=self._judge,
        )
        for address in (*([] if rival is None else [rival]), *self._peers.addresses()):
            self._inquiry.ask(address)

    def _on_claimed(self, claimed: Claimed) -> None:
        where = _address(claimed)
        if claimed.verdict == Verdict.YOURS and claimed.node != self._node:
            self._yours.add(claimed.node)
        elif claimed.verdict == Verdict.IN_USE and where is not None:
            self._others[claimed.node] = where

    def _judge(self) -> None:
        if self._life.is_stopping or not self._others:
            return
        where = next(iter(self._others.values()))
        witnesses = [node for node in self._others if node != self._node]
        is_lost = len(witnesses) > len(self._yours) or (
            len(witnesses) == len(self._yours) and not self._registration.is_own()
        )
        if is_lost or not self._life.is_ready:
            self._give_up(min(witnesses, default=self._node), where)
            return
        now_ms = self._clock.now_ms()
        if now_ms >= self._told_due_ms:
            self._told_due_ms = now_ms + TOLD_EVERY_MS
            sentence = (
                f"another process, at {where}, says that it is broker {self._node}, too. This "
                "one continues, because the other brokers are linked with it: end the other one, "
                "or give it an id and a data directory of its own"
            )
            self._reports.error(LogLine("broker.contested", sentence, address=str(where)))


def _address(claimed: Claimed) -> Address | None:
    return Address(claimed.host, claimed.port) if claimed.host and claimed.port else None
