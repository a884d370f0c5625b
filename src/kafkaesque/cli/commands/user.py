"""`kafkaesque user`: users who log in by SCRAM."""

from pathlib import Path
from typing import Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    new_app,
)
from kafkaesque.cli.screen import Screen, Table

app = new_app(help="Users who log in: create, list, delete.")

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
    from kafkaesque.cli.arguments import wrong_usage
    from kafkaesque.cli.private_file import draw_password

    try:
        draw_password(path)
    except OSError as error:
        raise wrong_usage(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}"
        ) from None


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
