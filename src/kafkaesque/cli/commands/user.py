"""`kafkaesque user`: users who log in."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkaesque.cli.admin_requests import ADMIN_DEFAULT, AdminOption
from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    new_app,
)
from kafkaesque.cli.commands.user_key import app as keys
from kafkaesque.cli.commands.user_nkey import app as nkeys
from kafkaesque.cli.screen import Screen, Table

if TYPE_CHECKING:
    from kafkaesque.access.administration import ShownUser
    from kafkaesque.cli.failure import CommandFailed

app = new_app(
    help="Users who log in: create, list, alter, disable, enable, delete, prepare; access keys, "
    "NKeys, second factors."
)
totp = new_app(
    help="Second factors (TOTP): add, remove, show.\n\n\b\n"
    "Example:\n  kafkaesque user totp add alice"
)
app.add_typer(totp, name="totp")
app.add_typer(keys, name="key")
app.add_typer(nkeys, name="nkey")

#: In place of a time.
NEVER = "never"
ITERATIONS_DEFAULT = 8192

NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


PasswordFileOption = Annotated[
    Path,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="File with the password. If it does not exist, it is made, with a new password.",
        show_default=False,
    ),
]
ExpiresOption = Annotated[
    str | None,
    typer.Option(
        "--expires", metavar="TIME", help="May log in until then, such as 2027-01-31; or never."
    ),
]
NetworkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="ADDRESS",
        help="May log in from there only, such as 10.0.0.0/8; or any.",
    ),
]


IterationsOption = Annotated[
    int, typer.Option("--iterations", min=4096, max=16_384, help="What a guess costs.")
]


@app.command()
def create(
    name: NameArgument,
    password_file: PasswordFileOption,
    expires: ExpiresOption = None,
    network: NetworkOption = None,
    iterations: IterationsOption = ITERATIONS_DEFAULT,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Create a user who logs in by a password. No rule is made: see `kafkaesque rule create`.

    A user that exists stays as it is: see `kafkaesque user alter`.

    \b
    Example:
      kafkaesque user create app --password-file app.password
      kafkaesque user create guest --password-file guest.password --expires 2027-01-31
    """
    from kafkaesque.cli.access_requests import read_users
    from kafkaesque.cli.failure import CommandFailed

    limits = _limits(expires, network)
    if any(each.name == name for each in read_users(bootstrap)):
        raise CommandFailed(
            f"user {name} exists already",
            hint=f"kafkaesque user alter {name} --password-file FILE, for another password",
        )
    where = _set_password(bootstrap, name, password_file, iterations)
    if limits:
        _change(bootstrap, name, **limits)
    Screen(json=json).done(
        f"user {name} created; {where}", {"user": name, "password_file": str(password_file)}
    )


def _set_password(bootstrap: str, name: str, path: Path, iterations: int) -> str:
    """Give a user the password in a file, or a new one, which is written there; say where it is."""
    from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
    from kafkaesque.cli.access_requests import set_password
    from kafkaesque.cli.log_in import read_password

    is_new = not path.exists()
    if is_new:
        _draw_password(path)
    set_password(bootstrap, name, read_password(path), tuple(SCRAM_MECHANISMS), iterations)
    return f"{'a new' if is_new else 'the'} password is in {path}"


def _draw_password(path: Path) -> None:
    from kafkaesque.cli.arguments import wrong_usage
    from kafkaesque.cli.private_file import draw_password

    try:
        draw_password(path)
    except OSError as error:
        raise wrong_usage(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}"
        ) from None


def _limits(expires: str | None, network: list[str] | None) -> dict[str, Any]:
    """Return what `ChangeUser` has to say of them; nothing where nothing is asked for."""
    from kafkaesque.access.networks import read_network
    from kafkaesque.cli.arguments import wrong_usage
    from kafkaesque.cli.offset_words import parse_time_ms
    from kafkaesque.model.errors import InvalidRequest

    found: dict[str, Any] = {}
    if expires is not None:
        found["expires_ms"] = 0 if expires == NEVER else parse_time_ms(expires)
    if network:
        networks = () if network == ["any"] else tuple(network)
        try:
            for each in networks:
                read_network(each)
        except InvalidRequest as error:
            raise wrong_usage(str(error), "--network 10.0.0.0/8, or --network any") from None
        found["networks"] = networks
    return found


def _change(bootstrap: str, name: str, **change: Any) -> None:
    from kafkaesque.access.administration import ChangeUser
    from kafkaesque.cli.access_requests import change_access

    change_access(bootstrap, ChangeUser(name=name, **change))


@app.command()
def alter(
    name: NameArgument,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="File with the new password. If it does not exist, it is made, with a new one.",
        ),
    ] = None,
    expires: ExpiresOption = None,
    network: NetworkOption = None,
    iterations: IterationsOption = ITERATIONS_DEFAULT,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Change a user's password, or until when and from where it may log in.

    Connections of a user that may no longer log in are closed.

    \b
    Example:
      kafkaesque user alter app --password-file new.password
      kafkaesque user alter guest --expires never --network 10.0.0.0/8 --network ::1
    """
    from kafkaesque.cli.access_requests import read_users
    from kafkaesque.cli.arguments import wrong_usage

    limits = _limits(expires, network)
    if not limits and password_file is None:
        raise wrong_usage(
            "nothing to change", "--password-file FILE, --expires TIME, --network ADDRESS"
        )
    where = ""
    if password_file is not None:
        if all(each.name != name for each in read_users(bootstrap)):
            raise _unknown(name)
        where = f"; {_set_password(bootstrap, name, password_file, iterations)}"
    if limits:
        _change(bootstrap, name, **limits)
    Screen(json=json).done(f"user {name} changed{where}", {"user": name})


@app.command()
def disable(
    name: NameArgument, bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False
) -> None:
    """Let a user log in no more, and close its connections; nothing of it is deleted.

    \b
    Example:
      kafkaesque user disable guest
    """
    _change(bootstrap, name, is_disabled=True)
    Screen(json=json).done(f"user {name} disabled", {"user": name, "is_disabled": True})


@app.command()
def enable(
    name: NameArgument, bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False
) -> None:
    """Let a user log in again that was disabled.

    \b
    Example:
      kafkaesque user enable guest
    """
    _change(bootstrap, name, is_disabled=False)
    Screen(json=json).done(f"user {name} enabled", {"user": name, "is_disabled": False})


@app.command()
def prepare(
    name: NameArgument,
    password_file: PasswordFileOption,
    file: Annotated[
        Path, typer.Option("--file", metavar="FILE", help="What to write; it must not be there.")
    ] = Path("first-users.json"),
) -> None:
    """Write a file with a user whom a new cluster begins with: first.users.file of its brokers.

    So a cluster asks for a log-in from its first moment. The file has no password in it.

    \b
    Example:
      kafkaesque user prepare admin --password-file admin.password
    """
    from kafkaesque.cli.arguments import wrong_usage
    from kafkaesque.cli.log_in import read_password
    from kafkaesque.cli.private_file import write_private
    from kafkaesque.model.errors import InvalidRequest
    from kafkaesque.server.first_users import FirstAccess, make_verifiers, write_first_access

    if file.exists():
        raise wrong_usage(f"{file} is there already")
    if not password_file.exists():
        _draw_password(password_file)
    try:
        verifiers = make_verifiers(name, read_password(password_file))
        write_private(file, write_first_access(FirstAccess(verifiers)))
    except InvalidRequest as error:
        raise wrong_usage(str(error)) from None
    except OSError as error:
        raise wrong_usage(f"cannot write {file}: {error.strerror}") from None
    typer.echo(
        f"wrote {file} with user {name}; the password is in {password_file}\n"
        "in the file of every broker of the new cluster:\n"
        f'  [broker]\n  first.users.file = "{file.absolute()}"\n  super.users = "User:{name}"'
    )


@app.command("list")
def list_all(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List users: what they log in by, their roles, until when and from where they may.

    \b
    Example:
      kafkaesque user list
    """
    from kafkaesque.cli.access_requests import read_users

    users = read_users(bootstrap)
    columns = ("USER", "LOGS-IN-BY", "ROLES", "UNTIL", "FROM", "STATE")
    rows = [
        (
            each.name,
            ", ".join(_means(each)),
            ", ".join(each.roles),
            _until(each),
            ", ".join(_networks(each)) or "any",
            "disabled" if each.is_disabled else "enabled",
        )
        for each in users
    ]
    Screen(json=json).show(Table(columns=columns, rows=rows), [_document(each) for each in users])


def _means(user: "ShownUser") -> list[str]:
    return [
        each.mechanism or each.access_key_id or each.public_key or each.kind
        for each in user.credentials
    ]


def _networks(user: "ShownUser") -> list[str]:
    return list(dict.fromkeys(n for each in user.credentials for n in each.networks))


def _expires_ms(user: "ShownUser") -> int:
    """Return when the last of a user's credentials ends; 0 is never."""
    ends = [each.expires_ms for each in user.credentials]
    return 0 if not ends or 0 in ends else max(ends)


def _until(user: "ShownUser") -> str:
    expires_ms = _expires_ms(user)
    if not expires_ms:
        return NEVER
    return datetime.fromtimestamp(expires_ms / 1000, UTC).isoformat(timespec="seconds")


def _document(user: "ShownUser") -> dict[str, object]:
    return {
        "user": user.name,
        "mechanisms": _means(user),
        "roles": list(user.roles),
        "expires_ms": _expires_ms(user) or None,
        "networks": _networks(user),
        "is_disabled": user.is_disabled,
    }


@app.command()
def delete(
    name: NameArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete a user and all that it logs in by, and close its connections. Its rules stay.

    \b
    Example:
      kafkaesque user delete app --yes
    """
    from kafkaesque.cli.access_requests import delete_user, read_users
    from kafkaesque.cli.arguments import check_can_ask

    check_can_ask("user delete", yes=yes)
    found = next((each for each in read_users(bootstrap) if each.name == name), None)
    if found is None:
        raise _unknown(name)
    if not yes:
        typer.confirm(f"Delete the user {name}?", abort=True)
    delete_user(bootstrap, found)
    Screen(json=json).done(f"user {name} deleted", {"deleted": name})


def _unknown(name: str) -> "CommandFailed":
    from kafkaesque.cli.failure import CommandFailed

    return CommandFailed(f"user {name} does not exist", hint="kafkaesque user list")


@app.command()
def logout(
    name: NameArgument, admin: AdminOption = ADMIN_DEFAULT, json: JsonOption = False
) -> None:
    """End all sessions of a person, at all brokers: in the console and on command lines.

    The person can log in again with the password; `user disable` prevents that.

    \b
    Example:
      kafkaesque user logout alice
    """
    from urllib.parse import quote

    from kafkaesque.cli.admin_requests import send

    told = send(admin, "DELETE", f"/users/{quote(name, safe='')}/sessions")
    Screen(json=json).done(told["what"], {"user": name})


@totp.command("add")
def add_factor(
    name: NameArgument, admin: AdminOption = ADMIN_DEFAULT, json: JsonOption = False
) -> None:
    """Give a person a second factor, and ten recovery codes: they are shown once.

    From then on the password alone is not enough: people log in by `kafkaesque login` or in the
    console, with a code. Connections and sessions by the password alone are closed.

    \b
    Example:
      kafkaesque user totp add alice
    """
    from urllib.parse import quote

    from kafkaesque.cli.admin_requests import send
    from kafkaesque.cli.qr_code import show_second_factor

    told = send(admin, "POST", f"/users/{quote(name, safe='')}/second-factor")
    screen = Screen(json=json)
    if json:
        screen.show_json({"user": name, "uri": told["uri"], "codes": told["recovery_codes"]})
        return
    show_second_factor(told["uri"], told["recovery_codes"])
    typer.echo(f"\n{name} scans this with an authenticator; it is not shown again.")


@totp.command("show")
def show_factor(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Such as admin.totp of `kafkaesque up --secure`.",
            show_default=False,
        ),
    ],
) -> None:
    """Show the QR code of a second factor that is in a file, for an authenticator to scan.

    \b
    Example:
      kafkaesque user totp show secured/admin.totp
    """
    from kafkaesque.cli.qr_code import show_second_factor
    from kafkaesque.cli.totp_file import read_totp_uri

    show_second_factor(read_totp_uri(file), ())


@totp.command("remove")
def remove_factor(
    name: NameArgument,
    yes: YesOption = False,
    admin: AdminOption = ADMIN_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Let a person log in by the password alone again.

    \b
    Example:
      kafkaesque user totp remove alice --yes
    """
    from urllib.parse import quote

    from kafkaesque.cli.admin_requests import send
    from kafkaesque.cli.arguments import ask_first

    ask_first("user totp remove", f"Remove the second factor of {name}?", yes=yes)
    told = send(admin, "DELETE", f"/users/{quote(name, safe='')}/second-factor")
    Screen(json=json).done(told["what"], {"user": name})
