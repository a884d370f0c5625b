"""Certificates for tests, as `kafkaesque certs` makes them, and those that it would never make."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kafkaesque.runtime.network import RealNetwork
from kafkaesque.runtime.tls_contexts import TlsContext
from kafkaesque.server.authority import Authority
from kafkaesque.server.certificates import load_tls
from kafkaesque.server.tls_settings import ClientAuth, TlsSettings

CLUSTER_ID = "a-cluster-of-the-suite"
HOSTS = ("localhost", "127.0.0.1")


class TestAuthority:
    """An authority with certificates for brokers 1 to 3 and the user app."""

    __test__ = False

    def __init__(self, directory: Path, cluster_id: str = CLUSTER_ID) -> None:
        self.authority = Authority.create(directory, cluster_id)
        self.directory = directory
        for node in (1, 2, 3):
            self.authority.issue_broker(node, HOSTS)
        self.authority.issue_user("app")

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    def certificate(self, name: str) -> Path:
        return self.directory / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    def settings(self, name: str = "broker-1", **changes: Any) -> TlsSettings:
        made = TlsSettings(
            name="tls",
            setting="the [[listener]] tls",
            certificate=self.certificate(name),
            key=self.key(name),
            ca=self.ca,
            hosts=("127.0.0.1",),
        )
        return replace(made, **changes)

    def context(self, client_auth: ClientAuth = ClientAuth.NONE, **changes: Any) -> TlsContext:
        return load_tls(self.settings(client_auth=client_auth, **changes)).context

    def teach(self, network: RealNetwork, client_auth: ClientAuth = ClientAuth.NONE) -> None:
        """Have a network speak TLS under the name `tls`."""
        network.use_tls("tls", self.context(client_auth))

    def client(
        self, user: str | None = None, *, newest: ssl.TLSVersion | None = None
    ) -> ssl.SSLContext:
        """Return the standard library's context for a client, as strict as it can be."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        # To be cut off is no end.
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        if user is not None:
            context.load_cert_chain(self.certificate(user), self.key(user))
        if newest is not None:
            context.maximum_version = newest
        return context

    def forge(
        self,
        name: str,
        *,
        uris: tuple[str, ...] = (),
        hosts: tuple[str, ...] = (),
        lasts: dt.timedelta = dt.timedelta(days=1),
        purposes: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.CLIENT_AUTH,),
        common_name: str | None = None,
    ) -> None:
        """Write NAME.pem and NAME.key of the authority's with anything in it."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.load_pem_x509_certificate(self.ca.read_bytes())
        signer = serialization.load_pem_private_key((self.directory / "ca.key").read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        now = dt.datetime.now(dt.UTC)
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(each) for each in uris]
        names += [x509.DNSName(each) for each in hosts]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name or name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=2))
            .not_valid_after(now + lasts)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .add_extension(x509.ExtendedKeyUsage(purposes), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        made = builder.sign(signer, hashes.SHA256())
        self.certificate(name).write_bytes(made.public_bytes(serialization.Encoding.PEM))
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self.key(name).write_bytes(private)
        self.key(name).chmod(0o600)
