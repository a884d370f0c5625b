"""`kafkaesque token`: delegation tokens, for programs that are to act as a user for a while."""

from pathlib import Path
from typing import Annotated, Final

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    number_option,
)
from kafkaesque.cli.screen import Screen, Table

app = new_app(help="Delegation tokens: create, list, renew, revoke.")

_HOUR_MS = 3_600_000
#: A hundred years.
HOURS_MAX: Final = 100 * 366 * 24

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The file of the token.", show_default=False),
]
OwnerOption = Annotated[
    str | None,
    typer.Option("--owner", metavar="USER", help="Of another user.", show_default=False),
]


@app.command()
def create(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A new file for the token.", show_default=False),
    ],
    owner: OwnerOption = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option(
            "--renewer", metavar="USER", help="Another user who may renew it; may be repeated."
        ),
    ] = None,
    hours: Annotated[
        float,
        number_option(
            "--hours",
            least=0,
            most=HOURS_MAX,
            help="For how long it can be renewed; 0: as long as the cluster allows.",
        ),
    ] = 0,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Make a token of the user who logs in, and write it to a file that Java's clients read.

    \b
    Example:
      kafkaesque token create job.token --hours 12
    """
    import os

    from kafkaesque.cli.token_requests import create_token, write_new_file

    descriptor = write_new_file(file)
    try:
        lifetime_ms = int(hours * _HOUR_MS) if hours > 0 else -1
        token = create_token(bootstrap, owner, renewer or (), lifetime_ms)
    except BaseException:
        os.close(descriptor)
        file.unlink()
        raise
    with os.fdopen(descriptor, "w") as out:
        out.write(token.properties())
    Screen(json=json).done(
        f"token {token.token_id} of {token.owner} is in {file}; it ends "
        f"{_time(token.expires_ms)} unless it is renewed",
        {
            "token_id": token.token_id,
            "owner": token.owner,
            "file": str(file),
            "expires_ms": token.expires_ms,
            "lifetime_end_ms": token.lifetime_end_ms,
        },
    )


@app.command("list")
def list_all(
    owner: OwnerOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List the tokens that you may see: your own, those that you may renew, and those of rules.

    \b
    Example:
      kafkaesque token list
    """
    from kafkaesque.cli.token_requests import list_tokens

    tokens = sorted(list_tokens(bootstrap, owner), key=lambda each: each.expires_ms)
    rows = [
        (
            each.token_id,
            each.owner,
            ", ".join(each.renewers),
            _time(each.expires_ms),
            _time(each.lifetime_end_ms),
        )
        for each in tokens
    ]
    Screen(json=json).show(
        Table(columns=("TOKEN", "OWNER", "RENEWERS", "ENDS", "RENEWABLE-UNTIL"), rows=rows),
        [
            {
                "token_id": each.token_id,
                "owner": each.owner,
                "requester": each.requester,
                "renewers": list(each.renewers),
                "expires_ms": each.expires_ms,
                "lifetime_end_ms": each.lifetime_end_ms,
            }
            for each in tokens
        ],
    )


@app.command()
def renew(
    file: FileArgument,
    hours: Annotated[
        float,
        number_option(
            "--hours",
            least=0,
            most=HOURS_MAX,
            help="From now on; 0: as long as the cluster has it.",
        ),
    ] = 0,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Have a token end later, within its longest time.

    \b
    Example:
      kafkaesque token renew job.token
    """
    from kafkaesque.cli.token_requests import read_token_file, renew_token

    period_ms = int(hours * _HOUR_MS) if hours > 0 else -1
    expires_ms = renew_token(bootstrap, read_token_file(file), period_ms)
    Screen(json=json).done(
        f"the token is valid until {_time(expires_ms)}", {"expires_ms": expires_ms}
    )


@app.command()
def revoke(
    file: FileArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """End a token now, and close the connections that logged in with it.

    \b
    Example:
      kafkaesque token revoke job.token
    """
    from kafkaesque.cli.token_requests import read_token_file, revoke_token

    revoke_token(bootstrap, read_token_file(file))
    Screen(json=json).done("revoked the token", {"revoked": str(file)})


def _time(ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
