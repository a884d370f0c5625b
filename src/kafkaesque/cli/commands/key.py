"""`kafkaesque key`: the keys of encrypted topics and queues."""

from typing import Annotated, Final

import msgspec
import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    ask_first,
    new_app,
)
from kafkaesque.cli.completion import topic_names
from kafkaesque.cli.exchange_arguments import VhostOption
from kafkaesque.cli.screen import Screen, Table, counted

app = new_app(help="Keys of encrypted topics and queues: list, rotate, reseal, rewrap, shred.")

_API: Final = "/api/v1"
TopicArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        help="An encrypted topic.",
        show_default=False,
        autocompletion=topic_names,
    ),
]
NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="An encrypted topic, or queue.", show_default=False),
]
QueueOption = Annotated[bool, typer.Option("--queue", help="NAME is a queue's, not a topic's.")]


class _Key(msgspec.Struct):
    topic: str
    queue: str
    vhost: str
    version: int
    seals: bool
    keeper: str
    keeper_key: str
    is_here: bool


class _Keys(msgspec.Struct):
    keys: list[_Key]


class _Change(msgspec.Struct):
    what: str


@app.command("list")
def list_all(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List all versions of the keys of encrypted topics and queues.

    \b
    Example:
      kafkaesque key list
    """
    from kafkaesque.cli.admin_pages import no_admin_port, read_page
    from kafkaesque.cli.alive_brokers import alive_addresses

    page = read_page(alive_addresses(bootstrap), f"{_API}/keys", _Keys)
    if page is None:
        raise no_admin_port()
    rows = [
        (
            each.topic or _queue_shown(each),
            str(each.version),
            "seals" if each.seals else "opens",
            f"{each.keeper} {each.keeper_key}",
        )
        for each in page.keys
    ]
    Screen(json=json).show(
        Table(columns=("NAME", "VERSION", "USE", "WRAPPED-BY"), rows=rows),
        [msgspec.structs.asdict(each) for each in page.keys],
    )


@app.command()
def rotate(
    name: NameArgument,
    queue: QueueOption = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Seal what comes from now on with a new version of a topic's or queue's key.

    \b
    Example:
      kafkaesque key rotate orders
      kafkaesque key rotate mails --queue
    """
    _change("POST", _path(name, "", vhost, is_queue=queue), bootstrap, json=json)


@app.command()
def reseal(
    topic: TopicArgument,
    copy: Annotated[
        str, typer.Argument(metavar="COPY", help="The name of the copy.", show_default=False)
    ],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Copy an encrypted topic, so that all of it is sealed by a new key; delete the old one then.

    Keys, values, headers, times and partitions stay as they are; offsets begin at 0 again. The
    command may be run again, after it was interrupted or to copy what has come since: each message
    is copied once. It never deletes the old topic.

    \b
    Example:
      kafkaesque key reseal payments payments-2
    """
    from kafkaesque.cli.arguments import wrong_usage
    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.topic_copy import TopicCopy

    if topic == copy:
        raise wrong_usage("a topic cannot be its own copy", f"kafkaesque key reseal {topic} NAME")
    screen = Screen(json=json)
    work = TopicCopy(Connection(bootstrap), topic, copy)
    partitions = work.prepare()
    with screen.progress(f"copying {topic}", None) as bar:
        copied = work.run(partitions, bar.advance)
    screen.done(
        f"copied {counted(copied, 'message')} from {topic} to {copy}; when nobody uses {topic} any "
        f"more: kafkaesque topic delete {topic}, which removes its keys, too",
        {"topic": topic, "copy": copy, "copied": copied},
    )


@app.command()
def rewrap(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """Wrap all keys by the first key of key.keeper.file, so that the others can be removed there.

    \b
    Example:
      kafkaesque key rewrap
    """
    _change("POST", "/keys/rewrap", bootstrap, json=json)


@app.command()
def shred(
    name: NameArgument,
    version: Annotated[
        int, typer.Argument(metavar="VERSION", min=1, help="See key list.", show_default=False)
    ],
    queue: QueueOption = False,
    vhost: VhostOption = "/",
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove a version of a key: what it has sealed can never be read again.

    Messages of a queue that it has sealed are set aside, as if they had been rejected.

    \b
    Example:
      kafkaesque key shred orders 1 --yes
      kafkaesque key shred mails 1 --queue --yes
    """
    ask_first(
        "key shred",
        f"Make unreadable for good what version {version} of the key of {name} has sealed?",
        yes=yes,
    )
    _change("DELETE", _path(name, f"/{version}", vhost, is_queue=queue), bootstrap, json=json)


def _queue_shown(key: _Key) -> str:
    name = key.queue if key.vhost == "/" else f"{key.vhost}:{key.queue}"
    return f"queue {name}"


def _path(name: str, version: str, vhost: str, *, is_queue: bool) -> str:
    if not is_queue:
        return f"/topics/{_quote(name)}/keys{version}"
    return f"/queues/{_quote(name)}/keys{version}?vhost={_quote(vhost)}"


def _change(method: str, path: str, bootstrap: str, *, json: bool) -> None:
    from kafkaesque.cli.admin_pages import change
    from kafkaesque.cli.alive_brokers import alive_addresses

    done = change(alive_addresses(bootstrap), method, _API + path, _Change)
    Screen(json=json).done(done.what, {"done": done.what})


def _quote(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
