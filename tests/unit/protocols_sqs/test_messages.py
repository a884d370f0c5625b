"""What a body may have, whichever of the two ways it is looked at."""

import pytest

from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.messages import check_body

CONTROLS = [code for code in range(0x20) if chr(code) not in "\t\n\r"]


@pytest.mark.parametrize("beside", ["", "é"], ids=["ascii", "unicode"])
@pytest.mark.parametrize("code", [*CONTROLS, 0xFFFE, 0xFFFF])
def test_a_body_has_no_character_that_xml_does_not_have(code: int, beside: str) -> None:
    with pytest.raises(SqsError, match="Invalid characters"):
        check_body(f"a{chr(code)}b{beside}")


@pytest.mark.parametrize("beside", ["", "é"], ids=["ascii", "unicode"])
def test_a_body_may_have_all_others(beside: str) -> None:
    ascii_codes = [code for code in range(0x80) if code not in CONTROLS]
    others = [0xD7FF, 0xE000, 0xFFFD, 0x10000, 0x10FFFF] if beside else []
    check_body(beside + "".join(map(chr, ascii_codes + others)))


def test_a_body_is_not_empty() -> None:
    with pytest.raises(SqsError, match="MessageBody"):
        check_body("")
