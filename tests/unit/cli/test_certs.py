"""`kafkaesque certs`: what it makes is what TLS libraries and brokers want."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from kafkaesque.model.errors import ConfigError
from kafkaesque.server.authority import Authority
from kafkaesque.server.certificates import load_tls
from kafkaesque.server.tls_settings import ClientAuth, TlsSettings
from tests.unit.cli.test_commands import run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "certs"
    code, output, _ = run("certs", "init", "--cluster-id", "a cluster/1", "-d", str(made))
    assert code == 0
    assert "made an authority for cluster a cluster/1" in output
    assert "next: kafkaesque certs issue --broker 1" in output
    return made


def certs(directory: Path, *words: str) -> str:
    code, output, errors = run("certs", *words, "-d", str(directory))
    assert code == 0, errors
    return output


def fails(directory: Path, *words: str) -> tuple[int, str]:
    code, output, errors = run("certs", *words, "-d", str(directory))
    assert output == ""
    return code, errors


def openssl(*words: str) -> str:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=True)
    return done.stdout


def test_what_is_printed_for_a_broker_is_a_file_that_is_right(
    directory: Path, tmp_path: Path
) -> None:
    printed = certs(directory, "issue", "--broker", "7")
    section = printed.partition("in the broker's file:\n")[2].replace("  ", "")
    path = tmp_path / "broker.toml"
    broker = f'[broker]\nid = 7\ncluster.id = "a cluster/1"\ndata = "{tmp_path}/data"\n'
    path.write_text(broker + section)
    code, output, errors = run("broker", "--config", str(path), "--check")
    assert (code, output) == (0, f"{path} is valid\n"), errors
    # The certificate of another broker is not this one's.
    path.write_text((broker + section).replace("id = 7", "id = 8"))
    code, _, errors = run("broker", "--config", str(path), "--check")
    assert code == 2
    assert "must name kafkaesque://a%20cluster%2F1/broker/8" in errors


def test_keys_are_their_owners_and_certificates_have_what_newer_libraries_want(
    directory: Path,
) -> None:
    certs(directory, "issue", "--broker", "1", "--host", "k.example", "--host", "10.0.0.7")
    certs(directory, "issue", "--user", "app")
    for name in ("ca", "broker-1", "app"):
        assert stat.S_IMODE((directory / f"{name}.key").stat().st_mode) == 0o600
    for name, usages in (
        ("broker-1", "TLS Web Server Authentication, TLS Web Client Authentication"),
        ("app", "TLS Web Client Authentication"),
    ):
        file = str(directory / f"{name}.pem")
        strict = ("-x509_strict", "-check_ss_sig", "-CAfile", str(directory / "ca.pem"))
        assert openssl("verify", *strict, file) == f"{file}: OK\n"
        text = openssl("x509", "-in", file, "-noout", "-text")
        assert "prime256v1" in text
        assert "X509v3 Authority Key Identifier" in text
        assert "X509v3 Subject Key Identifier" in text
        lines = [line.strip() for line in text.splitlines()]
        assert lines[lines.index("X509v3 Extended Key Usage:") + 1] == usages
        assert lines[lines.index("X509v3 Key Usage: critical") + 1] == "Digital Signature"
    assert "DNS:k.example, IP Address:10.0.0.7" in openssl(
        "x509", "-in", str(directory / "broker-1.pem"), "-noout", "-ext", "subjectAltName"
    )


def test_renewing_makes_a_new_key_for_the_same_names(directory: Path) -> None:
    certs(directory, "issue", "--broker", "1", "--host", "k.example")
    before = (directory / "broker-1.key").read_bytes()
    assert "renewed " in certs(directory, "renew", "broker-1", "--days", "100")
    assert (directory / "broker-1.key").read_bytes() != before
    settings = TlsSettings(
        name="tls",
        setting="x",
        certificate=directory / "broker-1.pem",
        key=directory / "broker-1.key",
        ca=directory / "ca.pem",
        hosts=("k.example",),
    )
    uri = "kafkaesque://a%20cluster%2F1/broker/1"
    assert load_tls(settings).certificate.uris == (uri,)
    shown = json.loads(certs(directory, "show", "--json"))
    assert [(each["name"], each["hosts"], each["uri"]) for each in shown] == [
        ("broker-1", ["k.example"], uri)
    ] * 2


def test_revoked_ones_are_in_the_list_that_brokers_and_others_read(directory: Path) -> None:
    certs(directory, "issue", "--user", "app")
    certs(directory, "renew", "app")
    certs(directory, "issue", "--user", "other")
    output = certs(directory, "revoke", "app")
    assert "revoked 2 certificates of app" in output
    assert "crl.pem" in output
    assert certs(directory, "revoke", "app") == "app was revoked before\n"
    shown = json.loads(certs(directory, "show", "--json"))
    assert [(e["name"], e["state"]) for e in shown if e["name"] == "app"] == [
        ("app", "revoked")
    ] * 2
    (other,) = [each for each in shown if each["name"] == "other"]
    assert other["state"] == "valid"
    certs(directory, "revoke", other["serial"])
    crl = openssl("crl", "-in", str(directory / "crl.pem"), "-noout", "-text")
    assert crl.count("Serial Number:") == 3
    checked = ("-crl_check", "-CRLfile", str(directory / "crl.pem"))
    done = subprocess.run(
        ["openssl", "verify", *checked, "-CAfile", str(directory / "ca.pem"),
         str(directory / "app.pem")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "certificate revoked" in done.stdout + done.stderr


def test_a_file_of_anybodys_is_shown(directory: Path, tmp_path: Path) -> None:
    certs(directory, "issue", "--broker", "1", "--host", "k.example")
    output = run("certs", "show", str(directory / "broker-1.pem"))[1]
    assert "k.example" in output
    key, file = str(tmp_path / "x.key"), tmp_path / "x.pem"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", key, "-out", str(file), "-subj", "/O=Somebody", "-days", "3")  # fmt: skip
    assert "O=Somebody" in run("certs", "show", str(file))[1]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["issue"], 2, "for --broker ID or for --user NAME"),
        (["issue", "--broker", "1", "--user", "a"], 2, "for --broker ID or for --user NAME"),
        (["issue", "--user", "a", "--host", "b"], 2, "--host goes with --broker"),
        (["issue", "--user", "../a"], 2, "must begin with a letter"),
        (["issue", "--user", "broker-1"], 2, "must begin with a letter"),
        (["issue", "--user", "ca"], 2, "must begin with a letter"),
        (["issue", "--broker", "1", "--host", "ä.example"], 2, "neither an address nor a name"),
        (["issue", "--broker", "-1"], 2, "not in the range"),
        (["renew", "nobody"], 1, "no certificate was issued to 'nobody'"),
        (["revoke", "nobody"], 1, "no certificate of 'nobody'"),
        (["init"], 1, "holds a certificate authority already"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_what_cannot_be_done_is_said(
    directory: Path, words: list[str], code: int, sentence: str
) -> None:
    found, errors = fails(directory, *words)
    assert (found, sentence in errors) == (code, True), errors


def test_without_an_authority_the_way_to_one_is_said(tmp_path: Path) -> None:
    for words in (["issue", "--broker", "1"], ["renew", "a"], ["revoke", "a"], ["show"]):
        code, errors = fails(tmp_path, *words)
        assert code == 1
        assert "`kafkaesque certs init` makes one" in errors


def test_an_authority_of_a_kind_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    (tmp_path / "ca.key").write_text("x")
    with pytest.raises(ConfigError, match="cannot be read"):
        Authority(tmp_path)


def test_a_list_with_the_authoritys_name_that_another_has_signed_is_refused(
    directory: Path, tmp_path: Path
) -> None:
    """Of the same name, which is all that an attacker needs to know."""
    other = Authority.create(tmp_path / "other", "a cluster/1")
    certs(directory, "issue", "--broker", "1")
    settings = TlsSettings(
        name="tls",
        setting="x",
        certificate=directory / "broker-1.pem",
        key=directory / "broker-1.key",
        ca=directory / "ca.pem",
        crl=other.directory / "crl.pem",
        client_auth=ClientAuth.REQUIRED,
    )
    with pytest.raises(ConfigError, match="signed by none of the authorities"):
        load_tls(settings)
    assert x509.load_pem_x509_crl((directory / "crl.pem").read_bytes()).issuer == (
        x509.load_pem_x509_crl(settings.crl.read_bytes() if settings.crl else b"").issuer
    )
