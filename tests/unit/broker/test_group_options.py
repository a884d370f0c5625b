"""Options of groups in the cluster's metadata: what is let through, what is kept, what holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import LEVEL_WITH_GROUP_OPTIONS, METADATA
from kafkaesque.broker.options.groups import (
    DURATION_MS_MAX,
    GROUP_OPTIONS,
    GROUPS_MAX,
    NAME_LENGTH_MAX,
    consumer_times,
    share_settings,
)
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.broker.requests.commands import ChangeGroupConfig, ConfigChange
from kafkaesque.model.errors import FeatureUpdateFailed, InvalidRequest, OverBound
from kafkaesque.model.options import OptionValue
from tests.unit.broker.test_planner import Cluster

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def cluster_at(level: int = LEVEL_WITH_GROUP_OPTIONS) -> Cluster:
    cluster = Cluster(1)
    cluster.state.features[METADATA] = level
    return cluster


def set_options(group: str, /, **values: str | None) -> ChangeGroupConfig:
    """Returns the command that sets options, or where there is no value takes them back."""
    changes = [
        ConfigChange(
            name=name.replace("_", "."), value=value, operation="set" if value else "delete"
        )
        for name, value in values.items()
    ]
    return ChangeGroupConfig(group=group, changes=changes)


def test_options_are_kept_by_group_and_the_last_one_takes_the_group_away() -> None:
    cluster = cluster_at()
    cluster.do(set_options("a", consumer_session_timeout_ms="50000"))
    cluster.do(set_options("b", share_isolation_level="read_committed"))
    cluster.do(set_options("a", consumer_heartbeat_interval_ms="6000"))
    assert cluster.state.group_configs == {
        "a": {SESSION: "50000", HEARTBEAT: "6000"},
        "b": {"share.isolation.level": "read_committed"},
    }
    gone = {"consumer_session_timeout_ms": None, "consumer_heartbeat_interval_ms": None}
    cluster.do(set_options("a", **gone))
    assert list(cluster.state.group_configs) == ["b"]


def test_an_older_release_that_runs_beside_this_one_is_spared_them() -> None:
    cluster = cluster_at(LEVEL_WITH_GROUP_OPTIONS - 1)
    with pytest.raises(FeatureUpdateFailed, match="kafkaesque cluster upgrade"):
        cluster.do(set_options("a", consumer_session_timeout_ms="50000"))
    assert cluster.state.group_configs == {}


def test_so_many_groups_have_options_and_no_more() -> None:
    cluster = cluster_at()
    for number in range(GROUPS_MAX - 1):
        cluster.state.group_configs[str(number)] = {SESSION: "50000"}
    cluster.do(set_options("a", consumer_session_timeout_ms="50000"))
    with pytest.raises(OverBound):
        cluster.do(set_options("c", consumer_session_timeout_ms="50000"))
    cluster.do(set_options("a", consumer_session_timeout_ms="51000"))
    cluster.do(set_options("a", consumer_session_timeout_ms=None))
    cluster.do(set_options("c", consumer_session_timeout_ms="50000"))


def test_a_name_that_is_too_long_is_refused() -> None:
    cluster_at().do(set_options("a" * NAME_LENGTH_MAX, consumer_session_timeout_ms="50000"))
    with pytest.raises(InvalidRequest):
        cluster_at().do(set_options("a" * NAME_LENGTH_MAX + "a", share_isolation_level="x"))


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.dictionaries(st.sampled_from(GROUP_OPTIONS.names()), st.text(), min_size=1),
    )
)
def test_a_snapshot_holds_all_options(configs: dict[str, dict[str, str]]) -> None:
    state = ClusterState(group_configs=configs)
    assert ClusterState.read_snapshot(state.write_snapshot()).group_configs == configs


# -- what holds


def times(
    configs: dict[str, str], **options: OptionValue
) -> tuple[tuple[int, int, int], list[str]]:
    """Returns what a group goes by on a broker with these options, and what does not hold."""
    own = {f"group.consumer.{name.replace('_', '.')}": value for name, value in options.items()}
    found, refused = consumer_times(configs, {**BROKER_OPTIONS.defaults(), **own}.__getitem__)
    return (
        found.session_timeout_ms,
        found.heartbeat_interval_ms,
        found.assignment_interval_ms,
    ), refused


def test_a_group_goes_by_what_was_set_for_it_else_by_the_brokers_options() -> None:
    assert times({}) == ((45_000, 5_000, 0), [])
    assert times({SESSION: "50000"}) == ((50_000, 5_000, 0), [])
    assert times({SESSION: "50000"}, heartbeat_interval_ms=7_000) == ((50_000, 7_000, 0), [])
    assert times({"consumer.assignment.interval.ms": "300"}) == ((45_000, 5_000, 300), [])


def test_what_is_beyond_the_brokers_bounds_by_now_is_brought_within() -> None:
    found, refused = times({SESSION: "60000"}, max_session_timeout_ms=50_000)
    assert found == (50_000, 5_000, 0)
    assert refused == [f"{SESSION} = 60000 is taken for 50000: it must be from 45000 to 50000"]
    found, refused = times({HEARTBEAT: "5000"}, min_heartbeat_interval_ms=6_000)
    assert found == (45_000, 6_000, 0)
    assert len(refused) == 1


def test_times_that_contradict_each_other_by_now_do_not_hold() -> None:
    bounds = {"min_session_timeout_ms": 1, "max_heartbeat_interval_ms": 50_000}
    found, refused = times(
        {SESSION: "10000"}, heartbeat_interval_ms=20_000, session_timeout_ms=30_000, **bounds
    )
    assert found == (30_000, 20_000, 0)
    assert refused == [f"{SESSION} = 10000 is not above {HEARTBEAT} = 20000"]


def test_what_another_release_has_stored_does_not_hold() -> None:
    found, refused = times({SESSION: "soon", "consumer.of.later": "1"})
    assert found == (45_000, 5_000, 0)
    assert len(refused) == 2


@pytest.mark.parametrize("digits", [20, 400, 900])
def test_a_time_back_without_end_is_the_longest_one(digits: int) -> None:
    """As many digits are infinity, which is no whole number: leaders of the group would stop."""
    reset = f"by_duration:P{'9' * digits}D"
    cluster = cluster_at()
    cluster.do(set_options("a", share_auto_offset_reset=reset))
    assert share_settings(cluster.state.group_configs["a"]).reset == DURATION_MS_MAX
