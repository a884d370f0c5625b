"""Certificates are tried before anybody meets them, and what does not fit is refused in words."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from kafkaesque.model.errors import ConfigError
from kafkaesque.server.certificates import load_all, load_tls
from kafkaesque.server.tls_settings import ClientAuth
from tests.certificates import CLUSTER_ID, TestAuthority

URI = f"kafkaesque://{CLUSTER_ID}/broker/1"
BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


def refused(authority: TestAuthority, name: str = "broker-1", **changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        load_tls(authority.settings(name, **changes))
    assert str(error.value).startswith("the [[listener]] tls: ")
    return str(error.value)


def test_what_fits_is_loaded_with_what_it_says(authority: TestAuthority) -> None:
    loaded = load_tls(authority.settings())
    assert loaded.certificate.uris == (URI,)
    assert loaded.certificate.dns_names == ("localhost",)
    assert loaded.certificate.addresses == ("127.0.0.1",)
    assert loaded.context.client is None
    loaded = load_tls(authority.settings(uri=URI, client_auth=ClientAuth.REQUIRED))
    assert loaded.context.client is not None


def test_the_key_of_another_certificate(authority: TestAuthority) -> None:
    said = refused(authority, key=authority.key("broker-2"))
    assert "broker-2.key is not that of the certificate in" in said


def test_files_that_are_not_there_or_nothing(authority: TestAuthority, tmp_path: Path) -> None:
    assert "No such file" in refused(authority, certificate=tmp_path / "none.pem")
    assert "No such file" in refused(authority, crl=tmp_path / "none.pem")
    junk = tmp_path / "junk.pem"
    junk.write_text("this is no certificate\n")
    assert "not a certificate and its key in PEM" in refused(authority, certificate=junk)
    auth = ClientAuth.REQUIRED
    assert "holds no certificates" in refused(authority, ca=junk, client_auth=auth)
    assert "holds no certificate of an authority" in refused(
        authority, ca=authority.certificate("app"), client_auth=auth
    )
    assert "holds no list of revoked" in refused(authority, crl=junk)
    assert "Is a directory" in refused(authority, ca=tmp_path)
    assert "is no file" in refused(authority, ca=Path("/dev/null"))


def test_a_key_that_others_may_read(authority: TestAuthority, tmp_path: Path) -> None:
    open_key = tmp_path / "open.key"
    open_key.write_bytes(authority.key("broker-1").read_bytes())
    open_key.chmod(0o644)
    assert f"chmod o= {open_key}" in refused(authority, key=open_key)


def test_an_encrypted_key_is_refused_and_nobody_is_asked(
    authority: TestAuthority, tmp_path: Path
) -> None:
    key = tmp_path / "locked.key"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(authority.key("broker-1"))]
    command += ["-out", str(key), "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    said = refused(authority, key=key)
    assert "is encrypted" in said
    assert "secret" not in said


def test_a_certificate_of_another_authority(authority: TestAuthority, other: TestAuthority) -> None:
    said = refused(other, ca=authority.ca)
    assert "unable to get local issuer" in said
    assert f"{authority.ca} does not hold its issuer" in said
    assert "put the certificates of its issuers behind it" in refused(other, ca=None)


def test_a_chain_that_ends_with_its_own_root_needs_no_other_trust(
    authority: TestAuthority, tmp_path: Path
) -> None:
    chain = tmp_path / "chain.pem"
    chain.write_bytes(authority.certificate("broker-1").read_bytes() + authority.ca.read_bytes())
    load_tls(authority.settings(certificate=chain, ca=None))


def test_a_name_that_is_not_in_it(authority: TestAuthority) -> None:
    said = refused(authority, hosts=("127.0.0.1", "kafka.example.org"))
    assert "is not for kafka.example.org, which others are told to connect to" in said
    load_tls(authority.settings(hosts=("localhost", "127.0.0.1")))


def test_what_has_expired_or_is_for_something_else(authority: TestAuthority) -> None:
    authority.forge("late", hosts=("localhost",), lasts=dt.timedelta(days=-1), purposes=BOTH)
    assert "has expired" in refused(authority, "late", hosts=("localhost",))
    assert "purpose" in refused(authority, "app", hosts=())
    client_only = refused(authority, "app", hosts=(), uri=URI, client_auth=ClientAuth.REQUIRED)
    assert "purpose" in client_only


def test_between_brokers_it_must_name_this_one(authority: TestAuthority) -> None:
    between = {"uri": URI, "client_auth": ClientAuth.REQUIRED}
    said = refused(authority, "broker-2", **between)
    assert f"must name {URI} as a URI" in said
    assert "it names kafkaesque://a-cluster-of-the-suite/broker/2" in said
    authority.forge("nobody", hosts=("localhost",), purposes=BOTH)
    assert "it names nobody" in refused(authority, "nobody", **between)
    authority.forge("server", uris=(URI,), purposes=(ExtendedKeyUsageOID.SERVER_AUTH,))
    refused(authority, "server", **between)


def test_a_list_of_revoked_ones_must_be_the_authoritys(
    tmp_path: Path, other: TestAuthority
) -> None:
    own = TestAuthority(tmp_path / "own")
    crl = own.directory / "crl.pem"
    assert load_tls(own.settings(crl=crl)).context.revoked == frozenset()
    (revoked,) = own.authority.revoke("app")
    context = load_tls(own.settings(crl=crl)).context
    assert context.revoked == {(f"CN=Kafkaesque CA,O={CLUSTER_ID}", revoked.serial)}
    assert "signed by none of the authorities" in refused(own, crl=other.directory / "crl.pem")
    assert "needs the ca" in refused(own, crl=crl, ca=None, certificate=_chain(own, tmp_path))
    own.authority.revoke("broker-1")
    assert "is revoked" in refused(own, crl=crl)


def _chain(authority: TestAuthority, directory: Path) -> Path:
    chain = directory / "chain.pem"
    chain.write_bytes(authority.certificate("broker-1").read_bytes() + authority.ca.read_bytes())
    return chain


def test_faults_of_several_are_said_at_once(authority: TestAuthority) -> None:
    wrong = authority.settings(key=authority.key("broker-2"))
    missing = authority.settings(ca=Path("/nowhere"))
    with pytest.raises(ConfigError) as error:
        load_all([authority.settings(), wrong, missing])
    assert len(str(error.value).splitlines()) == 2
