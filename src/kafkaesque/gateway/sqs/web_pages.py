"""Keeps out what web pages send: any page may have a browser send requests to this machine.

Amazon's SDKs sign with whatever keys they have, and a page cannot sign with a key that is checked.
So this is asked only of requests whose signature nobody has checked. Browsers say of a request that
changes something where it comes from; of a GET perhaps not, and so that has to name this broker.
"""

from collections.abc import Collection

from kafkaesque.chassis.http_names import is_own_host
from kafkaesque.protocols.sqs.calls import HttpRequest
from kafkaesque.protocols.sqs.errors import SqsError


def check_page(request: HttpRequest, names: Collection[str]) -> None:
    """Refuse what a page may have sent; `names` are those that listeners for SQS are told by.

    Raises:
        SqsError: a browser says so, or it cannot be told.
    """
    headers = request.headers
    if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
        raise SqsError("AccessDenied", "Requests that web pages send are refused here.")
    host = headers.get("host", "")
    if request.method != "POST" and not is_own_host(host, names):
        raise SqsError(
            "AccessDenied",
            f"This broker is not {host!r}: ask it by its IP address, as localhost, by the name "
            "that its listener is advertised with, or by POST.",
        )
