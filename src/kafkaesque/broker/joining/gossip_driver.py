"""Membership by gossip, put to work: the core, a port for datagrams, and one timer.

What becomes of what the core says (ADR 15): a member that appears or moves is dialled; one that has
left and is not registered is dialled no more; one that is dead is given up at once if it was
doubted anyway. Nothing else follows from a verdict: who leads, votes or holds copies is for
consensus to say. A refused connection, here or to a `Knock`, is what the core takes for proof.

Datagrams go to the numbers of the peer ports. A broker that gossips has the cluster's secret.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafkaesque import __version__
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import Address, Connection, Datagrams, Framing, ListenOptions
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.membership.config import Identity
from kafkaesque.membership.core import MembershipCore
from kafkaesque.membership.entries import INCARNATION_MAX, Member, MemberState, Value
from kafkaesque.membership.errors import FactRefused, Refusal
from kafkaesque.membership.events import Event, Leave, Received, Refused, SetFact
from kafkaesque.membership.ready import (
    Change,
    Contested,
    FactChanged,
    Knock,
    MemberChanged,
    Turned,
)
from kafkaesque.membership.view import LEADER_PREFIX, LeaderHint
from kafkaesque.model.ids import GroupId, NodeId

#: How often this broker looks whether its load has changed, first soon after the start, ...
LOAD_FIRST_MS: Final = 500
LOAD_EVERY_MS: Final = 5_000
#: ... and by what part of a figure that has to be, to be told.
LOAD_CHANGE: Final = 0.05
#: Who leads is told of so many groups at once, and so often: there may be thousands.
LEADS_AT_ONCE: Final = 100
LEADS_EVERY_MS: Final = 50
#: Knocks under way; each lasts no longer than an attempt to connect.
KNOCKS_MAX: Final = 64
#: A contested id is told of no more often than this.
CONTESTED_EVERY_MS: Final = 60_000

RACK: Final = "rack"
RELEASE: Final = "release"
KAFKA_ADDRESS: Final = "kafka.address"

#: Frames of strangers that somebody should know of; others come from members, late or twice.
_TOLD: Final = frozenset(
    (Refusal.OTHER_VERSION, Refusal.OTHER_CLUSTER, Refusal.UNKNOWN_KEY, Refusal.FORGED)
)
_KNOCKING: Final = ListenOptions(framing=Framing.LENGTH_PREFIXED, frame_bytes_max=1_024)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """What this broker knows of a member."""

    node: NodeId
    state: MemberState
    #: For how long it has been in this state, as far as is known here.
    for_ms: int
    address: Address
    facts: Mapping[str, Value]


class GossipDriver:
    """Drives one broker's membership."""

    def __init__(
        self,
        *,
        env: Env,
        config: BrokerConfig,
        peers: PeerNetwork,
        is_registered: Callable[[NodeId], bool],
        load: Callable[[], Mapping[str, Value]],
        led: Callable[[], Iterable[GroupId]],
        on_hint: Callable[[GroupId], None],
        on_contested: Callable[[Address], None],
        report: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """`load`: figures that others are to know; `led`: the groups that this broker leads."""
        self._env: Final = env
        self._config: Final = config
        self._peers: Final = peers
        self._is_registered: Final = is_registered
        self._load: Final = load
        self._led: Final = led
        self._on_hint: Final = on_hint
        self._on_contested: Final = on_contested
        self._report: Final = report
        self._warn: Final = warn
        self._strangers: Final = ReportLimit(report, env.clock.call_later)
        self._seeds: Final = config.seed_addresses()
        identity = Identity(
            cluster_id=config.cluster_id,
            node=config.node,
            address=config.peer_address,
            life=min(max(1, env.clock.wall_ms()), INCARNATION_MAX),
            secrets=config.secrets,
            seeds=self._seeds,
        )
        self._core: Final = MembershipCore(
            identity, config.membership, env.dice, env.clock.now_ms()
        )
        #: Set while this broker takes part; `_bound` from before that.
        self._port: Datagrams | None = None
        self._bound: Datagrams | None = None
        self._timer: Timer | None = None
        self._timer_due_ms = 0
        self._load_timer: Timer | None = None
        self._is_performing = False
        self._on_gone: Callable[[], None] | None = None
        self._since_ms: Final[dict[NodeId, int]] = {}
        self._knocks: Final[set[Address]] = set()
        self._contested_due_ms = 0
        self._started_ms = 0
        self._has_complained = self._has_too_many = False
        #: Groups that this broker leads and has not told of yet, with their terms.
        self._untold: Final[dict[GroupId, int]] = {}
        self._leads_timer: Timer | None = None
        #: Datagrams since the start.
        self.frames_sent = 0
        #: Verdicts since the start, right or not, and suspicions.
        self.deaths = 0
        self.suspicions = 0

    # -- life

    def bind(self) -> None:
        """Open the port, and take no part yet.

        Raises:
            OSError: it cannot be bound.
        """
        where = self._config.peer_listener or self._config.peer_address
        self._bound = self._env.network.open_datagrams(where, self._on_datagram)

    def start(self) -> None:
        """Take part; after `bind`."""
        config = self._config
        self._port = self._bound
        self._peers.on_dial_refused = self._on_dial_refused
        facts = {RELEASE: __version__, KAFKA_ADDRESS: str(config.kafka_address), RACK: config.rack}
        for name, value in facts.items():
            if value is not None:
                self._tell(name, value)
        self._started_ms = self._env.clock.now_ms()
        self._step()
        self._load_timer = self._env.clock.call_later(LOAD_FIRST_MS, self._on_load_due)

    def leave(self, on_gone: Callable[[], None]) -> None:
        """Say that this broker is about to stop; `on_gone` when that was said often enough."""
        if self._port is None:
            self.close()
            on_gone()
            return
        self._on_gone = on_gone
        self._step(Leave())

    def close(self) -> None:
        """Take part no more; harmless if it was done."""
        for timer in (self._timer, self._load_timer, self._leads_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._load_timer = self._leads_timer = None
        if self._bound is not None:
            self._bound.close()
        self._port = self._bound = None

    # -- what can be asked

    @property
    def life(self) -> int:
        """This process's number, greater than those of earlier ones."""
        return self._core.own.life

    def set_sealing(self, is_sealing: bool) -> None:
        """Seal what is sent from now on, or only sign it; both are believed."""
        self._core.set_sealing(is_sealing)

    def note_life(self, node: NodeId, life: int) -> None:
        """A process of another broker has greeted this one with its number."""
        self._core.note_life(node, life)

    @property
    def rumours(self) -> int:
        """How many rumours are being told on."""
        return self._core.rumours

    @property
    def frames_refused(self) -> Mapping[Refusal, int]:
        """How many frames were not believed, by why."""
        return self._core.refusals

    @property
    def health_score(self) -> int:
        """How much speaks for this broker's being slow itself: 0 is well."""
        return self._core.health_score

    def members(self) -> list[MemberView]:
        """Return all members, this broker as well, in the order of ids."""
        now_ms = self._env.clock.now_ms()
        return [
            MemberView(
                node=member.node,
                state=member.state,
                for_ms=now_ms - self._since_ms.get(member.node, now_ms),
                address=member.address,
                facts=self.facts(member.node),
            )
            for member in self._core.members()
        ]

    def facts(self, node: NodeId) -> Mapping[str, Value]:
        """Return what a member makes known, but for what it leads."""
        return {
            name: value
            for name, value in self._core.facts(node).items()
            if not name.startswith(LEADER_PREFIX)
        }

    def state(self, node: NodeId) -> MemberState | None:
        """Return a member's state; None of one that is not known."""
        member = self._core.member(node)
        return None if member is None else member.state

    def address(self, node: NodeId) -> Address | None:
        """Return where a member that takes part is reached, None of any other."""
        member = self._core.member(node)
        return member.address if member is not None and member.is_live else None

    def leader(self, group: GroupId, term_min: int) -> LeaderHint | None:
        """Return who says that it leads a group in this term or a later one, if it lives.

        It is a hint: for a group whose leader has not said so to this broker itself.
        """
        hint = self._core.leader(group)
        if (
            hint is None
            or hint.term < term_min
            or hint.node == self._config.node
            or self.state(hint.node) is not MemberState.ALIVE
            or not self._peers.is_trusted(hint.node)
        ):
            return None
        return hint

    # -- what this broker tells

    def leads(self, group: GroupId, term: int) -> None:
        """This broker leads a group: others hear of it soon, many groups one part after another."""
        if self._port is None:
            return
        self._untold[group] = term
        if self._leads_timer is None:
            self._leads_timer = self._env.clock.call_later(LEADS_EVERY_MS, self._on_leads_due)

    def _on_leads_due(self) -> None:
        self._leads_timer = None
        self._core.tick(self._env.clock.now_ms())
        for group in list(self._untold)[:LEADS_AT_ONCE]:
            self._tell(f"{LEADER_PREFIX}{group}", self._untold.pop(group))
        self._step()
        if self._untold:
            self._leads_timer = self._env.clock.call_later(LEADS_EVERY_MS, self._on_leads_due)

    def _on_load_due(self) -> None:
        self._core.tick(self._env.clock.now_ms())
        known = self._core.facts(self._config.node)
        for name, value in self._load().items():
            if not _is_near(known.get(name), value):
                self._tell(name, value)
        led = {f"{LEADER_PREFIX}{group}" for group in self._led()}
        for name in [each for each in known if each.startswith(LEADER_PREFIX)]:
            if name not in led:
                self._tell(name, None)
        self._step()
        self._maybe_complain()
        self._load_timer = self._env.clock.call_later(LOAD_EVERY_MS, self._on_load_due)

    def _tell(self, name: str, value: Value) -> None:
        try:
            self._core.step(SetFact(name, value))
        except FactRefused as error:
            if not self._has_too_many:
                self._has_too_many = True
                self._report(f"broker {self._config.node} does not gossip everything: {error}")

    def _maybe_complain(self) -> None:
        """Say once that no seed answers, for whoever wonders why the broker stays alone."""
        waited_ms = self._env.clock.now_ms() - self._started_ms
        if self._core.is_welcome or self._has_complained or waited_ms < LOAD_EVERY_MS:
            return
        self._has_complained = True
        self._warn(
            f"broker {self._config.node}: none of {', '.join(map(str, self._seeds))} has answered "
            "yet. Are they running? Are these their peer ports, not their Kafka ports? Does UDP "
            "reach them? Do they have this cluster.id and this secret?"
        )

    # -- driving

    def _on_datagram(self, source: Address, data: bytes) -> None:
        self._step(Received(source, data))

    def _on_dial_refused(self, node: NodeId, address: Address) -> None:
        member = self._core.member(node)
        if member is not None:
            self._step(Refused(node, member.life, address))

    def _on_timer(self) -> None:
        self._timer = None
        self._step()

    def _step(self, event: Event | None = None) -> None:
        """Let time pass, bring an event, and perform what comes of it."""
        if self._port is None:
            return
        self._core.tick(self._env.clock.now_ms())
        if event is not None:
            self._core.step(event)
        if self._is_performing:
            return  # Whoever performs does this, too.
        self._is_performing = True
        try:
            while (ready := self._core.take_ready()) is not None:
                for datagram in ready.datagrams:
                    self._send(datagram.address, datagram.data)
                for knock in ready.knocks:
                    self._knock(knock)
                for change in ready.changes:
                    self._on_change(change)
        finally:
            self._is_performing = False
        if self._core.is_gone:
            self._finish()
        else:
            self._set_timer()

    def _send(self, address: Address, data: bytes) -> None:
        if self._port is not None:
            self.frames_sent += 1
            self._port.send(address, data)

    def _set_timer(self) -> None:
        if self._port is None:
            return
        clock = self._env.clock
        due_ms = self._core.next_tick_ms()
        if self._timer is not None:
            if self._timer_due_ms == due_ms:
                return
            # Later ones, too: a probe that is answered has no deadline to wake up for.
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = clock.call_later(max(0, due_ms - clock.now_ms()), self._on_timer)

    def _finish(self) -> None:
        self.close()
        on_gone, self._on_gone = self._on_gone, None
        if on_gone is not None:
            on_gone()

    def _knock(self, knock: Knock) -> None:
        """See whether somebody listens there, unless a connection stands."""
        address = knock.address
        if (
            self._peers.is_linked(knock.node)
            or address in self._knocks
            or len(self._knocks) >= KNOCKS_MAX
        ):
            return
        self._knocks.add(address)

        def on_failed(error: Exception) -> None:
            self._knocks.discard(address)
            if isinstance(error, ConnectionRefusedError):
                self._step(Refused(*knock))

        visit = _Visit(lambda: self._knocks.discard(address))
        self._env.network.connect(address, _KNOCKING, visit, on_failed)

    # -- what has changed

    def _on_change(self, change: Change) -> None:
        match change:
            case MemberChanged(old, new):
                self._on_member(old, new)
            case FactChanged(fact):
                group = fact.name.removeprefix(LEADER_PREFIX)
                if group != fact.name and group.isdigit() and fact.node != self._config.node:
                    self._on_hint(GroupId(int(group)))
            case Contested(address):
                now_ms = self._env.clock.now_ms()
                if now_ms >= self._contested_due_ms:
                    self._contested_due_ms = now_ms + CONTESTED_EVERY_MS
                    self._on_contested(address)
            case Turned(source, refusal):
                if refusal in _TOLD:
                    self._strangers.say(f"gossip from {source} is rejected: {refusal.value}")

    def _on_member(self, old: Member | None, new: Member | None) -> None:
        if new is None:
            if old is not None:
                self._since_ms.pop(old.node, None)
                self._maybe_remove(old.node)
            return
        has_changed = old is None or old.state is not new.state
        if has_changed:
            self._since_ms[new.node] = self._env.clock.now_ms()
        if new.node == self._config.node:
            return
        if new.is_live and (old is None or not old.is_live or old.address != new.address):
            self._report(f"broker {self._config.node} finds broker {new.node} at {new.address}")
            self._peers.add_peer(new.node, new.address)
        if not has_changed:
            return
        if new.state is MemberState.SUSPECT:
            self.suspicions += 1
        elif new.state is MemberState.DEAD:
            self.deaths += 1
            self._report(
                f"broker {self._config.node} declares broker {new.node} at {new.address} dead"
            )
            self._peers.give_up_doubted(new.node)
        elif new.state is MemberState.LEFT:
            self._report(f"broker {self._config.node}: broker {new.node} has left")
            self._maybe_remove(new.node)

    def _maybe_remove(self, node: NodeId) -> None:
        if not self._is_registered(node):
            self._peers.remove_peer(node)


class _Visit:
    """A connection that is closed as soon as it stands: somebody listens there."""

    def __init__(self, on_over: Callable[[], None]) -> None:
        self._on_over: Final = on_over

    def on_open(self, connection: Connection) -> None:
        connection.abort()

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        pass

    def on_writable(self) -> None:
        pass

    def on_close(self, error: Exception | None) -> None:
        self._on_over()


def _is_near(before: Value, now: Value) -> bool:
    """Tell whether a figure need not be told anew."""
    if isinstance(before, int | float) and isinstance(now, int | float):
        return before == now or abs(now - before) < LOAD_CHANGE * abs(before)
    return before == now
