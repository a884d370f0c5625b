"""`kafkaesque login`: begins a session, for the commands that come."""

from pathlib import Path
from typing import Annotated, Final

import typer

from kafkaesque.cli.admin_requests import ADMIN_DEFAULT, AdminOption
from kafkaesque.cli.arguments import BOOTSTRAP_DEFAULT, BootstrapOption, JsonOption, new_app
from kafkaesque.cli.screen import Screen

app = new_app(no_args_is_help=False)

_CODE_PROMPT: Final = "code of the second factor (Enter if you have none)"


@app.command()
def login(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="Has the password; else it is asked for.",
            show_default=False,
        ),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(
            "--code",
            metavar="CODE",
            help="Of the second factor, or a recovery code; else it is asked for.",
            show_default=False,
        ),
    ] = None,
    admin: AdminOption = ADMIN_DEFAULT,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Log in for 12 hours: other commands use the session at this cluster.

    KAFKAESQUE_USER and --command-config count before it.

    \b
    Example:
      kafkaesque login alice
    """
    from datetime import datetime

    from kafkaesque.access.secret import Secret
    from kafkaesque.cli.admin_requests import send
    from kafkaesque.cli.arguments import is_typed, wrong_usage
    from kafkaesque.cli.log_in import read_password
    from kafkaesque.cli.session_cluster import find_addresses
    from kafkaesque.cli.session_file import StoredSession, write_session
    from kafkaesque.cli.troubles import why

    if password_file is not None:
        password = read_password(password_file)
    elif is_typed():
        password = Secret.of(typer.prompt("password", hide_input=True, err=True))
    else:
        raise wrong_usage("there is no terminal to ask for the password", "--password-file FILE")
    if code is None:
        code = ""
        if is_typed():
            code = typer.prompt(_CODE_PROMPT, default="", show_default=False, err=True)
    body = {"user": name, "password": password.reveal().decode(), "code": code}
    told = send(admin, "POST", "/session", body, as_self=False)
    session = StoredSession(
        user=name,
        token=Secret.of(told["token"]),
        expires_ms=told["expires_at"],
        addresses=find_addresses(bootstrap, name, Secret.of(told["token"])),
        admin=admin,
    )
    try:
        path = write_session(session)
    except OSError as error:
        raise wrong_usage(f"the session cannot be kept: {why(error)}") from None
    until = datetime.fromtimestamp(session.expires_ms / 1_000).astimezone()
    Screen(json=json).done(
        f"logged in as {name} until {until:%Y-%m-%d %H:%M}; the session is in {path}",
        {"user": name, "expires_at": session.expires_ms, "file": str(path)},
    )
