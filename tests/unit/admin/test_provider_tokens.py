"""Tokens of an OpenID provider, as the admin port checks them."""

from __future__ import annotations

from kafkaesque.access.authentication import Failure, Success
from kafkaesque.access.secret import Secret
from tests.unit.access.test_oauthbearer import VERIFIER, token
from tests.unit.admin.api_ground import ApiGround


def test_a_verifier_that_comes_later_is_used_by_the_admin_port_too() -> None:
    doors = ApiGround(33).cluster.brokers["b1"].doors
    seconds = doors.clock.wall_ms() // 1000
    text = Secret.of(token(exp=seconds + 60, nbf=seconds - 60, iat=seconds - 60))
    assert isinstance(doors.access.sessions.check_token(text, "10.0.0.1"), Failure)
    doors.access.check_tokens_with(VERIFIER)
    assert isinstance(doors.access.sessions.check_token(text, "10.0.0.1"), Success)
