"""`kafkaesque config quota`: list, set and unset client quotas."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from kafkaesque.broker.metadata.client_quotas import (
    CLIENT_ID,
    IP,
    USER,
    QuotaEntity,
    check_quota,
    make_entity,
)
from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    parse_pairs,
    wrong_usage,
)
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table
from kafkaesque.model.errors import InvalidRequest

app = new_app(
    help="""Client quotas: list, set and unset.

    \b
    Example:
      kafkaesque config quota set producer_byte_rate=1000000 --client-id importer
      kafkaesque config quota list
    """
)

_VERSION = 1
_EXAMPLE = "producer_byte_rate=1000000"

UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="One user.")]
ClientOption = Annotated[
    str | None, typer.Option("--client-id", metavar="NAME", help="One client id.")
]
IpOption = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="One address.")]
DefaultUserOption = Annotated[
    bool, typer.Option("--default-user", help="Users without a quota of their own.")
]
DefaultClientOption = Annotated[
    bool, typer.Option("--default-client-id", help="Client ids without a quota of their own.")
]
DefaultIpOption = Annotated[
    bool, typer.Option("--default-ip", help="Addresses without a quota of their own.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """One quota; an entity of which a part is None has the quota as the default."""

    entity: dict[str, str | None]
    quota: str
    value: float


@app.command("list")
def list_quotas(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List all quotas and whom they are for.

    \b
    Example:
      kafkaesque config quota list
    """
    from kafkaesque.cli.kafka_request import ask
    from kafkaesque.cli.missing_rules import check_rule, on_cluster
    from kafkaesque.protocols.kafka.api_table import ApiKey
    from kafkaesque.protocols.kafka.messages.describe_client_quotas_request import (
        DescribeClientQuotasRequest,
    )

    answer = ask(bootstrap, ApiKey.DESCRIBE_CLIENT_QUOTAS, _VERSION, DescribeClientQuotasRequest())
    check_rule(answer.error_code, bootstrap, on_cluster("describe-configs"))
    if answer.error_code:
        raise _refused(answer.error_code, answer.error_message)
    found = [
        QuotaRow(
            entity={part.entity_type: part.entity_name for part in entry.entity},
            quota=value.key,
            value=value.value,
        )
        for entry in answer.entries or ()
        for value in entry.values
    ]
    rows: list[tuple[Cell, ...]] = [
        (*(_part(row.entity, kind) for kind in (USER, CLIENT_ID, IP)), row.quota, _plain(row.value))
        for row in found
    ]
    Screen(json=json).show(
        Table(columns=("USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"), rows=rows),
        [asdict(row) for row in found],
    )


@app.command("set")
def set_quotas(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA=VALUE...", show_default=False)],
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: IpOption = None,
    default_user: DefaultUserOption = False,
    default_client_id: DefaultClientOption = False,
    default_ip: DefaultIpOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Set quotas of a user, a client id, both together, or an address.

    `kafkaesque config list quota` says which there are. A user that has not said who it is, is
    ANONYMOUS.

    \b
    Example:
      kafkaesque config quota set producer_byte_rate=1000000 --client-id importer
      kafkaesque config quota set request_percentage=25 --default-user
    """
    values = {
        name: _number(name, value) for name, value in parse_pairs(quotas, "quota", _EXAMPLE).items()
    }
    parts = _parts((user, default_user), (client_id, default_client_id), (ip, default_ip))
    _alter(bootstrap, parts, values)
    _say_done("set", parts, values, json=json)


@app.command()
def unset(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA...", show_default=False)],
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: IpOption = None,
    default_user: DefaultUserOption = False,
    default_client_id: DefaultClientOption = False,
    default_ip: DefaultIpOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove quotas: a more general quota applies again, if there is one.

    \b
    Example:
      kafkaesque config quota unset producer_byte_rate --client-id importer
    """
    parts = _parts((user, default_user), (client_id, default_client_id), (ip, default_ip))
    _alter(bootstrap, parts, dict.fromkeys(quotas))
    _say_done("unset", parts, quotas, json=json)


def _say_done(
    verb: str, parts: QuotaEntity, named: Mapping[str, float] | Sequence[str], *, json: bool
) -> None:
    document = {"entity": dict(parts), verb: named}
    Screen(json=json).done(f"{verb} {', '.join(named)}", document)


def _parts(*given: tuple[str | None, bool]) -> QuotaEntity:
    """Return the entity of a user, a client id and an address: its name, or "the default"."""
    parts: list[tuple[str, str | None]] = []
    for kind, (name, is_default) in zip((USER, CLIENT_ID, IP), given, strict=True):
        if name is not None and is_default:
            raise wrong_usage(f"--{kind} and --default-{kind} are two entities", f"--{kind} NAME")
        if name is not None or is_default:
            parts.append((kind, name))
    try:
        return make_entity(parts)
    except InvalidRequest as error:
        raise wrong_usage(str(error), "--client-id NAME, --user NAME, --ip ADDRESS") from None


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise wrong_usage(f"{name}={text!r} is not a number", _EXAMPLE) from None


def _alter(bootstrap: str, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
    from kafkaesque.cli.kafka_request import ask
    from kafkaesque.cli.missing_rules import check_rule, on_cluster
    from kafkaesque.protocols.kafka.api_table import ApiKey
    from kafkaesque.protocols.kafka.messages import alter_client_quotas_request as messages

    try:
        for name, value in values.items():
            check_quota(entity, name, value)
    except InvalidRequest as error:
        raise wrong_usage(str(error), "kafkaesque config list quota") from None
    entry = messages.EntryData(
        [messages.EntityData(kind, name) for kind, name in entity],
        [messages.OpData(name, value or 0.0, value is None) for name, value in values.items()],
    )
    request = messages.AlterClientQuotasRequest([entry])
    answer = ask(bootstrap, ApiKey.ALTER_CLIENT_QUOTAS, _VERSION, request)
    for result in answer.entries:
        check_rule(result.error_code, bootstrap, on_cluster("alter-configs"))
        if result.error_code:
            raise _refused(result.error_code, result.error_message)


def _refused(code: int, message: str | None) -> CommandFailed:
    from kafkaesque.protocols.kafka.error_codes import ErrorCode

    return CommandFailed(f"{message or 'the quotas were refused'} ({ErrorCode(code).name})")


def _part(entity: Mapping[str, str | None], kind: str) -> Cell:
    if kind not in entity:
        return None
    name = entity[kind]
    return "<default>" if name is None else name


def _plain(value: float) -> Cell:
    return int(value) if value.is_integer() else value
