"""Client quotas in the cluster's metadata: what the controller lets through and what is kept."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.broker.metadata.client_quotas import (
    CLIENT_QUOTAS,
    ENTITIES_MAX,
    NAME_LENGTH_MAX,
    QuotaEntity,
    check_quota,
    describe_entity,
    levels_of,
    make_entity,
)
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.plan import PlanInputs
from kafkaesque.broker.metadata.planner import plan
from kafkaesque.broker.metadata.records import read_metadata_record, write_metadata_record
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.broker.requests.commands import ChangeQuotas, QuotaChange
from kafkaesque.model.errors import ConfigError, InvalidRequest, OverBound
from kafkaesque.model.ids import ZERO_TOPIC_ID

APP: QuotaEntity = (("client-id", "app"),)
ALICE: QuotaEntity = (("user", "alice"),)
HOST: QuotaEntity = (("ip", "10.0.0.1"),)
INPUTS = PlanInputs(
    alive=[],
    expected_brokers=1,
    broker_option=BROKER_OPTIONS.defaults().__getitem__,
    start_option=BROKER_OPTIONS.defaults().__getitem__,
    new_topic_id=lambda: ZERO_TOPIC_ID,
    draw=0,
)

names = st.text(min_size=1, max_size=8)
client_entities = st.fixed_dictionaries(
    {}, optional={"user": st.none() | names, "client-id": st.none() | names}
).filter(bool)
ip_entities = st.fixed_dictionaries({"ip": st.none() | st.ip_addresses().map(str)})


def change(
    state: ClusterState,
    entity: QuotaEntity,
    *changes: tuple[str, float | None],
    validate_only: bool = False,
) -> int:
    """Has the controller change quotas, and returns how many records that took."""
    command = ChangeQuotas(
        entity=entity,
        changes=[QuotaChange(name=name, value=value) for name, value in changes],
        validate_only=validate_only,
    )
    planned = plan(state, command, INPUTS)
    for record in planned.records:
        state.apply(read_metadata_record(write_metadata_record(record)))
    return len(planned.records)


def test_quotas_are_set_changed_and_taken_away_one_by_one() -> None:
    state = ClusterState()
    change(state, APP, ("producer_byte_rate", 1000.0), ("request_percentage", 12.5))
    change(state, APP, ("producer_byte_rate", 2000.0))
    assert state.client_quotas == {
        APP: {"producer_byte_rate": 2000.0, "request_percentage": 12.5},
    }
    change(state, APP, ("request_percentage", None), ("consumer_byte_rate", None))
    change(state, ALICE, ("consumer_byte_rate", 5.0))
    assert state.client_quotas == {
        APP: {"producer_byte_rate": 2000.0},
        ALICE: {"consumer_byte_rate": 5.0},
    }
    change(state, APP, ("producer_byte_rate", None))
    assert state.client_quotas == {ALICE: {"consumer_byte_rate": 5.0}}


def test_what_changes_nothing_is_not_written() -> None:
    state = ClusterState()
    assert change(state, APP, ("producer_byte_rate", 1000.0), validate_only=True) == 0
    assert change(state, APP, ("producer_byte_rate", None)) == 0
    assert change(state, APP, ("producer_byte_rate", 1000.0)) == 1
    assert change(state, APP, ("producer_byte_rate", 1000.0)) == 0


@pytest.mark.parametrize(
    ("entity", "name", "value", "said"),
    [
        (APP, "producer_byte_rat", 1.0, "is no quota of client-id 'app'"),
        (APP, "producer_byte_rat", None, "is no quota of"),
        (APP, "connection_creation_rate", 1.0, "is no quota of client-id"),
        (HOST, "producer_byte_rate", 1.0, "is no quota of ip"),
        (APP, "producer_byte_rate", 0.0, "above 0"),
        (APP, "producer_byte_rate", -1.0, "above 0"),
        (APP, "request_percentage", math.nan, "above 0"),
        (APP, "request_percentage", math.inf, "above 0"),
        (APP, "producer_byte_rate", 1.5, "whole number"),
        (APP, "producer_byte_rate", 1e30, "a number from 1 to"),
        (HOST, "connection_creation_rate", 2.0**31, "a number from 1 to"),
    ],
)
def test_what_is_no_quota_is_refused_by_name(
    entity: QuotaEntity, name: str, value: float | None, said: str
) -> None:
    state = ClusterState()
    good = "connection_creation_rate" if entity == HOST else "controller_mutation_rate"
    with pytest.raises(InvalidRequest, match=said):
        change(state, entity, (good, 5.0) if name != good else (name, value), (name, value))
    assert state.client_quotas == {}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((), "is empty"),
        ((("users", "a"),), "no entity has type 'users'"),
        ((("user", ""),), "name of a user is empty"),
        ((("user", "a"), ("user", None)), "user more than once"),
        ((("ip", "10.0.0.1"), ("user", "a")), "not combined"),
        ((("ip", None), ("client-id", "a")), "not combined"),
        ((("ip", "localhost!"),), "no IP address"),
        ((("client-id", "x" * (NAME_LENGTH_MAX + 1)),), "longer than"),
    ],
)
def test_entities_that_contradict_themselves_are_refused(parts: QuotaEntity, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        make_entity(parts)


def test_a_quota_that_is_named_twice_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="named twice"):
        change(ClusterState(), APP, ("producer_byte_rate", 1.0), ("producer_byte_rate", None))


def test_so_many_entities_have_quotas_and_no_more() -> None:
    state = ClusterState()
    for number in range(ENTITIES_MAX):
        state.client_quotas[(("client-id", str(number)),)] = {"producer_byte_rate": 1.0}
    with pytest.raises(OverBound):
        change(state, APP, ("producer_byte_rate", 1.0))
    change(state, (("client-id", "7"),), ("producer_byte_rate", None))
    assert change(state, APP, ("producer_byte_rate", 1.0)) == 1


def test_addresses_are_one_entity_however_they_are_written() -> None:
    assert make_entity([("ip", "::0:1")]) == make_entity([("ip", "::1")])


def test_entities_are_read_by_people() -> None:
    entity = make_entity([("user", None), ("client-id", "app")])
    assert describe_entity(entity) == "client-id 'app', the default user"


@given(
    st.dictionaries(
        (client_entities | ip_entities).map(lambda parts: make_entity(parts.items())),
        st.dictionaries(
            st.sampled_from(CLIENT_QUOTAS.names()),
            st.floats(min_value=1e-9, allow_infinity=False),
            min_size=1,
        ),
    )
)
def test_a_snapshot_holds_all_quotas(
    quotas: dict[QuotaEntity, dict[str, float]],
) -> None:
    state = ClusterState(client_quotas=quotas)
    assert ClusterState.read_snapshot(state.write_snapshot()).client_quotas == quotas


@given(names, names)
def test_the_levels_are_those_of_kip_55(user: str, client_id: str) -> None:
    levels = levels_of(user, client_id)
    assert [dict(entity) for entity, _ in levels] == [
        {"user": user, "client-id": client_id},
        {"user": user, "client-id": None},
        {"user": user},
        {"user": None, "client-id": client_id},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": client_id},
        {"client-id": None},
    ]
    for entity, shared_by in levels:
        assert make_entity(entity) == entity, "it is found under its own form"
        assert [kind for kind, _ in shared_by] == [kind for kind, _ in entity]
        assert all(name is not None for _, name in shared_by)
    assert all(one != other for (one, _), (other, _) in pairwise(levels))


@pytest.mark.parametrize("name", ["request_percentage", "controller_mutation_rate"])
def test_the_documented_range_is_the_one_that_is_checked(name: str) -> None:
    option = CLIENT_QUOTAS.get(name)
    assert option.allowed == "a number above 0 and finite"
    assert option.parse(0.5) == 0.5
    check_quota(APP, name, 0.5)
    for value in (0.0, math.inf, math.nan):
        with pytest.raises(ConfigError):
            option.parse(value)
        with pytest.raises(InvalidRequest):
            check_quota(APP, name, value)
