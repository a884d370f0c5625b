"""Random sessions at a broker: receipts come in order, and each mistake ends in one ERROR."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.stomp.frames import Frame, write_headers
from kafkaesque.protocols.stomp.versions import Version
from tests.unit.gateway_stomp.kit import Ground, new_name

DESTINATIONS = (
    "/queue/a",
    "/topic/a.*",
    "/exchange/amq.fanout",
    "/temp-queue/x",
    "/amq/queue/no",
    "x",
)
NAMES = (
    *("ack", "transaction", "id", "selector", "prefetch-count", "expires", "priority", "reply-to"),
    *("durable", "requeue", "x-max-length", "persistent", "k", "message-id", "subscription"),
)
VALUES = (
    *("1", "t", "client", "client-individual", "auto", "true", "false", "0", "-1", "9999999999"),
    *("a = 'b'", "/temp-queue/x", "/queue/a", "é:\n\\", ""),
)
HEADERS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=4)
COMMANDS = ("SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT")
FRAMES = st.tuples(
    st.sampled_from((*COMMANDS, *COMMANDS[:2], "DISCONNECT", "NONSENSE")),
    st.sampled_from(DESTINATIONS),
    HEADERS,
    st.binary(max_size=20),
)


@cache
def ground() -> Ground:
    return Ground(seed=11)


@given(
    version=st.sampled_from(("1.0", "1.1", "1.2")),
    frames=st.lists(FRAMES, max_size=12),
    cut=st.integers(1, 200),
)
def test_a_session_is_answered_in_order(
    version: str, frames: list[tuple[str, str, dict[str, str], bytes]], cut: int
) -> None:
    client, name = ground().stomp(version=version), new_name()
    raw = b""
    for number, (command, destination, headers, body) in enumerate(frames):
        said = {"destination": destination.replace("/queue/a", f"/queue/{name}"), "id": "1"}
        said.update(headers, receipt=str(number), **{"content-length": str(len(body))})
        head = write_headers(tuple(said.items()), Version(version))
        raw += b"".join((command.encode(), b"\n", head, b"\n", body, b"\0"))
    for at in range(0, len(raw), cut):
        client.write(raw[at : at + cut])
    found: list[Frame] = []

    def is_answered() -> bool:
        client.silent(1)
        found[:] = [each for each in client._waiting if each.command in ("RECEIPT", "ERROR")]
        return client.client.is_closed or len(found) >= len(frames)

    for _ in range(200):
        if is_answered():
            break
        ground().wait(50)
    errors = [each for each in found if each.command == "ERROR"]
    assert len(errors) <= 1
    assert errors == [each for each in found[-1:] if each.command == "ERROR"]
    receipts = [each.get("receipt-id") for each in found if each.command == "RECEIPT"]
    assert receipts == [str(number) for number in range(len(receipts))]
    has_left = any(each[0] == "DISCONNECT" for each in frames)
    assert errors or has_left or len(receipts) == len(frames)
    if not client.client.is_closed:
        client.close()
