"""`kafkaesque certs`: an authority of the cluster, and what it issues to brokers and users."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafkaesque.cli.arguments import NUMBER_MAX, JsonOption, new_app, wrong_usage
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Screen, Table, counted
from kafkaesque.model.errors import ConfigError

if TYPE_CHECKING:
    from kafkaesque.server.authority import Authority, Issued

app = new_app(help="Certificates for TLS: init, issue, renew, revoke, show.")

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_DAYS_MAX: Final = 36_500

DirectoryOption = Annotated[
    Path,
    typer.Option(
        "--directory",
        "-d",
        envvar="KAFKAESQUE_CERTS",
        help="Where the authority is.",
    ),
]
DaysOption = Annotated[int, typer.Option("--days", min=1, max=_DAYS_MAX, help="How long it lasts.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@app.command()
def init(
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", help="cluster.id of the brokers' files.")
    ] = "kafkaesque",
    directory: DirectoryOption = Path("certs"),
    days: DaysOption = 3_650,
) -> None:
    """Make a certificate authority for one cluster.

    Keep ca.key private: anyone who has it can act as any broker and any user.

    \b
    Example:
      kafkaesque certs init --cluster-id orders
    """
    from kafkaesque.server.authority import Authority

    try:
        Authority.create(directory, cluster_id, days)
    except ConfigError as error:
        raise CommandFailed(str(error)) from None
    typer.echo(
        f"made an authority for cluster {cluster_id} in {directory}\n"
        f"  {directory}/ca.pem   for every broker and client: the authority to trust\n"
        f"  {directory}/ca.key   keep it private: it signs the certificates\n"
        "next: kafkaesque certs issue --broker 1 --host HOSTNAME"
    )


@app.command()
def issue(
    broker: Annotated[
        int | None,
        typer.Option("--broker", min=0, max=NUMBER_MAX, help="For the broker of this id."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="For the user of this name.")] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            help="A name or address that clients are told to connect to; may be repeated. Without: "
            "localhost.",
        ),
    ] = None,
    directory: DirectoryOption = Path("certs"),
    days: DaysOption = 365,
) -> None:
    """Issue a certificate and a key, to a broker or to a user.

    \b
    Example:
      kafkaesque certs issue --broker 1 --host kafka-1.example.org --host 10.0.0.7
      kafkaesque certs issue --user billing
    """
    if (broker is None) == (user is None):
        raise wrong_usage("a certificate is for --broker ID or for --user NAME")
    if user is not None and host:
        raise wrong_usage("--host goes with --broker: a user's certificate names no host")
    authority = _open(directory)
    try:
        if broker is not None:
            made = authority.issue_broker(broker, host or _LOCAL, days)
        else:
            made = authority.issue_user(user or "", days)
    except ConfigError as error:
        raise wrong_usage(str(error)) from None
    _tell_issued(directory, made)


@app.command()
def renew(
    name: NameArgument, directory: DirectoryOption = Path("certs"), days: DaysOption = 365
) -> None:
    """Issue a certificate once more, with a new key and a new end.

    The files are replaced. A broker that reads them from here takes them by itself.

    \b
    Example:
      kafkaesque certs renew broker-1
    """
    try:
        made = _open(directory).renew(name, days)
    except ConfigError as error:
        raise CommandFailed(str(error)) from None
    typer.echo(f"renewed {directory}/{name}.pem and {name}.key, until {_day(made)}")


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME|SERIAL", show_default=False)],
    directory: DirectoryOption = Path("certs"),
) -> None:
    """Revoke certificates: all of a name that have not ended, or the one of a serial number.

    \b
    Example:
      kafkaesque certs revoke billing
    """
    try:
        revoked = _open(directory).revoke(name)
    except ConfigError as error:
        raise CommandFailed(str(error)) from None
    if not revoked:
        typer.echo(f"{name} was revoked before")
        return
    path = (directory / "crl.pem").absolute()
    typer.echo(
        f"revoked {counted(len(revoked), 'certificate')} of {revoked[0].name}\n"
        f'brokers with crl = "{path}" in [tls] close its connections when they read the list '
        "again, within seconds"
    )


@app.command()
def show(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", show_default=False, help="A certificate in PEM."),
    ] = None,
    directory: DirectoryOption = Path("certs"),
    json: JsonOption = False,
) -> None:
    """Show all certificates that the authority has issued, or those in a file.

    \b
    Example:
      kafkaesque certs show
      kafkaesque certs show /etc/kafkaesque/broker-1.pem
    """
    from kafkaesque.server.authority import read_issued

    try:
        found = _open(directory).issued() if file is None else read_issued(file)
    except ConfigError as error:
        raise CommandFailed(str(error)) from None
    columns = ("NAME", "FOR", "HOSTS", "ENDS", "STATE", "SERIAL")
    rows = [
        (each.name, each.uri, ",".join(each.hosts), _day(each), _state(each), f"{each.serial:x}")
        for each in found
    ]
    document = [
        {
            "name": each.name,
            "uri": each.uri,
            "hosts": each.hosts,
            "not_after": each.not_after.isoformat(),
            "state": _state(each),
            "serial": f"{each.serial:x}",
        }
        for each in found
    ]
    Screen(json=json).show(Table(columns=columns, rows=rows), document)


def _open(directory: Path) -> "Authority":
    from kafkaesque.server.authority import Authority

    try:
        return Authority(directory)
    except ConfigError as error:
        raise CommandFailed(str(error)) from None


def _day(issued: "Issued") -> str:
    return issued.not_after.date().isoformat()


def _state(issued: "Issued") -> str:
    if issued.is_revoked:
        return "revoked"
    return "ended" if issued.not_after < datetime.now(UTC) else "valid"


def _tell_issued(directory: Path, made: "Issued") -> None:
    where = directory.absolute()
    own = where / made.name
    if made.hosts:
        typer.echo(
            f"issued {directory}/{made.name}.pem for {', '.join(made.hosts)}, until {_day(made)}\n"
            f"its key is {directory}/{made.name}.key; in the broker's file:\n"
            f'  [tls]\n  certificate = "{own}.pem"\n  key = "{own}.key"\n  ca = "{where}/ca.pem"\n'
            f'  crl = "{where}/crl.pem"\n  listeners = true\n  peers = "on"'
        )
        return
    typer.echo(
        f"issued {directory}/{made.name}.pem for user {made.name}, until {_day(made)}\n"
        f"its key is {directory}/{made.name}.key; for kcat and librdkafka:\n"
        f"  security.protocol=ssl\n  ssl.ca.location={where}/ca.pem\n"
        f"  ssl.certificate.location={own}.pem\n  ssl.key.location={own}.key"
    )
