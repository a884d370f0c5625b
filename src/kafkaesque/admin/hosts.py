"""Which web pages may ask a broker: only those that it has served itself.

Any page that somebody opens can have the browser send requests to this machine and its networks,
loopback included. Two rules keep such a page out. Its own name may be made to point here (DNS
rebinding): so a request has to name this broker, by a number, which no page's name is, as
localhost, or as what an admin listener is advertised as. And it may ask under our name from
elsewhere (CSRF): so a request that a browser says comes from another origin is refused, and one
that changes something has to bring a header that no page of another origin can add.
"""

from collections.abc import Collection, Mapping
from typing import Final

from kafkaesque.chassis.http_names import is_own_host

#: What a change has to bring, with any value: browsers do not send it across origins unasked.
CHANGE_HEADER: Final = "x-kafkaesque-request"

#: What browsers say of who asks: our own page, or a person who typed an address.
_OWN_SITES: Final = frozenset({"same-origin", "none"})


def why_refused(
    headers: Mapping[str, str],
    names: Collection[str],
    *,
    is_change: bool = False,
    is_page: bool = False,
) -> str | None:
    """Return why a request is refused, or None if it is not; `names` are those of admin ports.

    A page holds no data, and a link to it may stand anywhere: only its host is looked at.
    """
    host = headers.get("host", "")
    if not is_own_host(host, names):
        return (
            f"this broker is not {host!r}: ask it by its IP address, as localhost, or by the name "
            "that its admin listener is advertised with"
        )
    if is_page:
        return None
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return "pages of other origins are refused"
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return "requests that pages of other sites send are refused"
    if is_change and CHANGE_HEADER not in headers:
        return f"a request that changes something has the header {CHANGE_HEADER}: 1"
    return None
