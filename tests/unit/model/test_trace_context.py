"""W3C trace context: what of a record's headers is one."""

import pytest

from kafkaesque.model.trace_context import STATE_BYTES_MAX, read_context

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


def test_a_context_is_read() -> None:
    found = read_context([("other", b"x"), ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())])
    assert found is not None
    assert (found.trace_id.hex(), found.parent_id.hex()) == (TRACE, PARENT)
    assert found.is_sampled
    assert found.state == ""


@pytest.mark.parametrize(("flags", "is_sampled"), [("00", False), ("03", True), ("02", False)])
def test_only_one_flag_says_that_it_is_sampled(flags: str, is_sampled: bool) -> None:
    found = read_context([("traceparent", f"00-{TRACE}-{PARENT}-{flags}".encode())])
    assert found is not None
    assert found.is_sampled == is_sampled


def test_a_later_version_may_say_more() -> None:
    assert read_context([("traceparent", f"01-{TRACE}-{PARENT}-01-more".encode())]) is not None


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"garbage",
        f"00-{TRACE}-{PARENT}".encode(),
        f"00-{TRACE}-{PARENT}-01-more".encode(),
        f"ff-{TRACE}-{PARENT}-01".encode(),
        f"00-{'0' * 32}-{PARENT}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE.upper()}-{PARENT}-01".encode(),
        f"00-{TRACE}-{PARENT}-01\n".encode(),
        f"00-{TRACE}-{PARENT}-0g".encode(),
    ],
)
def test_what_is_none_is_taken_for_none(value: bytes | None) -> None:
    assert read_context([("traceparent", value)]) is None


def test_of_two_contexts_neither_counts() -> None:
    one = ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())
    assert read_context([one, one]) is None


def test_the_state_of_vendors_goes_with_it_within_a_bound() -> None:
    parent = ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())
    found = read_context([parent, ("tracestate", b"a=1"), ("tracestate", b"b=2")])
    assert found is not None
    assert found.state == "a=1,b=2"
    long = read_context([parent, ("tracestate", b"x" * (STATE_BYTES_MAX + 1))])
    assert long is not None
    assert long.state == ""
