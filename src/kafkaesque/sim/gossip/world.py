"""Members on simulated machines, which exchange datagrams over a network that loses and delays.

Every member is a real `MembershipCore`, driven as a broker would drive it: time first, then the
event, then the work. All chance comes from the seed.

A machine whose process was killed refuses connections; one that is switched off answers nothing;
one whose process is paused, or gets no processor, takes connections and keeps datagrams, as many as
a socket's buffer holds, until the process goes on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.env.network import Address
from kafkaesque.membership.config import Identity, MembershipConfig
from kafkaesque.membership.core import MembershipCore
from kafkaesque.membership.entries import MemberState
from kafkaesque.membership.events import Event, Received, Refused
from kafkaesque.membership.ready import Change, Datagram, Knock, MemberChanged
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.dice import SimDice
from kafkaesque.sim.loop import NS_PER_MS, Life, SimLoop
from kafkaesque.sim.loop import Event as LoopEvent

CLUSTER_ID: Final = "simulated"
SECRET: Final = b"only for the simulator"
PORT: Final = 9190
#: Datagrams that a socket keeps for a process that does not read; more are dropped.
SOCKET_FRAMES_MAX: Final = 1_000
#: The wall clock of the world's beginning.
EPOCH_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """What the network does to a datagram."""

    latency_ms_min: float = 0.2
    latency_ms_max: float = 2.0
    #: Of so many, one is lost.
    one_lost_of: int = 0
    one_doubled_of: int = 0


class Machine:
    """Where a member runs."""

    __slots__ = ("address", "core", "is_on", "life", "node", "timer")

    def __init__(self, node: NodeId, address: Address) -> None:
        self.node: Final = node
        self.address = address
        self.is_on = True
        self.life: Life | None = None
        self.core: MembershipCore | None = None
        self.timer: LoopEvent | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.life is not None


class GossipWorld:
    """The machines, the network and the clock."""

    def __init__(
        self,
        seed: int,
        *,
        config: MembershipConfig | None = None,
        network: NetworkOptions | None = None,
        has_links: bool = False,
    ) -> None:
        """`has_links`: members hold connections to one another, and notice when these break."""
        self.loop: Final = SimLoop(seed)
        self.config = MembershipConfig() if config is None else config
        self.network = NetworkOptions() if network is None else network
        self.has_links: Final = has_links
        self.machines: Final[dict[NodeId, Machine]] = {}
        #: Called for each change that a member tells.
        self.on_change: Callable[[Machine, Change], None] = lambda machine, change: None
        self.frames_sent = 0
        self._by_address: Final[dict[Address, Machine]] = {}
        self._chance: Final = self.loop.chance("network")
        self._sides: Mapping[NodeId, int] = {}
        self._blocked: set[tuple[NodeId, NodeId]] = set()

    # -- machines and processes

    @property
    def now_ms(self) -> int:
        """Virtual time."""
        return self.loop.now_ns // NS_PER_MS

    def core(self, node: int) -> MembershipCore:
        """Return a member that runs."""
        core = self.machines[NodeId(node)].core
        if core is None:
            raise LookupError(f"node {node} does not run")
        return core

    def running(self) -> list[MembershipCore]:
        """Return all members that run."""
        return [each.core for each in self.machines.values() if each.core is not None]

    def start(
        self,
        node: int,
        seeds: Sequence[int] = (),
        *,
        host: str | None = None,
        clock_ms: int = 0,
        secrets: Sequence[bytes] = (SECRET,),
        config: MembershipConfig | None = None,
    ) -> MembershipCore:
        """Start a process; `host` gives it another address, `clock_ms` puts its clock forward."""
        number = NodeId(node)
        address = Address(f"node{node}" if host is None else host, PORT)
        machine = self.machines.get(number)
        if machine is None:
            machine = self.machines[number] = Machine(number, address)
        self._by_address.pop(machine.address, None)
        machine.address = address
        machine.is_on = True
        self._by_address[address] = machine
        life = machine.life = Life(f"node{node}", self._on_fatal)
        identity = Identity(
            cluster_id=CLUSTER_ID,
            node=number,
            address=address,
            life=EPOCH_MS + self.now_ms + clock_ms,
            secrets=secrets,
            seeds=[Address(f"node{each}", PORT) for each in seeds],
        )
        dice = SimDice(self.loop.chance(f"dice {node} {identity.life}"))
        config = self.config if config is None else config
        core = machine.core = MembershipCore(identity, config, dice, self.now_ms)
        self.loop.after(0, "start", lambda: self._pump(machine, core), life)
        return core

    def _on_fatal(self, error: BaseException) -> None:
        self.loop.defects.append(error)

    def start_all(self, count: int) -> None:
        """Start members 1 to `count` that all know of the first one, and let them find together."""
        for node in range(1, count + 1):
            self.start(node, seeds=[1])

    def kill(self, node: int) -> None:
        """End a process at once; its machine goes on and refuses connections."""
        machine = self.machines[NodeId(node)]
        self._end(machine)
        if self.has_links:
            for other in self.machines.values():
                known = None if other.core is None else other.core.member(machine.node)
                if other is not machine and known is not None:
                    self._knock(other, Knock(known.node, known.life, known.address))

    def cut_power(self, node: int) -> None:
        """Switch a machine off: nothing answers any more."""
        machine = self.machines[NodeId(node)]
        self._end(machine)
        machine.is_on = False

    def _end(self, machine: Machine) -> None:
        if machine.life is not None:
            machine.life.alive = False
        machine.life = machine.core = machine.timer = None

    def pause(self, node: int) -> None:
        """Take the processor from a process."""
        life = self.machines[NodeId(node)].life
        if life is not None:
            life.paused = True

    def resume(self, node: int) -> None:
        """Give it back."""
        life = self.machines[NodeId(node)].life
        if life is not None and life.paused:
            self.loop.resume(life)

    # -- the network

    def part(self, *sides: Iterable[int]) -> None:
        """Let datagrams through only within each side; whoever is on none reaches nobody."""
        self._sides = {NodeId(node): number for number, side in enumerate(sides) for node in side}

    def block(self, source: int, target: int) -> None:
        """Let nothing through from one to another, in this direction."""
        self._blocked.add((NodeId(source), NodeId(target)))

    def heal(self) -> None:
        """Let everything through."""
        self._sides = {}
        self._blocked.clear()

    def _reaches(self, source: Machine, target: Machine) -> bool:
        if (source.node, target.node) in self._blocked:
            return False
        sides = self._sides
        if not sides:
            return True
        side = sides.get(source.node)
        return side is not None and side == sides.get(target.node)

    def _latency_ns(self) -> int:
        network = self.network
        return round(
            self._chance.uniform(network.latency_ms_min, network.latency_ms_max) * NS_PER_MS
        )

    def _send(self, machine: Machine, datagram: Datagram) -> None:
        self.frames_sent += 1
        network = self.network
        target = self._by_address.get(datagram.address)
        if target is None or not self._reaches(machine, target):
            return
        if network.one_lost_of and self._chance.randrange(network.one_lost_of) == 0:
            return
        copies = 1
        if network.one_doubled_of and self._chance.randrange(network.one_doubled_of) == 0:
            copies = 2
        event = Received(machine.address, datagram.data)
        for _ in range(copies):
            self.loop.after(self._latency_ns(), "frame", lambda: self._arrive(target, event))

    def _arrive(self, target: Machine, event: Received) -> None:
        life, core = target.life, target.core
        if life is None or core is None:
            return
        if not life.paused:
            self._step(target, core, event)
        elif len(life.held) < SOCKET_FRAMES_MAX:
            self.loop.after(0, "frame", lambda: self._step(target, core, event), life)

    def _knock(self, machine: Machine, knock: Knock) -> None:
        """Connect to a place; only a refusal is told."""
        target = self._by_address.get(knock.address)
        life, core = machine.life, machine.core
        if life is None or core is None:
            return
        if target is None or not (
            self._reaches(machine, target) and self._reaches(target, machine)
        ):
            return
        event = Refused(*knock)

        def arrive() -> None:
            if target.is_on and not target.is_running:
                self.loop.after(
                    self._latency_ns(), "refused", lambda: self._step(machine, core, event), life
                )

        self.loop.after(self._latency_ns(), "knock", arrive)

    # -- driving

    def _step(self, machine: Machine, core: MembershipCore, event: Event) -> None:
        core.tick(self.now_ms)
        core.step(event)
        self._pump(machine, core)

    def _on_timer(self, machine: Machine, core: MembershipCore) -> None:
        machine.timer = None
        core.tick(self.now_ms)
        self._pump(machine, core)

    def tell(self, node: int, event: Event) -> None:
        """Bring an event to a member, as its broker would."""
        machine = self.machines[NodeId(node)]
        if machine.core is not None:
            self._step(machine, machine.core, event)

    def _pump(self, machine: Machine, core: MembershipCore) -> None:
        """Perform what the core wants, and see that it is called in time."""
        ready = core.take_ready()
        if ready is not None:
            for datagram in ready.datagrams:
                self._send(machine, datagram)
            for knock in ready.knocks:
                self._knock(machine, knock)
            for change in ready.changes:
                self.on_change(machine, change)
        due_ns = max(self.now_ms, core.next_tick_ms()) * NS_PER_MS
        timer = machine.timer
        if timer is not None:
            if timer.time_ns <= due_ns and timer.callback is not None:
                return
            timer.cancel()
        machine.timer = self.loop.after(
            due_ns - self.loop.now_ns, "tick", lambda: self._on_timer(machine, core), machine.life
        )

    # -- asking

    def all_agree(self) -> bool:
        """Tell whether all members that run see all of these alive, and nobody else live."""
        running = {core.node for core in self.running()}
        return all(set(core.live()) == running and self._trusts(core) for core in self.running())

    @staticmethod
    def _trusts(core: MembershipCore) -> bool:
        return all(member.state is not MemberState.SUSPECT for member in core.members())

    def is_known(self, node: int, state: MemberState) -> bool:
        """Tell whether all members that run know a node to be in a state, or in a later one."""
        for core in self.running():
            member = core.member(NodeId(node))
            if core.node != node and (member is None or member.state < state):
                return False
        return True


def verdict(change: Change) -> NodeId | None:
    """Return whom a change declares dead, if anybody."""
    if isinstance(change, MemberChanged) and change.new is not None:
        if change.new.state is MemberState.DEAD:
            return change.new.node
    return None
