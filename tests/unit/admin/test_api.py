"""The admin API on a simulated cluster: what each resource says, from whichever broker."""

import json
import re
from collections.abc import Iterator

import msgspec
import pytest

from kafkaesque.admin.api.fan_out import PART_MS_MAX, FanOut, Gathered, PartPage, PartServer
from kafkaesque.broker.requests.commands import GroupOffset
from kafkaesque.model.ids import NodeId
from kafkaesque.model.records import Record
from tests.unit.admin.api_ground import CHANGE, ApiGround, text


@pytest.fixture(scope="module")
def filled() -> Iterator[ApiGround]:
    """A cluster that no test changes."""
    ground = ApiGround()
    ground.create("orders", 3)
    ground.create("prices", 1, cleanup_policy="compact")
    ground.publish("orders", 0, text("a"), text("b"), text("c"))
    ground.publish("orders", 2, text("d"))
    commit(ground, "billing", ("orders", 0, 1), ("orders", 2, 1))
    ground.world.loop.run_for(12_000)
    yield ground
    assert ground.lines == []


def commit(ground: ApiGround, group: str, *offsets: tuple[str, int, int]) -> None:
    """Commit offsets as somebody who is no member."""
    done: list[object] = []
    ground.cluster.brokers["b1"].doors.groups.commit(
        group,
        [GroupOffset(topic=t, partition=p, offset=o) for t, p, o in offsets],
        60_000,
        done.append,
    )
    ground.run_until(lambda: bool(done))


# -- the cluster


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_every_broker_tells_the_same_of_the_cluster(filled: ApiGround, host: str) -> None:
    seen = filled.get("/cluster", host)
    assert seen["seen_by"] == int(host[1])
    assert (seen["brokers"], seen["brokers_alive"], seen["leaderless"]) == (3, 3, 0)
    assert seen["topics"] == 3
    assert (seen["groups"], seen["under_replicated"]) == (1, 0)
    assert [each["broker"] for each in seen["sources"]] == [1, 2, 3]
    for each in seen["sources"]:
        assert each["missing"] is None
        assert 0 <= seen["as_of"] - each["as_of"] < 1_000


def test_a_broker_is_described_by_itself(filled: ApiGround) -> None:
    seen = filled.get("/brokers/2", "b3")
    broker = seen["broker"]
    assert (seen["seen_by"], [each["broker"] for each in seen["sources"]]) == (3, [2])
    assert (broker["id"], broker["is_alive"], broker["is_controller"]) == (2, True, True)
    assert (broker["state"]["version"], broker["state"]["is_ready"]) == ("1.2.3", True)
    assert {each["name"] for each in broker["endpoints"]} == {"kafka", "admin"}


@pytest.mark.parametrize("number", ["9", "x", "-1", "%C2%B2"])
def test_there_is_no_such_broker(filled: ApiGround, number: str) -> None:
    assert filled.ask("GET", f"/brokers/{number}").status == 404


def test_the_controllers_are_as_the_leading_one_says(filled: ApiGround) -> None:
    seen = filled.get("/controllers", "b2")
    assert seen["missing"] is None
    assert [each["broker"] for each in seen["controllers"]] == [1, 2, 3]
    assert [each["leads"] for each in seen["controllers"]].count(True) == 1
    assert all(each["has_all"] for each in seen["controllers"])


# -- topics


def test_topics_come_with_the_sizes_that_their_leaders_know(filled: ApiGround) -> None:
    seen = filled.get("/topics")
    assert [each["name"] for each in seen["items"]] == ["orders", "prices"]
    orders = seen["items"][0]
    assert (orders["partitions"], orders["replication_factor"]) == (3, 3)
    assert (orders["messages"], orders["unknown"], orders["leaderless"]) == (4, 0, 0)
    assert orders["bytes"] > 100


def test_the_brokers_own_topics_are_shown_on_demand(filled: ApiGround) -> None:
    names = {each["name"] for each in filled.get("/topics", internal="true")["items"]}
    assert names == {"orders", "prices", "__consumer_offsets"}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"sort": "-name"}, ["prices", "orders"]),
        ({"sort": "messages"}, ["prices", "orders"]),
        ({"sort": "-messages"}, ["orders", "prices"]),
        ({"q": "RIC"}, ["prices"]),
        ({"q": "nothing"}, []),
    ],
    ids=["falling", "size", "size-falling", "search", "nothing"],
)
def test_topics_are_searched_and_sorted_in_the_broker(
    filled: ApiGround, query: dict[str, str], names: list[str]
) -> None:
    seen = filled.get("/topics", **query)
    assert [each["name"] for each in seen["items"]] == names
    assert seen["total"] == len(names)


@pytest.mark.parametrize("sort", ["name", "-name", "messages", "-bytes", "created_at"])
def test_pages_are_the_whole_list_and_nothing_twice(filled: ApiGround, sort: str) -> None:
    whole = [e["name"] for e in filled.get("/topics", sort=sort, internal="true")["items"]]
    found: list[str] = []
    after: str | None = ""
    for _ in whole:
        page = filled.get("/topics", sort=sort, internal="true", limit=1, after=after)
        assert page["total"] == 3
        found += [each["name"] for each in page["items"]]
        after = page["next"]
    assert (found, after) == (whole, None)


@pytest.mark.parametrize(
    "query",
    [
        "sort=colour",
        "after=%21",
        "after=kgEC",
        "limit=0",
        "limit=9999",
        "limit=x",
        "unknown=1",
        "q=a&q=b",
        "q=" + "x" * 201,
    ],
    ids=["sort", "cursor", "strange", "zero", "many", "word", "unknown", "twice", "long"],
)
def test_a_query_that_makes_no_sense_is_refused(filled: ApiGround, query: str) -> None:
    told = filled.ask("GET", f"/topics?{query}")
    assert told.status == 400
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json["message"]


def test_a_topic_shows_its_partitions_as_their_leaders_know_them(filled: ApiGround) -> None:
    seen = filled.get("/topics/orders", "b2")
    assert seen["topic"]["messages"] == 4
    assert [each["partition"] for each in seen["partitions"]] == [0, 1, 2]
    first = seen["partitions"][0]
    assert (first["start_offset"], first["end_offset"], first["stable_offset"]) == (0, 3, 3)
    assert sorted(first["replicas"]) == first["in_sync"] == [1, 2, 3]
    assert first["leader"] in (1, 2, 3)


def test_partitions_come_in_pages(filled: ApiGround) -> None:
    first = filled.get("/topics/orders", limit=2)
    assert ([e["partition"] for e in first["partitions"]], first["next"]) == ([0, 1], "1")
    second = filled.get("/topics/orders", limit=2, after=first["next"])
    assert ([e["partition"] for e in second["partitions"]], second["next"]) == ([2], None)


@pytest.mark.parametrize("path", ["", "/options", "/groups", "/messages"])
def test_a_topic_that_is_not_there_is_said_to_be_not_there(filled: ApiGround, path: str) -> None:
    told = filled.ask("GET", f"/topics/%3Cb%3E{path}")
    assert (told.status, told.json["error"]) == (404, "UnknownTopicOrPartition")


def test_options_are_those_in_force_each_with_its_default(filled: ApiGround) -> None:
    options = {each["name"]: each for each in filled.get("/topics/prices/options")["options"]}
    policy = options["cleanup.policy"]
    assert (policy["value"], policy["default"], policy["is_own"]) == ("compact", "delete", True)
    assert options["retention.ms"]["is_own"] is False
    assert all(each["doc"] and each["allowed"] for each in options.values())


# -- groups, connections, transactions


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_groups_are_told_with_their_lag_by_any_broker(filled: ApiGround, host: str) -> None:
    (group,) = filled.get("/groups", host)["items"]
    assert (group["group"], group["state"], group["topics"]) == ("billing", "Empty", 1)
    assert (group["lag"], group["unknown"]) == (2, 0)
    seen = filled.get("/groups/billing", host)
    assert (seen["state"], seen["lag"], seen["unknown"]) == ("Empty", 2, 0)
    assert seen["coordinator"] == group["coordinator"]
    found = [(e["partition"], e["committed"], e["end_offset"], e["lag"]) for e in seen["offsets"]]
    assert found == [(0, 1, 3, 2), (2, 1, 1, 0)]


def test_a_topic_names_the_groups_that_read_it(filled: ApiGround) -> None:
    (group,) = filled.get("/topics/orders/groups")["items"]
    assert (group["group"], group["partitions"], group["lag"]) == ("billing", 2, 2)
    assert filled.get("/topics/prices/groups")["items"] == []


def test_there_is_no_such_group(filled: ApiGround) -> None:
    told = filled.ask("GET", "/groups/nobody")
    assert (told.status, told.json["error"]) == (404, "UnknownGroup")


def test_connections_and_listeners_are_told_by_their_brokers(filled: ApiGround) -> None:
    filled.get("/cluster", "b2")
    seen = filled.get("/connections", "b1", sort="-bytes_in")
    assert {each["broker"] for each in seen["items"]} >= {1, 2}
    for each in seen["items"]:
        assert (each["protocol"], each["user"]) == ("admin", "ANONYMOUS")
        assert each["peer"].startswith(each["host"])
    listeners = filled.get("/listeners")["items"]
    assert [(each["broker"], each["name"]) for each in listeners] == [
        (1, "admin"),
        (2, "admin"),
        (3, "admin"),
    ]
    assert listeners[0]["address"] == "b1:8080"


def test_without_transactions_the_list_is_empty(filled: ApiGround) -> None:
    assert filled.get("/transactions")["items"] == []


# -- what has been seen already


def test_an_answer_that_says_the_same_has_the_same_tag_from_whomever(filled: ApiGround) -> None:
    told = filled.ask("GET", "/topics/prices/options")
    tag = told.headers["etag"]
    browser = filled.browser("b2")
    again = browser.ask("GET", "/api/v1/topics/prices/options", {"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")
    other = browser.ask("GET", "/api/v1/topics/orders/options", {"If-None-Match": tag})
    assert other.status == 200
    assert other.headers["etag"] != tag


# -- half of the cluster is dead


def test_with_two_of_three_brokers_dead_what_is_left_is_told_at_once() -> None:
    ground = ApiGround(2)
    ground.create("orders", 3)
    for partition in range(3):
        ground.publish("orders", partition, text("x"))
    ground.kill("b2")
    ground.kill("b3")
    begun_ms = ground.world.loop.now_ns // 1_000_000
    seen = ground.get("/cluster")
    took_ms = ground.world.loop.now_ns // 1_000_000 - begun_ms
    assert took_ms < PART_MS_MAX / 2
    assert (seen["brokers"], seen["brokers_alive"]) == (3, 1)
    missing = {each["broker"]: each["missing"] for each in seen["sources"]}
    assert missing[1] is None
    for node in (2, 3):
        assert f"broker {node} " in missing[node]
        assert re.search("heard of for [0-9]+ s|does not run", missing[node])
    topics = ground.get("/topics")
    assert [each["name"] for each in topics["items"]] == ["orders"]
    found = {each["id"]: each for each in ground.get("/brokers")["items"]}
    assert (found[2]["is_alive"], found[2]["state"]) == (False, None)
    assert found[2]["lost_ms"] >= 0
    # The controller that is left finds out in time that it has no majority any more.
    ground.run_until(
        lambda: (
            {"broker-down", "controllers-missing", "leaderless"}
            <= {each["check"] for each in ground.get("/doctor")["findings"]}
        )
    )
    assert ground.get("/controllers")["leader"] in (None, 1, 2, 3)
    assert ground.lines == []


def test_a_broker_that_hangs_is_waited_for_no_longer_than_is_said() -> None:
    ground = ApiGround(3)
    broker = ground.cluster.brokers["b2"]
    # It is alive, and its part is never done.
    broker.doors.parts.answer_with(lambda request, on_done: None)
    begun_ms = ground.world.loop.now_ns // 1_000_000
    seen = ground.get("/brokers")
    took_ms = ground.world.loop.now_ns // 1_000_000 - begun_ms
    assert PART_MS_MAX <= took_ms < PART_MS_MAX + 500
    (source,) = [each for each in seen["sources"] if each["missing"]]
    assert (source["broker"], source["as_of"]) == (2, None)
    assert "did not answer within" in source["missing"]
    found = {each["id"]: each for each in seen["items"]}
    assert (found[2]["is_alive"], found[2]["state"]) == (True, None)
    assert found[1]["state"] is not None
    (finding,) = ground.get("/doctor")["findings"]
    assert (finding["check"], finding["names"]) == ("broker-hangs", ["2"])


def test_a_broker_that_does_not_know_a_part_says_so() -> None:
    ground = ApiGround(4)
    PartServer(ground.cluster.brokers["b2"].doors)
    seen = ground.get("/groups")
    (source,) = [each for each in seen["sources"] if each["missing"]]
    assert source["broker"] == 2
    assert "does not know the part groups" in source["missing"]


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and its answer."""

    value: int


@pytest.mark.parametrize(
    ("asked", "answered", "what"),
    [(2**64, 1, "it cannot be asked"), (1, 2**64, "what this broker knows cannot be written")],
)
@pytest.mark.parametrize("node", [1, 2])
def test_what_cannot_be_written_is_told_and_stops_nobody(
    asked: int, answered: int, what: str, node: int
) -> None:
    ground = ApiGround(6)
    page = PartPage(name="number", question=Number, answer=Number)
    for name in ("b1", "b2"):
        server = PartServer(ground.cluster.brokers[name].doors)
        server.register(page, lambda question, on_done: on_done(Number(value=answered)))
    found: list[Gathered[Number]] = []
    fan_out = FanOut(ground.cluster.brokers["b1"].doors, pytest.fail)
    fan_out.ask(page, {NodeId(node): Number(value=asked)}, found.append)
    ground.world.loop.run_for(5_000)
    (source,) = found[0].sources
    assert source.missing is not None
    assert what in source.missing


# -- changes


@pytest.fixture
def ground() -> ApiGround:
    return ApiGround(5)


def test_a_topic_is_created_changed_and_deleted(ground: ApiGround) -> None:
    body = {"name": "new", "partitions": 2, "options": {"retention.ms": "60000"}}
    dry = ground.ask("POST", "/topics", body, dry_run="true")
    assert (dry.status, dry.json["is_dry_run"]) == (200, True)
    assert ground.get("/topics")["items"] == []
    done = ground.ask("POST", "/topics", body)
    assert done.status == 201
    command = "kafkaesque topic create new --partitions 2 --config retention.ms=60000"
    assert done.json["command"] == dry.json["command"] == command
    assert ground.ask("POST", "/topics", body).status == 409
    told = ground.ask("PATCH", "/topics/new/options", {"options": {"retention.ms": None}})
    assert told.json["command"] == "kafkaesque topic alter new --delete-config retention.ms"
    options = {each["name"]: each for each in ground.get("/topics/new/options")["options"]}
    assert options["retention.ms"]["is_own"] is False
    assert "2 partitions" in ground.ask("DELETE", "/topics/new", dry_run="true").json["what"]
    assert ground.get("/topics")["total"] == 1
    assert ground.ask("DELETE", "/topics/new").status == 200
    assert ground.get("/topics")["total"] == 0


def test_options_that_somebody_else_has_changed_are_not_changed(ground: ApiGround) -> None:
    ground.create("orders")
    tag = ground.ask("GET", "/topics/orders/options").headers["etag"]
    browser = ground.browser("b2")

    def change(value: str) -> int:
        headers = {**CHANGE, "Content-Type": "application/json", "If-Match": tag}
        body = json.dumps({"options": {"retention.ms": value}}).encode()
        return browser.ask("PATCH", "/api/v1/topics/orders/options", headers, body).status

    assert change("60000") == 200
    assert change("70000") == 412


@pytest.mark.parametrize(
    ("options", "status"),
    [({"retention.ms": "soon"}, 400), ({"retention.mss": "1"}, 400), ({}, 400)],
    ids=["value", "name", "none"],
)
def test_options_that_are_none_are_refused(
    ground: ApiGround, options: dict[str, str], status: int
) -> None:
    ground.create("orders")
    for dry_run in ("true", "false"):
        told = ground.ask("PATCH", "/topics/orders/options", {"options": options}, dry_run=dry_run)
        assert told.status == status, told.body


def test_a_message_is_published_to_the_partition_of_its_key(ground: ApiGround) -> None:
    ground.create("orders", 3)
    body = {"key": "k", "value": "v", "headers": [{"name": "h", "value": "x"}]}
    dry = ground.ask("POST", "/topics/orders/messages", body, dry_run="true").json
    assert dry["offset"] is None
    done = ground.ask("POST", "/topics/orders/messages", body)
    assert (done.status, done.json["partition"], done.json["offset"]) == (201, dry["partition"], 0)
    assert done.json["command"] == "kafkaesque publish orders --key k --header h=x -- v"
    (message,) = ground.get("/topics/orders/messages")["items"]
    assert (message["key"]["text"], message["value"]["text"]) == ("k", "v")
    shown = {"kind": "text", "text": "x", "bytes": 1, "is_cut": False}
    not_decoded = {"schema": None, "undecoded": None}
    assert message["headers"] == [{"name": "h", "value": {**shown, **not_decoded}}]


@pytest.mark.parametrize(
    ("topic", "body", "status"),
    [
        ("orders", {"value": "v", "partition": 9}, 400),
        ("orders", {"value": "not base64!", "encoding": "base64"}, 400),
        ("orders", {"value": 7}, 400),
        ("orders", {"value": "v", "colour": "red"}, 400),
        ("orders", {}, 400),
        ("nothing", {"value": "v"}, 404),
        ("__consumer_offsets", {"value": "v"}, 400),
    ],
    ids=["partition", "base64", "number", "unknown", "nothing", "topic", "internal"],
)
def test_a_message_that_cannot_be_published_is_refused(
    ground: ApiGround, topic: str, body: dict[str, object], status: int
) -> None:
    ground.create("orders")
    commit(ground, "g", ("orders", 0, 0))
    told = ground.ask("POST", f"/topics/{topic}/messages", body)
    assert told.status == status, told.body
    assert ground.get("/topics/orders")["topic"]["messages"] == 0


def test_the_brokers_own_topics_are_not_deleted(ground: ApiGround) -> None:
    ground.create("orders")
    commit(ground, "g", ("orders", 0, 0))
    assert ground.ask("DELETE", "/topics/__consumer_offsets").status == 403
    names = {each["name"] for each in ground.get("/topics", internal="true")["items"]}
    assert "__consumer_offsets" in names


# -- findings


def test_what_a_broker_knows_to_be_wrong_is_told_once_for_the_cluster() -> None:
    ground = ApiGround(6)
    ground.create("orders", 6, min_insync_replicas="3")
    assert ground.get("/doctor")["findings"] == []
    ground.kill("b3")
    ground.run_until(
        lambda: any(e["check"] == "under-min-insync" for e in ground.get("/doctor")["findings"])
    )
    found = {each["check"]: each for each in ground.get("/doctor")["findings"]}
    assert found["broker-down"]["severity"] == "critical"
    assert found["broker-down"]["names"] == ["3"]
    ground.run_until(
        lambda: any(
            e["check"] == "under-min-insync" and e["what"].startswith("6 partitions")
            for e in ground.get("/doctor")["findings"]
        )
    )


def test_records_are_not_needed_for_a_topic_to_be_shown(ground: ApiGround) -> None:
    ground.create("orders")
    ground.publish("orders", 0, Record(0, -1, None, None))
    (message,) = ground.get("/topics/orders/messages")["items"]
    assert (message["timestamp"], message["key"]["kind"]) == (None, "null")
