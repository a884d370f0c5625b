"""`kafkaesque user nkey`: public NKeys, by whose seeds clients of NATS log in."""

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
    help="Public NKeys, by whose seeds clients of NATS log in: add, delete.\n\n\b\nExample:\n"
    "  kafkaesque user nkey add app UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
)

PublicKey = Annotated[str, typer.Argument(metavar="PUBLIC_KEY", show_default=False)]


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    public_key: PublicKey,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Let a user log in by the seed of a public key (U...). The user need not exist.

    The seed stays with the client; `nk -gen user -pubout` and the libraries of NATS make both.

    \b
    Example:
      kafkaesque user nkey add app UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4
    """
    from kafkaesque.access.administration import AddNKey
    from kafkaesque.cli.access_requests import change_access

    change_access(bootstrap, AddNKey(user=name, public_key=public_key))
    document = {"user": name, "public_key": public_key}
    Screen(json=json).done(f"user {name} logs in by the seed of {public_key}", document)


@app.command()
def delete(
    public_key: PublicKey,
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove a public key, and close connections that use it. The user stays.

    \b
    Example:
      kafkaesque user nkey delete UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 --yes
    """
    from kafkaesque.access.administration import DeleteNKey
    from kafkaesque.cli.access_requests import change_access
    from kafkaesque.cli.arguments import ask_first

    ask_first("user nkey delete", f"Remove the NKey {public_key}?", yes=yes)
    change_access(bootstrap, DeleteNKey(public_key=public_key))
    Screen(json=json).done(f"the NKey {public_key} is removed", {"deleted": public_key})
