"""`kafkaesque role`: rules that are written once for several users."""

from typing import Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    check_can_ask,
    new_app,
)
from kafkaesque.cli.screen import Screen, Table, counted

app = new_app(help="Roles: create, list, grant, revoke, delete.")

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", show_default=False)]
UsersArgument = Annotated[list[str], typer.Argument(metavar="USER...", show_default=False)]


@app.command()
def create(
    role: RoleArgument,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Create a role, or change its description. Its rules are those of Role:NAME.

    \b
    Example:
      kafkaesque role create readers
      kafkaesque rule create Role:readers -o read --topic orders- --prefix
      kafkaesque role grant readers mia
    """
    from kafkaesque.access.administration import MakeRole
    from kafkaesque.cli.access_requests import change_access

    change_access(bootstrap, MakeRole(name=role, description=description))
    Screen(json=json).done(f"role {role} created", {"role": role, "description": description})


@app.command("list")
def list_all(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List roles, with their users and how many rules each has.

    \b
    Example:
      kafkaesque role list
    """
    from kafkaesque.access.administration import AskRoles, Roles
    from kafkaesque.cli.access_requests import ask_access

    found = ask_access(bootstrap, AskRoles(), Roles).roles
    rows = [(each.name, ", ".join(each.users), each.rules, each.description) for each in found]
    document = [
        {
            "role": each.name,
            "users": list(each.users),
            "rules": each.rules,
            "description": each.description,
        }
        for each in found
    ]
    Screen(json=json).show(
        Table(columns=("ROLE", "USERS", "RULES", "DESCRIPTION"), rows=rows), document
    )


@app.command()
def grant(
    role: RoleArgument,
    users: UsersArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Give a role to users.

    \b
    Example:
      kafkaesque role grant readers mia tom
    """
    from kafkaesque.access.administration import ChangeUser
    from kafkaesque.cli.access_requests import change_access

    for each in users:
        change_access(bootstrap, ChangeUser(name=each, add_roles=(role,)))
    Screen(json=json).done(
        f"role {role} granted to {', '.join(users)}", {"role": role, "granted": users}
    )


@app.command()
def revoke(
    role: RoleArgument,
    users: UsersArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Take a role from users; it counts from their next request.

    \b
    Example:
      kafkaesque role revoke readers mia
    """
    from kafkaesque.access.administration import ChangeUser
    from kafkaesque.cli.access_requests import change_access

    for each in users:
        change_access(bootstrap, ChangeUser(name=each, remove_roles=(role,)))
    Screen(json=json).done(
        f"role {role} revoked from {', '.join(users)}", {"role": role, "revoked": users}
    )


@app.command()
def delete(
    role: RoleArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete a role and its rules.

    \b
    Example:
      kafkaesque role delete readers --yes
    """
    from kafkaesque.access.administration import AskRoles, DeleteRole, Roles
    from kafkaesque.cli.access_requests import ask_access, change_access
    from kafkaesque.cli.failure import CommandFailed

    check_can_ask("role delete", yes=yes)
    found = {each.name: each for each in ask_access(bootstrap, AskRoles(), Roles).roles}
    known = found.get(role)
    if known is None:
        raise CommandFailed(f"role {role} does not exist", hint="kafkaesque role list")
    what = f"{counted(known.rules, 'rule')}, {counted(len(known.users), 'user')}"
    if not yes:
        typer.confirm(f"Delete the role {role} ({what})?", abort=True)
    change_access(bootstrap, DeleteRole(name=role))
    Screen(json=json).done(f"role {role} deleted ({what})", {"deleted": role})
