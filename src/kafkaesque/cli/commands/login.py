"""`kafkaesque login`: begins a session, for the commands that come."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kafkaesque.cli.admin_requests import ADMIN_DEFAULT, AdminOption
from kafkaesque.cli.arguments import BOOTSTRAP_DEFAULT, BootstrapOption, JsonOption, new_app
from kafkaesque.cli.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaesque.access.secret import Secret

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
    totp_file: Annotated[
        Path | None,
        typer.Option(
            "--totp-file",
            metavar="FILE",
            help="Has the secret of the second factor, for programs; the code is made from it.",
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
      kafkaesque login admin --password-file admin.password --totp-file admin.totp
    """
    from datetime import datetime

    from kafkaesque.access.secret import Secret
    from kafkaesque.cli.arguments import wrong_usage
    from kafkaesque.cli.session_cluster import find_addresses
    from kafkaesque.cli.session_file import StoredSession, write_session
    from kafkaesque.cli.troubles import why

    if code is not None and totp_file is not None:
        raise wrong_usage("--code and --totp-file are two ways to say the same", "one of them")
    told = _begin(admin, name, _password(password_file), _codes(code, totp_file))
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


def _password(path: Path | None) -> "Secret":
    from kafkaesque.access.secret import Secret
    from kafkaesque.cli.arguments import is_typed, wrong_usage
    from kafkaesque.cli.log_in import read_password

    if path is not None:
        return read_password(path)
    if not is_typed():
        raise wrong_usage("there is no terminal to ask for the password", "--password-file FILE")
    return Secret.of(typer.prompt("password", hide_input=True, err=True))


def _codes(code: str | None, totp_file: Path | None) -> "Sequence[str]":
    """Return the codes to try, one after the other."""
    import time

    from kafkaesque.cli.arguments import is_typed
    from kafkaesque.cli.totp_file import codes_at

    if totp_file is not None:
        return codes_at(totp_file, int(time.time() * 1_000))
    if code is None and is_typed():
        code = typer.prompt(_CODE_PROMPT, default="", show_default=False, err=True)
    return (code or "",)


def _begin(admin: str, name: str, password: "Secret", codes: "Sequence[str]") -> Any:
    from kafkaesque.cli.admin_transport import UNAUTHORIZED, ask_session

    for each in codes:
        answer = ask_session(admin, name, password.reveal().decode(), each)
        if answer.status != UNAUTHORIZED:
            break
    return answer.check()
