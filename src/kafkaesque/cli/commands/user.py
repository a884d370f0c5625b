"""`kafkaesque user`: users who log in by SCRAM."""

from pathlib import Path
from typing import Annotated, Final

import typer

from kafkaesque.cli.admin_requests import ADMIN_DEFAULT, AdminOption
from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    new_app,
)
from kafkaesque.cli.screen import Screen, Table

app = new_app(help="Users who log in: create, list, delete; second factors.")
totp = new_app(
    help="Second factors (TOTP): add, remove.\n\n\b\nExample:\n  kafkaesque user totp add alice"
)
app.add_typer(totp, name="totp")

#: 192 random bits, as text.
PASSWORD_BYTES: Final = 24

NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@app.command()
def create(
    name: NameArgument,
    password_file: Annotated[
        Path,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="Has the password. If there is no such file, a password is drawn and written to "
            "it.",
            show_default=False,
        ),
    ],
    iterations: Annotated[
        int, typer.Option("--iterations", min=4096, max=16_384, help="What a guess costs.")
    ] = 8192,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Let a user log in, or change the password. No rule is made: see `kafkaesque rule create`.

    \b
    Example:
      kafkaesque user create app --password-file app.password
    """
    from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
    from kafkaesque.cli.access_requests import set_password
    from kafkaesque.cli.log_in import read_password

    is_new = not password_file.exists()
    if is_new:
        _draw_password(password_file)
    password = read_password(password_file)
    set_password(bootstrap, name, password, tuple(SCRAM_MECHANISMS), iterations)
    where = f"the password is in {password_file}" if is_new else f"by {password_file}"
    Screen(json=json).done(
        f"user {name} may log in; {where}", {"user": name, "password_file": str(password_file)}
    )


def _draw_password(path: Path) -> None:
    import os
    import secrets

    from kafkaesque.cli.arguments import wrong_usage

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise wrong_usage(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}"
        ) from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(PASSWORD_BYTES) + "\n")


@app.command("list")
def list_all(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List the users who can log in.

    \b
    Example:
      kafkaesque user list
    """
    from kafkaesque.cli.access_requests import list_users

    users = list_users(bootstrap)
    rows = [(name, ", ".join(mechanisms)) for name, mechanisms in sorted(users.items())]
    Screen(json=json).show(
        Table(columns=("USER", "LOGS IN BY"), rows=rows),
        [{"user": name, "mechanisms": each} for name, each in sorted(users.items())],
    )


@app.command()
def delete(
    name: NameArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Let a user log in no more, and close its connections. Its rules stay.

    \b
    Example:
      kafkaesque user delete app --yes
    """
    from kafkaesque.cli.access_requests import list_users, remove_passwords
    from kafkaesque.cli.arguments import wrong_usage
    from kafkaesque.cli.failure import CommandFailed

    mechanisms = list_users(bootstrap).get(name)
    if mechanisms is None:
        raise CommandFailed(f"user {name} does not exist", hint="kafkaesque user list")
    if not yes:
        import sys

        if not sys.stdin.isatty():
            raise wrong_usage("add --yes: nobody can be asked")
        typer.confirm(f"Delete the user {name}?", abort=True)
    remove_passwords(bootstrap, name, mechanisms)
    Screen(json=json).done(f"user {name} can log in no more", {"deleted": name})


@totp.command("add")
def add_factor(
    name: NameArgument, admin: AdminOption = ADMIN_DEFAULT, json: JsonOption = False
) -> None:
    """Give a person a second factor, and ten recovery codes: they are shown once.

    From then on the password alone lets nobody in: people log in by `kafkaesque login` or in the
    console, with a code. Connections and sessions by the password alone are closed.

    \b
    Example:
      kafkaesque user totp add alice
    """
    from urllib.parse import quote

    from kafkaesque.cli.admin_requests import send
    from kafkaesque.cli.qr_code import show_qr_code

    told = send(admin, "POST", f"/users/{quote(name, safe='')}/second-factor")
    screen = Screen(json=json)
    if json:
        screen.show_json({"user": name, "uri": told["uri"], "codes": told["recovery_codes"]})
        return
    show_qr_code(told["uri"])
    typer.echo(told["uri"])
    typer.echo("\nRecovery codes, each good once where the authenticator is lost:")
    for each in told["recovery_codes"]:
        typer.echo(f"  {each}")
    typer.echo(f"\n{name} scans this with an authenticator; it is not shown again.")


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
    from kafkaesque.cli.arguments import check_can_ask

    check_can_ask("user totp remove", yes=yes)
    if not yes:
        typer.confirm(f"Take the second factor of {name} away?", abort=True)
    told = send(admin, "DELETE", f"/users/{quote(name, safe='')}/second-factor")
    Screen(json=json).done(told["what"], {"user": name})
