"""One member of a group."""

from kafkaesque.groups.events import JoinProtocol
from kafkaesque.groups.records import MemberRecord
from kafkaesque.groups.results import DescribedMember, JoinedMember
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.tables.log_table import RequestToken


class Member:
    """A member, what it offers, what it was assigned, and which requests of it are parked."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[JoinProtocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        #: JoinGroup that waits for the generation to begin.
        self.join_token: RequestToken | None = None
        #: SyncGroup that waits for the leader's assignment.
        self.sync_token: RequestToken | None = None
        #: Has not been in any generation yet, so it cannot send heartbeats.
        self.is_new = False

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place across restarts (KIP-345)."""
        return self.instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether its session counts as alive without a heartbeat, because we make it wait."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return what the member says about a protocol that it is known to support."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise InvariantBroken(f"member {self.member_id} does not support {protocol_name}")

    def vote(self, candidates: dict[str, int]) -> str:
        """Return the first of the member's protocols that is a candidate."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise InvariantBroken(f"member {self.member_id} supports none of {list(candidates)}")

    def renamed(self, member_id: str) -> "Member":
        """Return the same member under another id, with nothing parked."""
        return Member(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    def joined(self, protocol_name: str | None) -> JoinedMember:
        """Return the member as the leader sees it."""
        return JoinedMember(self.member_id, self.instance_id, self.metadata(protocol_name))

    def described(self, protocol_name: str | None) -> DescribedMember:
        """Return the member for people; without a protocol, without metadata."""
        return DescribedMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            b"" if protocol_name is None else self.metadata(protocol_name),
            self.assignment,
        )

    def record(self, protocol_name: str | None, assignment: bytes) -> MemberRecord:
        """Return the member as it is stored, with an assignment that it may not have yet."""
        return MemberRecord(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )


def without_repeats(protocols: tuple[JoinProtocol, ...]) -> tuple[JoinProtocol, ...]:
    """Return the protocols with only the first of each name."""
    first: dict[str, JoinProtocol] = {}
    for protocol in protocols:
        first.setdefault(protocol.name, protocol)
    return tuple(first.values())
