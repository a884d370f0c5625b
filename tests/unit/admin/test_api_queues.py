"""The admin API's queues on a simulated cluster: shown, browsed without taking, and changed."""

import pytest

from kafkaesque.access.audit import AuditEvent
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.requests.queue_requests import (
    AttachConsumer,
    AttachedConsumer,
    ClaimsResult,
    ConsumerName,
    QueueMessage,
    RejectMessages,
    ReleaseMessages,
    TakeMessages,
    TakenMessages,
)
from tests.unit.admin.api_ground import ApiGround


@pytest.fixture
def ground() -> ApiGround:
    return ApiGround(7)


def take(ground: ApiGround, queue: str, count: int) -> list[QueueMessage]:
    taken = ground.ask_queue(
        queue, TakeMessages, TakenMessages, messages_max=count, bytes_max=1 << 20
    )
    return taken.messages


def counts(ground: ApiGround, queue: str) -> dict[str, int]:
    (part,) = ground.get(f"/queues/{queue}")["parts"]
    names = ("ready", "in_flight", "delayed", "parked", "moving")
    return {name: part[name] for name in names if part[name]}


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_queues_come_with_the_counts_that_their_leaders_know(ground: ApiGround, host: str) -> None:
    ground.create_queue("dead")
    ground.create_queue("mails", dead_letter_queue="dead")
    ground.put("mails", "a", "b", "c")
    take(ground, "mails", 1)
    seen = ground.get("/queues", host)
    assert (seen["seen_by"], seen["total"]) == (int(host[1]), 2)
    dead, mails = seen["items"]
    assert (dead["name"], mails["name"]) == ("dead", "mails")
    assert (mails["ready"], mails["in_flight"], mails["parked"]) == (2, 1, 0)
    assert mails["dead_letters_to"] == "dead"
    assert mails["oldest_at"] > 0
    assert dead["oldest_at"] is None
    assert (mails["partitions"], mails["unknown"], mails["replication_factor"]) == (1, 0, 3)
    assert mails["leader"] in (1, 2, 3)
    assert [each["broker"] for each in seen["sources"]] == [1, 2, 3]


def test_queues_are_searched_sorted_and_paged_in_the_broker(ground: ApiGround) -> None:
    for name, count in (("apples", 3), ("pears", 1), ("plums", 2)):
        ground.create_queue(name)
        ground.put(name, *"x" * count)

    def names(**query: object) -> list[str]:
        return [each["name"] for each in ground.get("/queues", "b1", **query)["items"]]

    assert names(sort="-ready") == ["apples", "plums", "pears"]
    assert names(sort="name", q="P") == ["apples", "pears", "plums"]
    assert names(q="pl") == ["apples", "plums"]
    assert names(vhost="other") == []
    for sort in ("name", "-name", "ready", "-oldest_at"):
        first = ground.get("/queues", sort=sort, limit=2)
        rest = ground.get("/queues", sort=sort, limit=2, after=first["next"])
        both = [each["name"] for each in first["items"] + rest["items"]]
        assert both == names(sort=sort)
        assert rest["next"] is None
    assert ground.ask("GET", "/queues?sort=colour").status == 400


def test_a_queue_says_what_its_head_is_and_what_is_gone(ground: ApiGround) -> None:
    ground.create_queue("mails", max_in_flight="7")
    ground.put("mails", "a", "b")
    first, second = take(ground, "mails", 2)
    ground.ask_queue("mails", ReleaseMessages, ClaimsResult, claims=[first.claim], is_failed=True)
    ground.ask_queue(
        "mails", AttachConsumer, AttachedConsumer, consumer=ConsumerName(1, _incarnation(ground), 5)
    )
    seen = ground.get("/queues/mails")
    (part,) = seen["parts"]
    assert (part["head"], part["head_place"], part["head_failures"]) == (first.offset, "ready", 1)
    assert (part["ready"], part["in_flight"], part["in_flight_max"]) == (1, 1, 7)
    assert (part["consumers"], part["arrived"], part["removed"]["settled"]) == (1, 2, 0)
    assert part["held_by"] == "snapshot"
    assert seen["queue"]["ready"] == 1
    assert second.offset == first.offset + 1


def _incarnation(ground: ApiGround) -> int:
    return ground.cluster.brokers["b1"].incarnation


@pytest.mark.parametrize(
    "path", ["/queues/none", "/queues/none/options", "/queues/none/messages", "/queues/a?vhost=b"]
)
def test_a_queue_that_is_not_there_is_said_to_be_not_there(ground: ApiGround, path: str) -> None:
    ground.create_queue("a")
    told = ground.ask("GET", path)
    assert (told.status, told.json["error"]) == (404, "UnknownQueue")


def test_share_groups_are_no_queues(ground: ApiGround) -> None:
    assert ground.ask("GET", "/queues/x?vhost=__share/g").status == 404


def test_messages_are_browsed_and_not_taken(ground: ApiGround) -> None:
    ground.create_queue("dead")
    ground.create_queue("mails", dead_letter_queue="dead")
    ground.put("mails", '{"a": 1}', "b", "c")
    (first,) = take(ground, "mails", 1)
    page = ground.get("/queues/mails/messages", limit=2)
    assert [each["place"] for each in page["items"]] == ["in-flight", "ready"]
    assert page["items"][0]["value"]["kind"] == "json"
    assert page["items"][0]["headers"] == []
    (third,) = ground.get("/queues/mails/messages", offset=page["next"])["items"]
    assert third["value"]["text"] == "c"
    end = ground.get("/queues/mails/messages", offset=third["offset"] + 1)
    assert (end["items"], end["next"]) == ([], None)
    assert counts(ground, "mails") == {"ready": 2, "in_flight": 1}, "nothing was taken"
    ground.ask_queue("mails", RejectMessages, ClaimsResult, claims=[first.claim])
    ground.run_until(lambda: bool(ground.get("/queues/dead/messages")["items"]))
    (letter,) = ground.get("/queues/dead/messages")["items"]
    (death,) = letter["deaths"]
    assert (death["queue"], death["reason"], death["attempts"]) == ("mails", "rejected", 1)
    assert ground.ask("GET", "/queues/mails/messages?partition=1").status == 404
    assert ground.ask("GET", "/queues/mails/messages?limit=501").status == 400


def test_a_queue_is_created_changed_and_deleted(ground: ApiGround) -> None:
    body = {"name": "new", "options": {"delivery.limit": "5"}}
    dry = ground.ask("POST", "/queues", body, dry_run="true")
    assert (dry.status, dry.json["is_dry_run"]) == (200, True)
    assert ground.get("/queues")["items"] == []
    done = ground.ask("POST", "/queues", body)
    assert done.status == 201
    command = "kafkaesque queue create new --config delivery.limit=5"
    assert done.json["command"] == dry.json["command"] == command
    assert ground.ask("POST", "/queues", body).status == 201, "the same again is as good"
    other = {"name": "new", "options": {"delivery.limit": "6"}}
    for query in ({}, {"dry_run": "true"}):
        assert ground.ask("POST", "/queues", other, **query).status == 409
    change = {"options": {"delivery.limit": None, "max.priority": "3"}}
    assert ground.ask("PATCH", "/queues/new/options", change, dry_run="true").status == 200
    assert _own(ground) == {"delivery.limit": "5"}
    told = ground.ask("PATCH", "/queues/new/options", change)
    assert told.json["command"] == (
        "kafkaesque queue alter new --delete-config delivery.limit --config max.priority=3"
    )
    assert _own(ground) == {"max.priority": "3"}
    ground.put("new", "a", "b")
    assert "2 messages" in ground.ask("DELETE", "/queues/new", dry_run="true").json["what"]
    assert ground.get("/queues")["total"] == 1
    assert ground.ask("DELETE", "/queues/new").status == 200
    assert ground.get("/queues")["total"] == 0


def _own(ground: ApiGround) -> dict[str, str]:
    options = ground.get("/queues/new/options")["options"]
    return {each["name"]: each["value"] for each in options if each["is_own"]}


@pytest.mark.parametrize("query", [{}, {"dry_run": "true"}])
@pytest.mark.parametrize(
    "options",
    [
        {"delivery.limit": "many"},
        {"no.such": "1"},
        {"dead.letter.queue": "nowhere"},
        {"max.priority": "3", "ordered.groups": "true"},
    ],
)
def test_options_that_are_none_are_refused(
    ground: ApiGround, options: dict[str, str], query: dict[str, str]
) -> None:
    told = ground.ask("POST", "/queues", {"name": "new", "options": options}, **query)
    assert told.status == 400
    ground.create_queue("old")
    told = ground.ask("PATCH", "/queues/old/options", {"options": options}, **query)
    assert told.status == 400


def test_options_that_somebody_else_has_changed_are_not_changed(ground: ApiGround) -> None:
    ground.create_queue("mails")
    tag = ground.ask("GET", "/queues/mails/options").headers["etag"]
    change = {"options": {"max.priority": "3"}}
    assert ground.ask("PATCH", "/queues/mails/options", change).status == 200
    browser = ground.browser()
    headers = {"x-kafkaesque-request": "1", "content-type": "application/json", "if-match": tag}
    told = browser.ask(
        "PATCH", "/api/v1/queues/mails/options", headers, b'{"options":{"max.priority":"4"}}'
    )
    assert told.status == 412


def test_a_purge_leaves_what_consumers_have(ground: ApiGround) -> None:
    ground.create_queue("mails")
    ground.put("mails", "a", "b", "c")
    take(ground, "mails", 1)
    dry = ground.ask("POST", "/queues/mails/purge", dry_run="true")
    assert "2 messages" in dry.json["what"]
    assert counts(ground, "mails") == {"ready": 2, "in_flight": 1}
    done = ground.ask("POST", "/queues/mails/purge")
    assert done.json["command"] == "kafkaesque queue purge mails --yes"
    assert counts(ground, "mails") == {"in_flight": 1}


def test_the_audit_log_is_told_who_purges_and_moves(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    ground.create_queue("mails")
    ground.create_queue("dead")
    for path, body, query in (
        ("purge", None, {"dry_run": "true"}),
        ("purge", None, {}),
        ("redrive", {"to": "dead"}, {}),
        ("redrive", {}, {}),
    ):
        assert ground.ask("POST", f"/queues/mails/{path}", body, **query).status == 200
    assert [(each.operation, each.resource, each.detail) for each in noted] == [
        ("purge", "mails", {}),
        ("redrive", "mails", {"to": "dead"}),
        ("unpark", "mails", {}),
    ]


def test_messages_are_moved_to_another_queue(ground: ApiGround) -> None:
    ground.create_queue("dead")
    ground.create_queue("mails")
    ground.put("dead", "a", "b")
    to = {"to": "mails"}
    dry = ground.ask("POST", "/queues/dead/redrive", to, dry_run="true")
    assert dry.json["what"] == "2 messages of queue dead would be moved to mails"
    assert counts(ground, "dead") == {"ready": 2}
    done = ground.ask("POST", "/queues/dead/redrive", to)
    assert done.json["command"] == "kafkaesque queue redrive dead --to mails"
    ground.run_until(lambda: counts(ground, "mails") == {"ready": 2})
    ground.run_until(lambda: counts(ground, "dead") == {})
    assert ground.ask("POST", "/queues/dead/redrive", {"to": "nowhere"}).status == 404
    assert ground.ask("POST", "/queues/dead/redrive", {"to": "dead"}).status == 400
    assert ground.ask("POST", "/queues/dead/redrive", {"to": "mails", "stop": True}).status == 400
    assert ground.ask("POST", "/queues/dead/redrive", {"stop": True}).status == 200


def test_what_was_given_up_is_ready_again(ground: ApiGround) -> None:
    ground.create_queue("mails", delivery_limit="1")
    ground.put("mails", "a")
    (first,) = take(ground, "mails", 1)
    ground.ask_queue("mails", ReleaseMessages, ClaimsResult, claims=[first.claim], is_failed=True)
    assert counts(ground, "mails") == {"parked": 1}
    assert ground.ask("POST", "/queues/mails/redrive", {}).status == 200
    assert counts(ground, "mails") == {"ready": 1}


def test_a_queue_whose_leader_is_gone_is_shown_with_what_is_missing(ground: ApiGround) -> None:
    ground.create_queue("mails")
    ground.put("mails", "a")
    ground.kill("b2")
    ground.kill("b3")
    ground.world.loop.run_for(30_000)
    (shown,) = ground.get("/queues")["items"]
    assert (shown["ready"], shown["unknown"]) == (None, 1)
    (part,) = ground.get("/queues/mails")["parts"]
    assert part["missing"]
    told = ground.ask("POST", "/queues/mails/purge", dry_run="true")
    assert told.status == 504
