"""`kafkaesque queue`: create, list, describe, alter, purge, redrive and delete."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    REPLICAS_MAX,
    BootstrapOption,
    JsonOption,
    YesOption,
    check_can_ask,
    new_app,
    parse_pairs,
    wrong_usage,
)
from kafkaesque.cli.commands.queue_messages import (
    VhostOption,
    get,
    peek,
    put,
    queue_of,
)
from kafkaesque.cli.commands.queue_reassign import reassign
from kafkaesque.cli.completion import QueueArgument, queue_names
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaesque.cli.queue_requests import Queue, Shown
    from kafkaesque.protocols.kafka.messages.describe_queues_response import DescribedQueue

#: Messages that are looked at to find out where dead letters came from.
LOOKED_AT_MAX = 1_000

app = new_app(help="Queues, where each message goes to one consumer.")

ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A queue option; may be repeated."),
]


@app.command()
def create(
    name: QueueArgument,
    config: ConfigOption = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=REPLICAS_MAX,
            help="Default: default.replication.factor.",
        ),
    ] = None,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Create a queue. Succeeds if it exists with the same options.

    \b
    Example:
      kafkaesque queue create mails
      kafkaesque queue create orders -c delivery.limit=5 -c dead.letter.queue=orders.dead
    """
    from kafkaesque.cli import queue_requests as requests

    options = parse_pairs(config or (), "--config", "delivery.limit=5")
    queue = queue_of(bootstrap, vhost, name)
    requests.create(queue, options, replication_factor or -1)
    Screen(json=json).done(f"created {name}", {"queue": name, "vhost": vhost, "options": options})


@app.command("list")
def list_all(
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List the queues, with how many messages each has.

    The oldest message's age is in seconds. Queues of other virtual hosts are `HOST:NAME`.

    \b
    Example:
      kafkaesque queue list
    """
    from kafkaesque.cli.queue_requests import list_queues

    found = list_queues(bootstrap, with_counts=True)
    rows: list[tuple[Cell, ...]] = []
    for each in found:
        counts = _counts(each)
        numbers = [counts.get(name) for name in ("ready", "in_flight", "delayed", "parked")]
        rows.append((_full_name(each), *numbers, counts.get("consumers"), _oldest_s(counts)))
    columns = ("QUEUE", "READY", "IN-FLIGHT", "DELAYED", "PARKED", "CONSUMERS", "OLDEST")
    Screen(json=json).show(Table(columns=columns, rows=rows), [_document(each) for each in found])


@app.command()
def describe(
    name: QueueArgument,
    all_options: Annotated[
        bool, typer.Option("--all", help="Also options that have their default.")
    ] = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show a queue: its messages by where they are, its log, and the options that were set.

    "Held by" is the oldest message that is not done with: its log is kept from there on.

    \b
    Example:
      kafkaesque queue describe orders
    """
    queue = queue_of(bootstrap, vhost, name)
    shown = _described(queue)
    first = None
    if shown.counts:
        heads = _look(queue, len(shown.partitions), 1)
        first = min(heads, key=lambda each: each.timestamp_ms, default=None)
    options = [each for each in shown.options if all_options or each.is_set]
    tables = [
        Table(title="queue", columns=("FACT", "VALUE"), rows=_facts(shown, first)),
        _replicas(shown),
    ]
    if options:
        rows = [(each.name, each.value) for each in options]
        tables.append(Table(title="options", columns=("OPTION", "VALUE"), rows=rows))
    document = _document(shown)
    document["partitions"] = [
        {
            "partition": each.partition_index,
            "leader": _node(each.leader_id),
            "replicas": list(each.replicas),
            "in_sync": list(each.in_sync),
        }
        for each in shown.partitions
    ]
    document["options"] = {each.name: each.value for each in options}
    document["held_by"] = _held_by(first)
    screen = Screen(json=json)
    screen.show(tables, document)
    if shown.error_code:
        screen.note(f"messages are not counted: {shown.error_message}")


def _described(queue: "Queue") -> "DescribedQueue":
    from kafkaesque.cli.queue_requests import describe as ask_for

    return ask_for(queue)


def _counts(shown: "DescribedQueue") -> dict[str, int]:
    return {each.name: each.count for each in shown.counts}


def _full_name(shown: "DescribedQueue") -> str:
    return shown.queue if shown.vhost == "/" else f"{shown.vhost}:{shown.queue}"


def _oldest_s(counts: dict[str, int]) -> int | None:
    """Return the oldest message's age by this machine's clock; None where there is none."""
    oldest_ms = counts.get("oldest_ms", 0)
    return max(0, int(time.time() - oldest_ms / 1000)) if oldest_ms else None


def _document(shown: "DescribedQueue") -> dict[str, object]:
    return {
        "queue": shown.queue,
        "vhost": shown.vhost,
        "leader": _node(shown.leader_id),
        "replicas": list(shown.replicas),
        "created_ms": shown.created_ms,
        "counts": _counts(shown) or None,
        "error": shown.error_message if shown.error_code else None,
    }


def _node(number: int) -> int | None:
    return None if number < 0 else number


def _replicas(shown: "DescribedQueue") -> Table:
    rows: list[tuple[Cell, ...]] = [
        (each.partition_index, _node(each.leader_id), _list(each.replicas), _list(each.in_sync))
        for each in shown.partitions
    ]
    columns = ("PARTITION", "LEADER", "REPLICAS", "IN-SYNC")
    return Table(title="partitions", columns=columns, rows=rows)


def _list(nodes: "Sequence[int]") -> str:
    return ",".join(map(str, nodes))


def _held_by(first: "Shown | None") -> dict[str, object] | None:
    if first is None:
        return None
    return {
        "partition": first.partition,
        "offset": first.offset,
        "place": first.place,
        "failures": first.failures,
    }


def _facts(shown: "DescribedQueue", first: "Shown | None") -> list[tuple[Cell, ...]]:
    counts = _counts(shown)
    facts: list[tuple[Cell, ...]] = []
    if not counts:
        return [("messages", "not counted")]
    names = ("ready", "in_flight", "delayed", "parked", "moving", "consumers")
    facts += [(name.replace("_", " "), counts.get(name)) for name in names]
    oldest_s = _oldest_s(counts)
    facts.append(("oldest message", None if oldest_s is None else f"{oldest_s} s"))
    facts.append(("arrived", counts.get("arrived")))
    removed = [(name, count) for name, count in counts.items() if name.startswith("removed_")]
    facts += [(name.replace("_", " "), count) for name, count in removed if count]
    is_one = len(shown.partitions) == 1
    # Numbers of several logs have no sum.
    more = f", {counts.get('log_start')} to {counts.get('log_end')}" if is_one else ""
    facts.append(("log", f"{counted(counts.get('log_bytes', 0), 'byte')}{more}"))
    if first is not None:
        failures = counted(first.failures, "failed attempt")
        where = "" if is_one else f" of partition {first.partition}"
        facts.append(("held by", f"message {first.offset}{where}, {first.place}, {failures}"))
    return facts


@app.command()
def alter(
    name: QueueArgument,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Back to the default."),
    ] = None,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Change options. Messages that wait are handled by the new ones, too.

    \b
    Example:
      kafkaesque queue alter orders --config max.length=100000
    """
    from kafkaesque.cli import queue_requests as requests

    options = parse_pairs(config or (), "--config", "delivery.limit=5")
    if not options and not delete_config:
        raise wrong_usage("nothing to alter", "--config NAME=VALUE, --delete-config NAME")
    twice = [each for each in delete_config or () if each in options]
    if twice:
        raise wrong_usage(f"{twice[0]} is set and set back at once")
    changes: dict[str, str | None] = {**options, **dict.fromkeys(delete_config or ())}
    requests.alter(queue_of(bootstrap, vhost, name), changes)
    document = {"queue": name, "vhost": vhost, "set": options, "deleted": delete_config or []}
    Screen(json=json).done(f"altered {name}", document)


@app.command()
def purge(
    name: QueueArgument,
    yes: YesOption = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove all messages that wait; those that consumers hold stay. Asks first.

    \b
    Example:
      kafkaesque queue purge orders --yes
    """
    from kafkaesque.cli import queue_requests as requests

    check_can_ask("queue purge", yes=yes)
    queue = queue_of(bootstrap, vhost, name)
    before = _removed(queue)
    if not yes:
        typer.confirm(f"Remove all messages that wait in {name}?", abort=True)
    requests.maintain(queue, requests.PURGE)
    removed = max(0, _removed(queue) - before)
    document = {"queue": name, "vhost": vhost, "removed": removed}
    Screen(json=json).done(f"purged {name}: {counted(removed, 'message')} removed", document)


def _removed(queue: "Queue") -> int:
    return _counts(_described(queue)).get("removed_purged", 0)


@app.command()
def redrive(
    name: QueueArgument,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="QUEUE", help="Default: where the dead letters came from."),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Move no more of them.")] = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Give messages that were given up another chance.

    Dead letters in QUEUE go back to the queue that they came from, or to another one with --to.
    What is parked in QUEUE itself is ready again. It goes on after the command has ended.

    \b
    Example:
      kafkaesque queue redrive orders.dead
      kafkaesque queue redrive orders.dead --to orders.checked
    """
    from kafkaesque.cli import queue_requests as requests

    if stop and to is not None:
        raise wrong_usage("--stop and --to contradict each other")
    queue = queue_of(bootstrap, vhost, name)
    screen = Screen(json=json)
    document: dict[str, object] = {"queue": name, "vhost": vhost}
    if stop:
        requests.maintain(queue, requests.REDRIVE)
        screen.done(f"no more messages of {name} are moved", {**document, "to": None})
        return
    shown = _described(queue)
    counts = _counts(shown)
    target = to if to is not None else _origin(queue, len(shown.partitions))
    if target is None or (target == name and to is None):
        requests.maintain(queue, requests.UNPARK)
        parked = counts.get("parked", 0)
        told = f"{counted(parked, 'parked message')} of {name} ready again"
        screen.done(
            told if parked else f"{name} has no dead letters, and no parked messages",
            {**document, "to": name, "messages": parked},
        )
        return
    if target == name:
        raise wrong_usage(f"messages are in {name} already", f"kafkaesque queue redrive {name}")
    _described(queue_of(bootstrap, vhost, target))
    requests.maintain(queue, requests.REDRIVE, target)
    count = counts.get("ready", 0) + counts.get("parked", 0)
    screen.done(
        f"moving {counted(count, 'message')} from {name} to {target}",
        {**document, "to": target, "messages": count},
    )


def _look(queue: "Queue", partitions: int, most: int) -> "list[Shown]":
    """Return the oldest messages of each partition, so many in all, and at least one of each."""
    from kafkaesque.cli.queue_requests import peek as look

    share = max(1, most // max(1, partitions))
    return [each for number in range(partitions) for each in look(queue, 0, share, number)]


def _origin(queue: "Queue", partitions: int) -> str | None:
    """Return the queue that all dead letters here came from; None if there are none.

    Raises:
        CommandFailed: they came from several, or from another virtual host.
    """
    letters = _look(queue, partitions, LOOKED_AT_MAX)
    found = {
        (last.vhost, last.queue) for last in (each.deaths[-1] for each in letters if each.deaths)
    }
    if not found:
        return None
    names = sorted(name for vhost, name in found if vhost == queue.vhost)
    if len(found) > 1 or not names:
        raise CommandFailed(
            f"the messages of {queue.name} come from {', '.join(sorted(n for _, n in found))}:"
            " say where they are to go",
            hint=f"kafkaesque queue redrive {queue.name} --to {sorted(found)[0][1]}",
        )
    return names[0]


@app.command()
def delete(
    names: Annotated[
        list[str],
        typer.Argument(metavar="QUEUE...", show_default=False, autocompletion=queue_names),
    ],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if the queue does not exist.")
    ] = False,
    yes: YesOption = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete queues with all their messages. Asks first; scripts need --yes.

    \b
    Example:
      kafkaesque queue delete orders orders.dead --yes
    """
    from kafkaesque.cli import queue_requests as requests

    check_can_ask("queue delete", yes=yes)
    known = {each.queue for each in requests.list_queues(bootstrap) if each.vhost == vhost}
    names = list(dict.fromkeys(names))
    missing = [name for name in names if name not in known]
    if missing and not if_exists:
        # Said before anything is deleted: half of a wrong list is not what was meant.
        raise requests.unknown(queue_of(bootstrap, vhost, missing[0]))
    there = [name for name in names if name in known]
    if there and not yes:
        typer.confirm(f"Delete {', '.join(there)} and all messages in it?", abort=True)
    deleted: list[str] = []
    screen = Screen(json=json)
    try:
        for name in there:
            requests.delete(queue_of(bootstrap, vhost, name))
            deleted.append(name)
    finally:
        sentence = f"deleted {', '.join(deleted)}" if deleted else "deleted nothing"
        screen.done(sentence, {"deleted": deleted})


app.command()(reassign)
app.command()(put)
app.command()(get)
app.command()(peek)
