"""What the controller is asked for when somebody changes users and roles."""

from kafkaesque.access.access_keys import find_access_key
from kafkaesque.access.administration import (
    AddNKey,
    Change,
    ChangeUser,
    DeleteAccessKey,
    DeleteNKey,
    DeleteRole,
    DeleteUser,
    MakeAccessKey,
    MakeRole,
    changed_credential,
    changed_user,
)
from kafkaesque.access.errors import CredentialUnknown, RoleUnknown, UserUnknown
from kafkaesque.access.nkeys import find_nkey, make_nkey
from kafkaesque.access.roles import Role
from kafkaesque.access.state import AccessState
from kafkaesque.broker.requests.access_commands import (
    AccessCommand,
    PutCredential,
    PutRole,
    PutUser,
    RemoveCredential,
    RemoveRole,
    RemoveUser,
)
from kafkaesque.model.errors import InvalidRequest, InvariantBroken


def commands_of(state: AccessState, change: Change) -> list[AccessCommand]:
    """Return what the controller has to do, one after the other.

    Each command says which state of a thing it was meant for: what somebody else has changed
    meanwhile is not undone.

    Raises:
        UserUnknown, RoleUnknown, CredentialUnknown: there is none.
        InvalidRequest: a key is none, or somebody has it.
    """
    match change:
        case ChangeUser():
            return _changes_of_user(state, change)
        case DeleteUser():
            return [RemoveUser(name=change.name)]
        case MakeRole():
            role = Role(name=change.name, description=change.description)
            known = state.roles.get(change.name)
            return [PutRole(role=role, epoch=0 if known is None else known.epoch)]
        case DeleteRole():
            return [RemoveRole(name=change.name)]
        case DeleteAccessKey():
            found = find_access_key(state, change.access_key_id)
            if found is None:
                raise CredentialUnknown(f"there is no access key {change.access_key_id!r}")
            return [RemoveCredential(id=found.id)]
        case AddNKey():
            credential = make_nkey(change.user, change.public_key)
            known_key = find_nkey(state, change.public_key)
            if known_key is not None:
                raise InvalidRequest(f"user {known_key.user!r} has this NKey already")
            return [PutCredential(credential=credential, epoch=0)]
        case DeleteNKey():
            known_key = find_nkey(state, change.public_key)
            if known_key is None:
                raise CredentialUnknown(f"there is no NKey {change.public_key!r}")
            return [RemoveCredential(id=known_key.id)]
        case MakeAccessKey():
            raise InvariantBroken("a new access key is made by itself")


def _changes_of_user(state: AccessState, change: ChangeUser) -> list[AccessCommand]:
    user = state.users.get(change.name)
    if user is None:
        raise UserUnknown(f"there is no user {change.name!r}")
    missing = [each for each in change.add_roles if each not in state.roles]
    if missing:
        raise RoleUnknown(f"there is no role {missing[0]!r}")
    commands: list[AccessCommand] = []
    for each in state.credentials_of(user.name):
        changed = changed_credential(each, change)
        if changed != each:
            commands.append(PutCredential(credential=changed, epoch=each.epoch))
    changed_to = changed_user(user, change)
    if changed_to != user:
        commands.append(PutUser(user=changed_to, epoch=user.epoch))
    return commands
