"""Names of machines that are none: whoever dials them is told so, by one kind of error."""

import pytest

from kafkaesque.env.network import Address, NameUnknown
from kafkaesque.runtime.names import resolve


@pytest.mark.parametrize("host", ["\N{SNOWMAN}." * 30, "a..b", "::gg"], ids=ascii)
def test_what_cannot_be_a_name_does_not_resolve(host: str) -> None:
    with pytest.raises(NameUnknown, match="does not resolve"):
        resolve(Address(host, 9190))
