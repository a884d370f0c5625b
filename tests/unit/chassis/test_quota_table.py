"""What is left of quotas, and who has to wait, against models that are simple and slow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.broker.metadata.client_quotas import NAME_LENGTH_MAX, QuotaEntity
from kafkaesque.chassis import quota_table
from kafkaesque.chassis.quota_table import (
    BURST_S,
    SHORT_WAIT_MS_MAX,
    WAIT_MS_MAX,
    Limit,
    QuotaTable,
)

APP: QuotaEntity = (("client-id", "app"),)
BYTES = "producer_byte_rate"

amounts = st.integers(min_value=1, max_value=5_000)
pauses = st.integers(min_value=0, max_value=3_000)
rates = st.sampled_from([1.0, 7.0, 100.0, 1000.0])
parts = st.none() | st.sampled_from(["alice", "bob"])


def table_of(quotas: dict[QuotaEntity, dict[str, float]]) -> QuotaTable:
    table = QuotaTable()
    table.load(quotas)
    return table


def limit_of(rate: float, name: str = BYTES) -> Limit:
    return Limit(name, APP, rate)


# -- rates


@given(rates, st.lists(st.tuples(pauses, amounts), min_size=1, max_size=60))
def test_who_waits_gets_the_rate_a_burst_and_the_last_use_and_no_more(
    rate: float, uses: list[tuple[int, int]]
) -> None:
    """Over every stretch of time, whatever was asked for, as long as no wait met its bound."""
    table, limit = QuotaTable(), limit_of(rate)
    now_ms = 0
    taken: list[tuple[int, int]] = []
    for pause_ms, asked in uses:
        now_ms += pause_ms
        amount = min(asked, int(limit.rate) + 1)
        wait_ms = table.use(limit, amount, now_ms)
        assert wait_ms < WAIT_MS_MAX
        taken.append((now_ms, amount))
        now_ms += wait_ms
    for first, (begun_ms, _) in enumerate(taken):
        total = 0
        for at_ms, amount in taken[first:]:
            # A wait is a whole number of milliseconds, and may be rounded down.
            allowed = limit.burst + rate * (at_ms - begun_ms + len(taken)) / 1000
            assert total <= allowed + 1e-6
            total += amount


@given(rates, st.lists(st.integers(min_value=1, max_value=2_000), max_size=60))
def test_who_stays_below_the_rate_never_waits(rate: float, pauses_ms: list[int]) -> None:
    table, limit = QuotaTable(), limit_of(rate)
    now_ms = 0
    assert table.use(limit, limit.burst, now_ms) == 0
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        assert table.use(limit, rate * pause_ms / 1000 * 0.999, now_ms) == 0


@given(rates, st.lists(st.tuples(pauses, amounts), min_size=1, max_size=60))
def test_the_bucket_is_what_replaying_all_uses_gives(
    rate: float, uses: list[tuple[int, int]]
) -> None:
    table, limit = QuotaTable(), limit_of(rate)
    left, now_ms = limit.burst, 0
    for pause_ms, amount in uses:
        now_ms += pause_ms
        left = min(limit.burst, left + rate * pause_ms / 1000) - amount
        wait_ms = table.use(limit, amount, now_ms)
        owed_ms = max(0.0, -left / rate * 1000)
        assert (wait_ms > 0) == (left < -1e-9) or abs(left) < 1e-6
        assert abs(wait_ms - min(owed_ms, WAIT_MS_MAX)) <= 1


def test_what_is_beyond_a_wait_is_owed_still() -> None:
    table, limit = QuotaTable(), limit_of(100.0)
    assert table.use(limit, 100 * (BURST_S + 30), 0) == WAIT_MS_MAX
    assert table.wait_ms(limit, WAIT_MS_MAX) == WAIT_MS_MAX
    assert table.wait_ms(limit, 29_000) == 1000
    assert table.wait_ms(limit, 30_000) == 0


def test_the_loops_time_and_connections_are_waited_for_one_window_at_a_time() -> None:
    for name in ("request_percentage", "connection_creation_rate"):
        table, limit = QuotaTable(), limit_of(1.0, name)
        assert table.use(limit, 1000, 0) == SHORT_WAIT_MS_MAX


def test_a_quota_that_changes_keeps_what_is_owed() -> None:
    table = table_of({APP: {BYTES: 10.0}})
    table.use(table.limits("u", "app")[BYTES], 150, 0)
    table.load({APP: {BYTES: 100.0}})
    assert table.wait_ms(table.limits("u", "app")[BYTES], 0) == 500
    table.load({APP: {BYTES: 1.0}})
    assert table.wait_ms(table.limits("u", "app")[BYTES], 1_000_000) == 0
    assert table.use(table.limits("u", "app")[BYTES], 11, 1_000_000) == 1000


def test_what_came_to_nothing_is_given_back() -> None:
    table, limit = QuotaTable(), limit_of(1.0)
    for _ in range(100):
        table.use(limit, 5, 0)
        table.give_back(limit, 5, 0)
    assert table.use(limit, 10, 0) == 0
    assert table.use(limit, 1, 0) == 1000


# -- whose quota it is


def expected(
    quotas: dict[QuotaEntity, dict[str, float]], user: str, client_id: str, name: str
) -> tuple[float, dict[str, str]] | None:
    """The most particular entity that has the quota: user before client, a name before none."""
    fitting = []
    for entity, values in quotas.items():
        wanted = dict(entity)
        if name not in values:
            continue
        if "user" in wanted and wanted["user"] not in (user, None):
            continue
        if "client-id" in wanted and wanted["client-id"] not in (client_id, None):
            continue
        rank = (
            2 if wanted.get("user") else int("user" in wanted),
            2 if wanted.get("client-id") else int("client-id" in wanted),
        )
        shared = {kind: user if kind == "user" else client_id for kind in wanted}
        fitting.append((rank, values[name], shared))
    if not fitting:
        return None
    _, rate, shared = max(fitting, key=lambda each: each[0])
    return rate, shared


@given(
    st.dictionaries(
        st.fixed_dictionaries({}, optional={"client-id": parts, "user": parts})
        .filter(bool)
        .map(lambda entity: tuple(sorted(entity.items()))),
        st.dictionaries(st.sampled_from([BYTES, "consumer_byte_rate"]), rates, min_size=1),
    ),
    st.sampled_from(["alice", "bob", "carol"]),
    st.sampled_from(["alice", "bob", "carol"]),
)
def test_the_most_particular_quota_holds(
    quotas: dict[QuotaEntity, dict[str, float]], user: str, client_id: str
) -> None:
    limits = table_of(quotas).limits(user, client_id)
    for name in (BYTES, "consumer_byte_rate"):
        wanted = expected(quotas, user, client_id, name)
        if wanted is None:
            assert name not in limits
        else:
            assert (limits[name].rate, dict(limits[name].key[1])) == wanted


def test_a_users_clients_share_its_quota_and_those_of_a_default_have_one_each() -> None:
    table = table_of({(("user", "alice"),): {BYTES: 1.0}, (("client-id", None),): {BYTES: 1.0}})
    table.use(table.limits("alice", "one")[BYTES], 11, 0)
    assert table.wait_ms(table.limits("alice", "two")[BYTES], 0) == 1000
    table.use(table.limits("bob", "one")[BYTES], 11, 0)
    assert table.wait_ms(table.limits("carol", "one")[BYTES], 0) == 1000
    assert table.wait_ms(table.limits("bob", "two")[BYTES], 0) == 0


@pytest.mark.parametrize(
    ("quotas", "rate"),
    [
        ({}, None),
        ({(("ip", None),): {"connection_creation_rate": 2.0}}, 2.0),
        (
            {
                (("ip", None),): {"connection_creation_rate": 2.0},
                (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
            },
            5.0,
        ),
        ({(("ip", "10.0.0.2"),): {"connection_creation_rate": 5.0}}, None),
    ],
)
def test_an_address_has_its_quota_or_the_default(
    quotas: dict[QuotaEntity, dict[str, float]], rate: float | None
) -> None:
    limit = table_of(quotas).ip_limit("10.0.0.1")
    assert (None if limit is None else limit.rate) == rate


# -- bounds


def test_so_many_are_kept_and_the_longest_unused_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quota_table, "BUCKETS_MAX", 3)
    monkeypatch.setattr(quota_table, "CLIENTS_MAX", 3)
    table = table_of({(("client-id", None),): {BYTES: 1.0}})
    for name in "abcacd":
        table.use(table.limits("u", name)[BYTES], 11, 0)
    assert len(table) == 3
    owing = [name for name in "acd" if table.wait_ms(table.limits("u", name)[BYTES], 0)]
    assert owing == ["a", "c", "d"]
    assert table.wait_ms(table.limits("u", "b")[BYTES], 0) == 0


def test_long_client_ids_are_not_kept_in_full() -> None:
    table = table_of({(("client-id", None),): {BYTES: 1.0}})
    longest = "x" * (NAME_LENGTH_MAX + 1)
    (limit,) = table.limits("u", longest + "a").values()
    assert limit.key == (BYTES, (("client-id", longest),))
    assert table.limits("u", longest + "b") is table.limits("u", longest + "a")
    assert table.limits("u", longest[:-1]) is not table.limits("u", longest)


def test_without_quotas_nothing_is_kept() -> None:
    table = table_of({(("client-id", None),): {BYTES: 1.0}})
    table.use(table.limits("u", "a")[BYTES], 11, 0)
    table.load({})
    assert len(table) == 0
    assert table.limits("u", "a") == {}
