"""Who may become a controller, or be one no more."""

from collections.abc import Sequence

import pytest

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.controller_planner import CONTROLLERS_MAX, ControllerFacts
from kafkaesque.broker.metadata.features import METADATA
from kafkaesque.broker.requests.commands import ChangeControllers, Done, RaiseFeature, RemoveBroker
from kafkaesque.model.errors import (
    BrokerNotRegistered,
    DuplicateVoter,
    FeatureUpdateFailed,
    InvalidRequest,
    OverBound,
    VoterNotFound,
)
from kafkaesque.model.ids import NodeId
from tests.unit.broker.test_feature_planner import register
from tests.unit.broker.test_planner import Cluster

KNOWS = {METADATA: (1, 3)}


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


class Controlled(Cluster):
    """Five brokers, of which three were founded as controllers."""

    def __init__(self, known: dict[str, tuple[int, int]] | None = None) -> None:
        super().__init__(0)
        self.see(voters=(1, 2, 3))
        for node in range(1, 6):
            register(self, node, KNOWS if known is None else known)
        self.see(voters=(1, 2, 3))

    def see(self, *, voters: Sequence[int], ready: Sequence[int] | None = None) -> None:
        self.controllers = ControllerFacts(
            founders=nodes(1, 2, 3),
            voters=nodes(*voters),
            ready=nodes(*(range(1, 6) if ready is None else ready)),
        )
        self.alive = list(self.state.brokers)

    def wanted(self) -> list[int]:
        return sorted(self.state.controllers)

    def change(self, node: int, *, is_added: bool) -> None:
        result = self.do(ChangeControllers(node=node, is_added=is_added))
        assert result == Done()


def test_who_votes_is_written_down_when_the_cluster_is_founded() -> None:
    cluster = Controlled()
    assert cluster.wanted() == [1, 2, 3]
    restored = ClusterState.read_snapshot(cluster.state.write_snapshot())
    assert restored.controllers == (1, 2, 3)


def test_in_an_older_cluster_it_is_written_down_by_the_upgrade() -> None:
    cluster = Controlled({METADATA: (1, 2)})
    assert cluster.wanted() == []
    with pytest.raises(FeatureUpdateFailed, match="kafkaesque cluster upgrade"):
        cluster.change(4, is_added=True)
    for node in range(1, 6):
        register(cluster, node, KNOWS)
    assert cluster.wanted() == []
    cluster.do(RaiseFeature(name=METADATA, level=3))
    assert cluster.wanted() == [1, 2, 3]


def test_one_is_added_then_another_one_removed() -> None:
    cluster = Controlled()
    cluster.change(4, is_added=True)
    assert cluster.wanted() == [1, 2, 3, 4]
    cluster.see(voters=(1, 2, 3, 4))
    cluster.change(1, is_added=False)
    assert cluster.wanted() == [2, 3, 4]


def test_what_is_asked_for_twice_is_done_once() -> None:
    cluster = Controlled()
    cluster.change(4, is_added=True)
    cluster.change(4, is_added=True)
    assert cluster.wanted() == [1, 2, 3, 4]
    cluster.see(voters=(1, 2, 3, 4))
    cluster.change(4, is_added=False)
    cluster.change(4, is_added=False)
    assert cluster.wanted() == [1, 2, 3]


def test_one_change_at_a_time_but_it_can_be_taken_back() -> None:
    cluster = Controlled()
    cluster.change(4, is_added=True)
    with pytest.raises(InvalidRequest, match="controllers remove 4"):
        cluster.change(5, is_added=True)
    with pytest.raises(InvalidRequest, match="broker 4 is being added to the controllers"):
        cluster.change(1, is_added=False)
    cluster.change(4, is_added=False)
    assert cluster.wanted() == [1, 2, 3]
    cluster.change(1, is_added=False)
    with pytest.raises(InvalidRequest, match="broker 1 is being removed"):
        cluster.change(2, is_added=False)
    cluster.change(1, is_added=True)
    assert cluster.wanted() == [1, 2, 3]


def test_who_cannot_be_a_controller() -> None:
    cluster = Controlled()
    with pytest.raises(BrokerNotRegistered, match="there is no broker 9"):
        cluster.change(9, is_added=True)
    with pytest.raises(DuplicateVoter, match="already"):
        cluster.change(2, is_added=True)
    cluster.alive = list(nodes(1, 2, 3, 5))
    with pytest.raises(InvalidRequest, match="broker 4 is down: start it first"):
        cluster.change(4, is_added=True)
    with pytest.raises(InvalidRequest, match="was replaced"):
        cluster.do(ChangeControllers(node=5, directory_id="ab" * 8, is_added=True))


def test_there_are_so_many_controllers_at_most() -> None:
    cluster = Controlled()
    for node in range(6, CONTROLLERS_MAX + 2):
        register(cluster, node, KNOWS)
    for node in range(4, CONTROLLERS_MAX + 1):
        cluster.see(voters=range(1, node))
        cluster.change(node, is_added=True)
    cluster.see(voters=range(1, CONTROLLERS_MAX + 1))
    with pytest.raises(OverBound, match="9 is the maximum"):
        cluster.change(CONTROLLERS_MAX + 1, is_added=True)


def test_a_majority_of_the_rest_must_be_there() -> None:
    cluster = Controlled()
    cluster.see(voters=(1, 2, 3), ready=(1, 2))
    with pytest.raises(InvalidRequest, match=r"a majority of the controllers 2, 3 .* and 2 is"):
        cluster.change(1, is_added=False)
    cluster.change(3, is_added=False)
    cluster.see(voters=(1, 2), ready=(1, 2))
    cluster.change(2, is_added=False)
    cluster.see(voters=(1,), ready=(1,))
    with pytest.raises(InvalidRequest, match="the only controller: add another one first"):
        cluster.change(1, is_added=False)
    with pytest.raises(VoterNotFound, match="broker 3 is not a controller; the controllers are 1"):
        cluster.change(3, is_added=False)


@pytest.mark.parametrize("voters", [(1, 2, 3), (1, 2)])
def test_a_controller_is_not_removed_from_the_cluster(voters: tuple[int, ...]) -> None:
    """Neither one that votes, nor one that is to vote again when it has its copy."""
    cluster = Controlled()
    cluster.see(voters=voters)
    cluster.alive = list(nodes(1, 2))
    with pytest.raises(InvalidRequest, match="cluster controllers remove 3"):
        cluster.do(RemoveBroker(node=3))
    assert cluster.do(RemoveBroker(node=4)) == Done()
