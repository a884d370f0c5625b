"""The membership of one node: a state machine without clock, dice or socket.

Theory of operation. Every node has a *standing* (alive, suspect, dead, left) in an *incarnation*,
and makes *facts* known of itself; what a member knows of all is its view (`membership.view`).

- **Joining.** A member asks its seeds, in turn, until one answers with those it knows; then it
  compares itself with that one. Any member will do for a seed. Seeds that are no members are asked
  now and then, so that no two clusters come of one.
- **Failures.** `membership.failure_detector` finds who does not answer. An accusation makes a
  suspect; the suspect hears of it, refutes it by a new incarnation, or is dead after a while
  (`membership.suspicions`). A verdict is about an incarnation, and a later one takes it back.
- **Rumours.** All that is news is told on (`membership.rumours`).
- **Repair.** Now and then a member compares itself with another, and tries one that is taken for
  dead, so that a cluster that was parted finds together. That somebody is dead, learned in this
  way or long after the verdict, only makes a suspect of one who is alive here: whoever says so may
  have been cut off itself.

Frames are signed and bounded (`membership.seal`, `membership.post`); who is not a member can put
nothing into this state, nor make it grow.

    ALIVE -- accused --> SUSPECT -- time up, or refused to several --> DEAD
    ALIVE -- says so --> LEFT
    any of them -- a greater incarnation --> ALIVE

The driver calls `tick(now)` not later than `next_tick_ms` and before it brings events,
`step(event)` for each, and then performs what `take_ready` returns.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafkaesque.env.dice import Dice
from kafkaesque.env.network import Address
from kafkaesque.membership import messages
from kafkaesque.membership.config import Identity, MembershipConfig
from kafkaesque.membership.entries import (
    Accusation,
    Entry,
    Fact,
    Key,
    Member,
    MemberState,
    Value,
    accused,
)
from kafkaesque.membership.errors import FactRefused, FrameRefused, MalformedPacket, Refusal
from kafkaesque.membership.events import Event, Leave, Readdress, Received, Refused, SetFact
from kafkaesque.membership.failure_detector import FailureDetector
from kafkaesque.membership.health import LocalHealth
from kafkaesque.membership.lots import drawn
from kafkaesque.membership.own_record import OwnRecord
from kafkaesque.membership.post import Post
from kafkaesque.membership.ready import (
    Contested,
    FactChanged,
    Knock,
    MemberChanged,
    Outbox,
    Ready,
)
from kafkaesque.membership.repair import Repair
from kafkaesque.membership.rumours import TELLINGS_MAX, Interest, RumourBoard
from kafkaesque.membership.seal import ANYBODY, Envelope, Freshness, Keyring, ReplayGuard
from kafkaesque.membership.suspicions import SuspicionTable
from kafkaesque.membership.view import ClusterView, LeaderHint, Merged
from kafkaesque.membership.wire import is_name, read_packet, value_problem
from kafkaesque.model.ids import NodeId

#: Gossip whose answer is waited for; only where rumours are given up by feedback.
GOSSIPS_MAX: Final = 256
#: How often it is looked for what is old enough to be forgotten.
FORGET_EVERY_MS: Final = 10_000
#: So many of a large cluster knock by themselves where another one was refused.
KNOCKERS: Final = 6
#: Members that a `Welcome` names; the comparison after it brings the rest.
WELCOMES_MAX: Final = 32

#: A verdict that is told on for longer than this comes from somebody who was cut off.
STALE_VERDICT_S: Final = 2
#: While two processes say that they are one node, each answers the other no more often than this.
OUTLIVE_EVERY_MS: Final = 1_000

_NEVER: Final = 2**62


class MembershipCore:
    """One member; see the module's theory of operation."""

    __slots__ = (
        "_board",
        "_config",
        "_contest_due_ms",
        "_detector",
        "_dice",
        "_forget_due_ms",
        "_gossip_due_ms",
        "_gossips",
        "_health",
        "_is_welcome",
        "_join_attempts",
        "_join_due_ms",
        "_keyring",
        "_leave_due_ms",
        "_node",
        "_now_ms",
        "_outbox",
        "_outlive_due_ms",
        "_own",
        "_post",
        "_reconnect_due_ms",
        "_repair",
        "_replays",
        "_seeds",
        "_sequence",
        "_suspicions",
        "_sync_due_ms",
        "_view",
        "is_gone",
        "refusals",
    )

    def __init__(
        self, identity: Identity, config: MembershipConfig, dice: Dice, now_ms: int
    ) -> None:
        """Raises:
        ConfigError: the secrets are not such as can be used.
        """
        node = identity.node
        self._config: Final = config
        self._dice: Final = dice
        self._node: Final = node
        self._now_ms = now_ms
        self._seeds: Final = [seed for seed in identity.seeds if seed != identity.address]
        self._own: Final = OwnRecord(identity)
        self._outbox: Final = Outbox()
        self._view: Final = ClusterView(config)
        self._board: Final = RumourBoard(self._interest, dice, config.rumours_max)
        self._keyring: Final = Keyring(identity.cluster_id, identity.secrets)
        self._replays: Final = ReplayGuard(config.members_max)
        self._post: Final = Post(
            node=node,
            life=identity.life,
            keyring=self._keyring,
            board=self._board,
            view=self._view,
            outbox=self._outbox,
            frame_bytes_max=config.frame_bytes_max,
            rides_along=config.interest is None or not config.interest.feedback,
        )
        self._post.now_ms = now_ms
        self._health: Final = LocalHealth(config.health_max)
        self._suspicions: Final = SuspicionTable(config)
        self._repair: Final = Repair(config=config, dice=dice, view=self._view, post=self._post)
        self._detector: Final = FailureDetector(
            node=node,
            config=config,
            dice=dice,
            view=self._view,
            post=self._post,
            health=self._health,
            outbox=self._outbox,
            judge=self,
            now_ms=now_ms,
        )
        #: What was told by gossip whose answer is waited for, by sequence number.
        self._gossips: Final[OrderedDict[int, tuple[NodeId, list[tuple[Key, int]]]]] = OrderedDict()
        self._sequence = 0
        self._is_welcome = not self._seeds
        self._join_attempts = 0
        self._join_due_ms = now_ms if self._seeds else _NEVER
        self._gossip_due_ms = now_ms + dice.below(config.gossip_ms)
        self._sync_due_ms = now_ms + dice.below(config.sync_ms)
        self._reconnect_due_ms = now_ms + dice.below(config.reconnect_ms)
        self._forget_due_ms = now_ms + FORGET_EVERY_MS
        self._leave_due_ms = _NEVER
        self._outlive_due_ms = self._contest_due_ms = now_ms
        #: Whether this node has left, and said so for long enough: the driver may stop.
        self.is_gone = False
        #: How many frames were not believed, by why.
        self.refusals: Final[dict[Refusal, int]] = dict.fromkeys(Refusal, 0)
        self._assert(self._own.member)

    # -- what can be asked

    @property
    def node(self) -> NodeId:
        """This node."""
        return self._node

    @property
    def own(self) -> Member:
        """This node's standing, as it says itself."""
        return self._own.member

    @property
    def is_welcome(self) -> bool:
        """Whether a seed has answered; true of one without seeds."""
        return self._is_welcome

    @property
    def health_score(self) -> int:
        """How much speaks for this node's being slow itself: 0 is well."""
        return self._health.score

    @property
    def rumours(self) -> int:
        """How many rumours are being told on."""
        return len(self._board)

    @property
    def entries_refused(self) -> int:
        """How many entries were not taken in because a table was full."""
        return self._view.refused

    @property
    def root(self) -> int:
        """The checksum of all entries: members with the same one know the same."""
        return self._view.digests.root

    def members(self) -> list[Member]:
        """Return everybody's standing, this node's as well, in the order of ids."""
        return sorted(self._view.members(), key=lambda member: member.node)

    def member(self, node: NodeId) -> Member | None:
        """Return a node's standing."""
        return self._view.member(node)

    def live(self) -> Sequence[NodeId]:
        """Return who takes part, this node as well: alive or suspect."""
        return self._view.live()

    def facts(self, node: NodeId) -> Mapping[str, Value]:
        """Return what a node makes known."""
        return {
            name: fact.value
            for name, fact in self._view.facts(node).items()
            if fact.value is not None
        }

    def leader(self, group: int) -> LeaderHint | None:
        """Return who was heard last to lead a Raft group: a hint, which may be out of date."""
        return self._view.leader(group)

    def take_ready(self) -> Ready | None:
        """Return the work that has come up since the last call, or None."""
        return self._outbox.take()

    # -- time

    def next_tick_ms(self) -> int:
        """Return when `tick` has something to do; later than that is this member's own delay."""
        next_ms = min(
            self._detector.next_ms(),
            self._sync_due_ms,
            self._reconnect_due_ms,
            self._join_due_ms,
            self._forget_due_ms,
            self._leave_due_ms,
        )
        if len(self._board):
            next_ms = min(next_ms, self._gossip_due_ms)
        suspicion_ms = self._suspicions.next_ms()
        return next_ms if suspicion_ms is None else min(next_ms, suspicion_ms)

    def tick(self, now_ms: int) -> None:
        """Time has come to `now_ms`, which never goes back."""
        if now_ms - self._now_ms > self._config.stall_ms:
            self._maybe_forgive(now_ms - max(self._now_ms, self.next_tick_ms()))
        self._now_ms = self._post.now_ms = now_ms
        self._detector.tick(now_ms)
        for node, incarnation in self._suspicions.due(now_ms):
            self._condemn(node, incarnation)
        if self._gossip_due_ms <= now_ms and len(self._board):
            self._gossip_due_ms = now_ms + self._config.gossip_ms
            self._gossip()
        if self._join_due_ms <= now_ms:
            self._join()
        if self._sync_due_ms <= now_ms:
            self._sync_due_ms = now_ms + self._config.sync_ms
            self._sync()
        if self._reconnect_due_ms <= now_ms:
            self._reconnect_due_ms = now_ms + self._config.reconnect_ms
            self._reconnect()
        if self._forget_due_ms <= now_ms:
            self._forget_due_ms = now_ms + FORGET_EVERY_MS
            self._forget()
        if self._leave_due_ms <= now_ms:
            self._leave_due_ms = _NEVER
            self.is_gone = True

    def _maybe_forgive(self, late_ms: int) -> None:
        """If this member itself was held up, others may well have spoken meanwhile."""
        if late_ms > self._config.stall_ms:
            self._health.worsen()
            self._detector.forgive(late_ms)
            self._suspicions.forgive(late_ms)

    # -- events

    def set_sealing(self, is_sealing: bool) -> None:
        """Seal frames from now on, or only sign them."""
        self._keyring.is_sealing = is_sealing

    def note_life(self, node: NodeId, life: int) -> None:
        """A life of another node has shown itself elsewhere: earlier ones are to hear of it."""
        self._replays.note_life(node, life)

    def step(self, event: Event) -> None:
        """Take an event; whatever a frame holds, nothing is raised for it.

        Raises:
            FactRefused: of `SetFact`.
        """
        match event:
            case Received(source, data):
                self._on_frame(source, data)
            case Refused(node, life, address):
                member = self._view.member(node)
                if member is not None and member.address == address:
                    self._detector.on_refused(node, life)
            case SetFact(name, value):
                self._set_fact(name, value)
            case Readdress(address):
                if address != self._own.member.address:
                    self._assert(self._own.change(address=address))
            case Leave():
                self._leave()

    def _set_fact(self, name: str, value: Value) -> None:
        problem = value_problem(value)
        if not is_name(name):
            raise FactRefused(f"a fact cannot be named {name!r}: printable ASCII without spaces")
        if problem is not None:
            raise FactRefused(f"fact {name} cannot be {problem}")
        if self._view.value(self._node, name) == value:
            return
        fact = Fact(self._node, name, self._own.next_version(), value)
        if self._merge(fact) is None:
            raise FactRefused(f"fact {name} is one too many")

    def _leave(self) -> None:
        if self._own.member.state is MemberState.LEFT:
            return
        self._detector.is_stopped = True
        self._join_due_ms = _NEVER
        has_listeners = any(node != self._node for node in self._view.live())
        self._leave_due_ms = self._now_ms + (self._config.leave_ms if has_listeners else 0)
        self._assert(self._own.leave())
        self._gossip()

    # -- frames

    def _on_frame(self, source: Address, data: bytes) -> None:
        try:
            envelope = self._keyring.open(bytes(data))
            self._check(source, envelope)
            packet = read_packet(envelope.packet)
        except FrameRefused as error:
            self._turn(source, error.refusal)
            return
        except MalformedPacket:
            self._turn(source, Refusal.UNREADABLE)
            return
        message, sender = packet.message, envelope.sender
        repairs = isinstance(message, messages.SyncDelta | messages.Welcome | messages.Sync)
        known = 0
        for place, entry in enumerate(packet.entries):
            if not self._absorb(entry, sender, source, repairs=repairs):
                known |= 1 << place
        self._on_message(sender, source, message, known)
        if isinstance(message, messages.Ping | messages.Ack | messages.Gossip):
            member = self._view.member(sender)
            if member is None or member.life < envelope.life:
                self._repair.begin(sender, source, messages.SyncMode.PUSH_PULL)

    def _check(self, source: Address, envelope: Envelope) -> None:
        """See whether a frame is for this member, and is new."""
        if envelope.sender == self._node:
            if envelope.life != self._own.life:
                self._contest(source)
            raise FrameRefused(Refusal.OWN)
        if envelope.receiver not in (self._node, ANYBODY):
            raise FrameRefused(Refusal.NOT_FOR_US)
        freshness = self._replays.admit(envelope.sender, envelope.life, envelope.number)
        if freshness is Freshness.OUTDATED:
            life = self._replays.life_of(envelope.sender)
            self._post.send(envelope.sender, source, messages.Outdated(life))
            raise FrameRefused(Refusal.OUTDATED)
        if freshness is Freshness.REPLAYED:
            raise FrameRefused(Refusal.REPLAYED)

    def _turn(self, source: Address, refusal: Refusal) -> None:
        self.refusals[refusal] += 1
        self._outbox.turn(source, refusal)

    def _on_message(
        self, sender: NodeId, source: Address, message: messages.Message, known: int
    ) -> None:
        match message:
            case messages.Ping(sequence):
                self._post.send(sender, source, messages.Ack(sequence))
            case messages.Ack(sequence):
                self._detector.on_ack(sender, sequence)
            case messages.Gossip(sequence, wants_answer):
                if wants_answer:
                    self._post.send(sender, source, messages.GossipAnswer(sequence, known))
            case messages.GossipAnswer(sequence, bits):
                self._on_gossip_answer(sender, sequence, bits)
            case messages.ProbeRequest():
                self._detector.on_probe_request(sender, source, message, self._now_ms)
            case messages.ProbeResult():
                self._detector.on_probe_result(sender, message)
            case messages.Join():
                self._welcome(sender, source)
            case messages.Welcome():
                self._on_welcome(sender, source)
            case messages.Sync():
                self._repair.on_sync(sender, source, message)
            case messages.SyncBuckets():
                self._repair.on_buckets(sender, source, message)
            case messages.SyncDigest():
                self._repair.on_digest(sender, source, message)
            case messages.SyncWant():
                self._repair.on_want(sender, source, message)
            case messages.SyncDelta():
                pass  # the entries were all
            case messages.Outdated(life):
                if life > self._own.life:
                    self._outlive(life, source)

    # -- entries

    def _absorb(self, entry: Entry, sender: NodeId, source: Address, *, repairs: bool) -> bool:
        """Take an entry in and tell whether it was news."""
        if entry.node == self._node:
            return self._on_own(entry, source)
        if (
            isinstance(entry, Member)
            and entry.state is MemberState.DEAD
            and (repairs or entry.age_s >= STALE_VERDICT_S)
        ):
            doubted = self._doubted(entry, sender)
            return self._merge(doubted, tells=doubted is not entry) is not None
        return self._merge(entry, tells=not repairs) is not None

    def _doubted(self, entry: Member, sender: NodeId) -> Member:
        """Return a verdict as an accusation, if the member is alive here."""
        known = self._view.member(entry.node)
        if known is None or not known.is_live or known.incarnation > entry.incarnation:
            return entry
        if known.incarnation < entry.incarnation:
            known = replace(entry, state=MemberState.ALIVE, age_s=0)
        return accused(replace(known, accusers=()), (Accusation(sender, False),))

    def _on_own(self, entry: Entry, source: Address) -> bool:
        if isinstance(entry, Fact):
            return self._on_own_fact(entry)
        if self._own.is_usurped(entry):
            return self._outlive(entry.incarnation, source)
        refutation = self._own.refute(entry)
        if refutation is None:
            return False
        self._health.worsen()
        self._assert(refutation)
        return True

    def _on_own_fact(self, entry: Fact) -> bool:
        """Somebody has a newer fact of this node than this node: it is of an earlier life."""
        known = self._view.facts(self._node).get(entry.name)
        if entry.version < self._own.life or (known is not None and known.version >= entry.version):
            return False
        self._own.outbid(entry.version)
        value = None if known is None else known.value
        self._merge(Fact(self._node, entry.name, self._own.next_version(), value))
        return True

    def _outlive(self, incarnation: int, source: Address) -> bool:
        """Another life of this node is known, and greater: begin one after it.

        As a rule it is this node's own one before a restart, with a clock that was put back since.
        """
        if self._now_ms < self._outlive_due_ms:
            return False
        self._outlive_due_ms = self._now_ms + OUTLIVE_EVERY_MS
        self._assert(self._own.outlive(incarnation))
        if self._own.is_contested:
            self._contest(source)
        return True

    def _contest(self, source: Address) -> None:
        if self._contest_due_ms <= self._now_ms:
            self._contest_due_ms = self._now_ms + OUTLIVE_EVERY_MS
            self._outbox.changes.append(Contested(source))

    def _assert(self, member: Member) -> None:
        """Say what this node's standing is."""
        if member.life != self._post.life:
            self._post.life = member.life
            self._restate_facts()
        self._merge(member)

    def _restate_facts(self) -> None:
        """Facts of a life that is over count no more: say them again in this one, behind it."""
        for fact in list(self._view.facts(self._node).values()):
            self._own.outbid(fact.version)
            self._merge(replace(fact, version=self._own.next_version()))

    def _merge(self, entry: Entry, *, tells: bool = True) -> Merged | None:
        merged = self._view.merge(entry, self._now_ms)
        if merged is None:
            return None
        if tells or merged.new.key in self._board:
            self._board.tell(merged.new)
        if isinstance(merged.new, Fact):
            self._outbox.changes.append(FactChanged(merged.new))
        else:
            self._on_standing(merged.old, merged.new)
        return merged

    def _on_standing(self, old: Entry | None, new: Member) -> None:
        before = old if isinstance(old, Member) else None
        self._outbox.changes.append(MemberChanged(before, new))
        if new.state is MemberState.SUSPECT:
            self._suspicions.add(new, self._now_ms)
            if any(each.refused for each in new.accusers):
                self._maybe_knock(before, new)
        else:
            self._suspicions.drop(new.node)
        self._suspicions.judge(self._view, self._now_ms)

    def _maybe_knock(self, before: Member | None, new: Member) -> None:
        """See for ourselves, when another one was refused; in a large cluster only some do."""
        was_known = (
            before is not None
            and before.incarnation == new.incarnation
            and any(each.refused for each in before.accusers)
        )
        if was_known or any(each.node == self._node for each in new.accusers):
            return
        live = len(self._view.live())
        if live <= KNOCKERS or self._dice.below(live) < KNOCKERS:
            self._outbox.knocks.append(Knock(new.node, new.life, new.address))

    # -- judging (see `failure_detector.Judge`)

    def accuse(self, node: NodeId, life: int, by: NodeId, *, refused: bool) -> None:
        """`by` has had no answer from a life of a node, or was refused by its machine."""
        member = self._view.member(node)
        if member is None or not member.is_live or member.life != life or node == self._node:
            return
        self._merge(accused(member, (Accusation(by, refused),)))

    def _condemn(self, node: NodeId, incarnation: int) -> None:
        member = self._view.member(node)
        if (
            member is not None
            and member.state is MemberState.SUSPECT
            and member.incarnation == incarnation
        ):
            self._merge(replace(member, state=MemberState.DEAD, accusers=(), age_s=0))

    # -- rumours

    def _interest(self) -> Interest:
        if self._config.interest is not None:
            return self._config.interest
        decades = len(str(len(self._view.live())))
        return Interest(k=min(TELLINGS_MAX, self._config.tellings_per_decade * decades))

    def _gossip(self) -> None:
        live = [node for node in self._view.live() if node != self._node]
        wants_answer = not self._post.rides_along
        for node in drawn(live, self._config.gossip_fanout, self._dice):
            member = self._view.member(node)
            if member is None or not len(self._board):
                continue
            self._sequence += 1
            message = messages.Gossip(self._sequence, wants_answer)
            told = self._post.send(node, member.address, message)
            if wants_answer:
                if len(self._gossips) >= GOSSIPS_MAX:
                    self._gossips.popitem(last=False)
                self._gossips[self._sequence] = (node, [(e.key, e.version) for e in told])

    def _on_gossip_answer(self, sender: NodeId, sequence: int, bits: int) -> None:
        node, told = self._gossips.get(sequence, (None, []))
        if node != sender:
            return
        del self._gossips[sequence]
        for place, (key, version) in enumerate(told):
            if bits >> place & 1:
                self._board.on_known(key, version)

    # -- joining, repair, forgetting

    def _join(self) -> None:
        """Ask the next seed, until one has answered, and whenever nobody else is there.

        Seldom later, too, those that are no members: of members that were started together some
        may have found one another, and the others one another.
        """
        seeds, live = self._seeds, self._view.live()
        pause_ms = self._config.join_ms << min(self._join_attempts // len(seeds), 16)
        if self._is_welcome and len(live) > 1:
            members = (self._view.member(node) for node in live)
            known = {member.address for member in members if member is not None}
            seeds = [seed for seed in seeds if seed not in known]
            pause_ms = self._config.join_ms_max
        self._join_due_ms = self._now_ms + min(self._config.join_ms_max, pause_ms)
        if seeds:
            seed = seeds[self._join_attempts % len(seeds)]
            self._join_attempts += 1
            self._post.send(ANYBODY, seed, messages.Join(), (self._own.member,))

    def _welcome(self, sender: NodeId, source: Address) -> None:
        live = [node for node in self._view.live() if node not in (self._node, sender)]
        chosen = drawn(live, WELCOMES_MAX, self._dice)
        members = [self._view.member(node) for node in (self._node, *chosen)]
        self._post.send(
            sender, source, messages.Welcome(), [each for each in members if each is not None]
        )

    def _on_welcome(self, sender: NodeId, source: Address) -> None:
        if not self._is_welcome:
            self._is_welcome = True
            self._join_attempts = 0
        self._repair.begin(sender, source, messages.SyncMode.PUSH_PULL)

    def _sync(self) -> None:
        live = [node for node in self._view.live() if node != self._node]
        if live:
            member = self._view.member(live[self._dice.below(len(live))])
            if member is not None:
                self._repair.begin(member.node, member.address, messages.SyncMode.PUSH_PULL)

    def _reconnect(self) -> None:
        """Try one that is taken for dead; it is told so, and may refute."""
        dead = self._view.dead()
        if dead:
            member = self._view.member(dead[self._dice.below(len(dead))])
            if member is not None:
                self._repair.begin(member.node, member.address, messages.SyncMode.PUSH_PULL, member)

    def _forget(self) -> None:
        for member in self._view.forget(self._now_ms):
            self._board.drop(member.key)
            self._outbox.changes.append(MemberChanged(member, None))
