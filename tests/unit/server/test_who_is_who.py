"""What a broker's file says of who clients are: nothing by half."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from joserfc import jwk

from kafkaesque.broker.listeners import LogInBy
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import ServerConfig, load_config
from kafkaesque.server.oauth_settings import load_verifier

KEY = jwk.ECKey.generate_key("P-256", {"kid": "first"})
ISSUER = 'sasl.oauthbearer.expected.issuer = "https://id.example.org"\n'
AUDIENCE = 'sasl.oauthbearer.expected.audience = "orders, other"\n'
TLS = '[tls]\ncertificate = "c"\nkey = "k"\nca = "a"\n'


def load(directory: Path, text: str) -> ServerConfig:
    secret = directory / "secret"
    secret.write_text("a secret of the cluster, long enough\n")
    secret.chmod(0o600)
    path = directory / "broker.toml"
    head = f'[broker]\nid = 1\ntext.port = 0\ncluster.secret.file = "{secret}"\n'
    path.write_text(head + text)
    return load_config(path, environment={})


def keys(directory: Path, text: str | None = None) -> str:
    path = directory / "jwks.json"
    path.write_text(text or json.dumps({"keys": [KEY.as_dict(private=False)]}))
    return f'sasl.oauthbearer.jwks.endpoint.url = "file://{path}"\n'


def test_a_provider_is_described_by_kafkas_names(tmp_path: Path) -> None:
    more = "sasl.oauthbearer.clock.skew.seconds = 5\nsasl.oauthbearer.unknown.subjects = false\n"
    settings = load(tmp_path, ISSUER + AUDIENCE + keys(tmp_path) + more).oauth
    assert settings is not None
    config = load_verifier(settings).config
    assert (config.issuer, config.audiences) == ("https://id.example.org", ("orders", "other"))
    assert config.clock_skew_ms == 5_000
    assert not config.admits_unknown_subjects
    assert load(tmp_path, "").oauth is None


@pytest.mark.parametrize("left_out", ["issuer", "audience", "jwks"])
def test_half_a_provider_does_not_start(tmp_path: Path, left_out: str) -> None:
    parts = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": keys(tmp_path)}
    del parts[left_out]
    with pytest.raises(ConfigError, match=f"is set without sasl.oauthbearer.*{left_out}"):
        load(tmp_path, "".join(parts.values()))
    with pytest.raises(ConfigError, match="is set without"):
        load(tmp_path, 'sasl.oauthbearer.algorithms = "RS256"\n')


@pytest.mark.parametrize(
    "url", ["https://id.example.org/jwks", "jwks.json", "file://other/jwks.json", "file://"]
)
def test_keys_are_not_fetched(tmp_path: Path, url: str) -> None:
    line = f'sasl.oauthbearer.jwks.endpoint.url = "{url}"\n'
    with pytest.raises(ConfigError, match="must be a file on this machine"):
        load(tmp_path, ISSUER + AUDIENCE + line)


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("{}", "", "no JWK set"),
        (json.dumps({"keys": [KEY.as_dict(private=True)]}), "", "is secret"),
        (None, 'sasl.oauthbearer.algorithms = "none"\n', "is no algorithm"),
        (None, 'sasl.oauthbearer.algorithms = "HS256"\n', "is no algorithm"),
        (None, 'sasl.oauthbearer.algorithms = "RS256"\n', "fits none of"),
    ],
)
def test_keys_that_do_not_fit_are_refused(
    tmp_path: Path, text: str | None, more: str, words: str
) -> None:
    settings = load(tmp_path, ISSUER + AUDIENCE + keys(tmp_path, text) + more).oauth
    assert settings is not None
    with pytest.raises(ConfigError, match=words):
        load_verifier(settings)
    settings.key_set.unlink()
    with pytest.raises(ConfigError, match="cannot read"):
        load_verifier(settings)


def listener(*lines: str) -> str:
    return "\n".join(("[[listener]]", 'name = "x"', "port = 9099", *lines, TLS))


REQUIRED, BY, AUTH = (
    'access = "required"',
    'log.in.by = "certificate"',
    'tls.client.auth = "required"',
)


def test_a_listener_says_what_tells_who_a_client_is(tmp_path: Path) -> None:
    found = load(tmp_path, listener(REQUIRED, BY, AUTH)).broker.listeners
    (named,) = [each for each in found if each.name == "x"]
    assert named.log_in_by is LogInBy.CERTIFICATE
    assert named.mechanisms == ()
    rules = 'ssl.principal.mapping.rules = "RULE:^CN=(.*)$/$1/"\n'
    assert load(tmp_path, rules).broker.principal_mapping_rules == "RULE:^CN=(.*)$/$1/"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((BY, AUTH), "does not ask them who they are"),
        ((REQUIRED, BY), "needs TLS"),
        ((REQUIRED, BY, "tls = true"), "clients are not asked for one"),
        ((REQUIRED, BY, AUTH, 'sasl.mechanisms = "PLAIN"'), "leaves no SASL mechanism"),
    ],
)
def test_a_listener_by_certificate_is_not_set_by_half(
    tmp_path: Path, lines: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, listener(*lines))


def test_mapping_rules_are_read_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="RE2 does not take"):
        load(tmp_path, "ssl.principal.mapping.rules = 'RULE:^(.*)\\1$/$1/'\n")
