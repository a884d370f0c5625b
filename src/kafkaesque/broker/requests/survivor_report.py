"""What a replica says of itself when its group is to be recovered (ADR 16)."""

import msgspec

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.configuration import read_configuration
from kafkaesque.raft.recovery import Survivor


class SurvivorReport(msgspec.Struct, frozen=True, kw_only=True):
    """A replica has durably entered a formation, and this is what it has, durably and at rest."""

    node: int
    last_index: int
    last_term: int
    #: The offset after its last record.
    end_offset: int
    #: As `raft.configuration` writes it.
    configuration: bytes
    #: Up to here it knows its log to be committed; earlier releases do not tell.
    committed_index: int = 0

    def as_survivor(self) -> Survivor:
        """Return what the decision looks at."""
        return Survivor(
            node=NodeId(self.node),
            last_index=self.last_index,
            last_term=Term(self.last_term),
            configuration=read_configuration(self.configuration),
            committed_index=self.committed_index,
        )
