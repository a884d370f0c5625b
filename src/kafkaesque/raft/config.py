"""The dials of a consensus group."""

from dataclasses import dataclass

from kafkaesque.model.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Limits and delays, the same for many groups; delays are in ticks of the driver.

    Raises:
        ConfigError: a value is out of range or contradicts another.
    """

    #: Without a word from a leader for this long, plus a random part below the same number, a
    #: voter asks for votes; a leader without a live majority for this long steps down.
    election_ticks: int = 10
    #: Where the leader's process is known to be gone, one voter asks for votes after one tick, and
    #: the others so much later one after another. Who is first differs from group to group.
    lost_leader_step_ticks: int = 3
    #: An unanswered message is followed by a small one that finds out what got lost.
    retry_ticks: int = 5
    #: A snapshot that has not been acknowledged after this long is offered again.
    snapshot_retry_ticks: int = 100
    #: A voter that was not caught up for this long is no longer in sync.
    in_sync_lag_ticks: int = 100
    #: Appends on their way to one peer: how many, and how many bytes of entries in all.
    inflight_messages_max: int = 64
    inflight_bytes_max: int = 8 * 1024 * 1024
    #: Bytes of entries in one append; a single larger entry still travels, alone.
    append_bytes_max: int = 1024 * 1024
    #: Tell followers of a new commit index at once when nothing else is on its way to them, instead
    #: of with the next append or tick: twice the messages, one tick less delay for followers.
    tell_commit_at_once: bool = False

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name != "tell_commit_at_once" and getattr(self, name) < 1:
                raise ConfigError(f"raft: {name} must be at least 1, not {getattr(self, name)}")
        if self.append_bytes_max > self.inflight_bytes_max:
            raise ConfigError(
                f"raft: append_bytes_max ({self.append_bytes_max}) must not exceed"
                f" inflight_bytes_max ({self.inflight_bytes_max})"
            )
