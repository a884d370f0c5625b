"""What other machines reach of a broker without proving who they are, or in the clear.

A broker does not start so by mistake: its file has to say in words that it is meant.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kafkaesque.broker.listeners import AccessMode, Listener, is_local_host
from kafkaesque.env.network import Address
from kafkaesque.model.options import Option, OptionType
from kafkaesque.server.tls_settings import ClientAuth, TlsSettings

ALLOW_OPEN: Final = "allow.open.listeners"
ALLOW_PLAINTEXT: Final = "allow.plaintext.listeners"

#: The keys of the section [broker] that say it is meant.
EXPOSURE_OPTIONS: Final = (
    Option(
        name=ALLOW_OPEN,
        type=OptionType.BOOLEAN,
        default=False,
        doc="Whether listeners that other machines reach may let in clients that do not log in. "
        "Everybody who reaches such a listener may read, write and delete everything. Without it, "
        "a broker with one does not start. See [Security](security.md#beyond-this-machine).",
    ),
    Option(
        name=ALLOW_PLAINTEXT,
        type=OptionType.BOOLEAN,
        default=False,
        doc="Whether listeners with a log-in, and links between brokers, may be in the clear where "
        "other machines reach them. Without it, a broker with one does not start.",
    ),
)


def find_exposed(
    listeners: Sequence[Listener],
    tls: Collection[TlsSettings],
    *,
    allows_open: bool,
    allows_plaintext: bool,
) -> Iterator[str]:
    """Return what is wrong with listeners that other machines reach, a sentence for each."""
    certified = {each.name for each in tls if each.client_auth is ClientAuth.REQUIRED}
    for each in listeners:
        if each.is_local:
            continue
        where = f"the listener {each.name} at {each.address}, which other machines reach,"
        if each.access is not AccessMode.REQUIRED and each.tls not in certified:
            if not allows_open:
                yield (
                    f"{where} lets in everybody without a log-in: {_helps(each)}, or a host on "
                    f"this machine; if you want that, set {ALLOW_OPEN} = true in [broker]"
                )
        elif not each.tls and not allows_plaintext:
            yield (
                f"{where} is in the clear, so that others can read along: set tls, or a host on "
                f"this machine; if you want that, set {ALLOW_PLAINTEXT} = true in [broker]"
            )


def _helps(listener: Listener) -> str:
    if listener.can_log_in:
        return 'set access = "required" and tls'
    return "its clients cannot log in yet: set its port to 0"


def find_exposed_peers(
    address: Address,
    *,
    has_secret: bool,
    is_encrypted: bool,
    allows_open: bool,
    allows_plaintext: bool,
) -> Iterator[str]:
    """Return what is wrong with the port for other brokers, if other machines reach it.

    `is_encrypted` tells whether nobody gets in there but by TLS.
    """
    if is_local_host(address.host) or is_encrypted:
        return
    where = f"the port for brokers at {address}, which other machines reach,"
    if not has_secret and not allows_open:
        yield (
            f"{where} lets in everybody: set cluster.secret.file, or peers in [tls]; if you "
            f"want that, set {ALLOW_OPEN} = true in [broker]"
        )
    elif has_secret and not allows_plaintext and not allows_open:
        yield (
            f'{where} is in the clear, so that others can read along: set peers = "on" in [tls]; '
            f"if you want that, set {ALLOW_PLAINTEXT} = true in [broker]"
        )
