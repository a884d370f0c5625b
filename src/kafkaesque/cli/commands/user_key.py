"""`kafkaesque user key`: access keys, by which users sign requests."""

from typing import Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    new_app,
)
from kafkaesque.cli.screen import Screen

app = new_app(
    help="Access keys, by which users of SQS sign: create, delete.\n\n\b\nExample:\n"
    "  kafkaesque user key create app"
)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Give a user an access key, and show its secret: this once. The user need not exist.

    \b
    Example:
      kafkaesque user key create app
      eval "$(kafkaesque user key create app)"
    """
    from kafkaesque.cli.access_requests import make_access_key

    made = make_access_key(bootstrap, name)
    if json:
        document = {"user": name, "access_key_id": made.access_key_id, "secret": made.secret}
        Screen(json=True).show_json(document)
        return
    # As a shell and the SDKs of Amazon read it.
    typer.echo(f"export AWS_ACCESS_KEY_ID={made.access_key_id}")
    typer.echo(f"export AWS_SECRET_ACCESS_KEY={made.secret}")


@app.command()
def delete(
    access_key_id: Annotated[str, typer.Argument(metavar="KEY_ID", show_default=False)],
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove an access key, and close connections that use it. The user stays.

    \b
    Example:
      kafkaesque user key delete KFQAIBAEAQCAIBAEAQC --yes
    """
    from kafkaesque.access.administration import DeleteAccessKey
    from kafkaesque.cli.access_requests import change_access
    from kafkaesque.cli.arguments import ask_first

    ask_first("user key delete", f"Remove the access key {access_key_id}?", yes=yes)
    change_access(bootstrap, DeleteAccessKey(access_key_id=access_key_id))
    Screen(json=json).done(f"the access key {access_key_id} is removed", {"deleted": access_key_id})
