"""A cluster's own certificate authority: a directory with its key, and all that it has issued.

    ca.pem, ca.key      the authority; whoever has the key can be any broker and any user
    crl.pem             the certificates that are revoked
    broker-1.pem, .key  what is handed out, by name: the newest certificate and its key
    issued/SERIAL.pem   every certificate that was ever issued

Keys are P-256 and readable by their owner only. Certificates name a broker or a user by a URI (see
`env.certificate`), and carry key identifiers and usages as newer TLS libraries want them.
"""

import datetime as dt
import ipaddress
import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kafkaesque.env.certificate import broker_uri, user_uri
from kafkaesque.model.errors import ConfigError
from kafkaesque.runtime.peer_certificate import write_name

CA_DAYS: Final = 3_650
DAYS: Final = 365
#: Names of users, and of files: what needs no escape anywhere.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED: Final = ("ca", "crl")
#: Clocks of other machines may be behind by so much.
_SKEW: Final = dt.timedelta(minutes=5)
_PEM_LIST: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)
_BROKER: Final = re.compile(r"broker-([0-9]{1,10})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """One certificate that an authority has issued."""

    name: str
    serial: int
    uri: str
    hosts: tuple[str, ...]
    not_after: dt.datetime
    is_revoked: bool


class Authority:
    """One directory."""

    def __init__(self, directory: Path) -> None:
        """Open an authority.

        Raises:
            ConfigError: there is none in the directory, or it cannot be read.
        """
        self.directory: Final = directory
        try:
            self.certificate: Final = x509.load_pem_x509_certificate(self._path("ca.pem"))
            key = serialization.load_pem_private_key(self._path("ca.key"), None)
        except FileNotFoundError:
            raise ConfigError(
                f"{directory} holds no certificate authority: `kafkaesque certs init` makes one"
            ) from None
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"the authority in {directory} cannot be read: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{directory}/ca.key is no key that this command made")
        self._key: Final = key

    @classmethod
    def create(cls, directory: Path, cluster_id: str, days: int = CA_DAYS) -> Self:
        """Make an authority.

        Raises:
            ConfigError: there is one already, or the directory cannot be written.
        """
        if (directory / "ca.key").exists() or (directory / "ca.pem").exists():
            raise ConfigError(f"{directory} holds a certificate authority already")
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, cluster_id),
                x509.NameAttribute(NameOID.COMMON_NAME, "Kafkaesque CA"),
            ]
        )
        builder = _builder(name, name, key.public_key(), key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(is_authority=True), True)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "issued").mkdir(exist_ok=True)
            _write(directory / "ca.key", _key_pem(key), 0o600)
            _write(directory / "ca.pem", _pem(builder.sign(key, hashes.SHA256())), 0o644)
            made = cls(directory)
            made._write_revoked([])
        except OSError as error:
            raise ConfigError(f"{directory} cannot be written: {error.strerror}") from None
        return made

    @property
    def cluster_id(self) -> str:
        """The cluster whose brokers and users it names."""
        found = self.certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        return str(found[0].value)

    def issue_broker(self, node: int, hosts: Sequence[str], days: int = DAYS) -> Issued:
        """Issue a certificate for a broker: it may be dialled by these names, and dial others.

        Raises:
            ConfigError: it cannot be issued.
        """
        uri = broker_uri(self.cluster_id, node)
        return self._issue(f"broker-{node}", uri, hosts, days, is_server=True)

    def issue_user(self, name: str, days: int = DAYS) -> Issued:
        """Issue a certificate for a user: it may dial, and nobody should take it for a server.

        Raises:
            ConfigError: it cannot be issued.
        """
        if _NAME.fullmatch(name) is None or name in _RESERVED or _BROKER.fullmatch(name):
            raise ConfigError(
                f"user {name!r} must begin with a letter or digit, have at most 64 letters, "
                "digits, '.', '_' and '-', and be none of ca, crl and broker-NUMBER"
            )
        return self._issue(name, user_uri(self.cluster_id, name), (), days, is_server=False)

    def renew(self, name: str, days: int = DAYS) -> Issued:
        """Issue the like of the newest certificate of a name, with a new key.

        Raises:
            ConfigError: none was issued to that name.
        """
        newest = self._newest(name)
        is_server = _BROKER.fullmatch(name) is not None
        return self._issue(name, newest.uri, newest.hosts, days, is_server=is_server)

    def revoke(self, name_or_serial: str) -> list[Issued]:
        """Revoke all certificates of a name that have not expired, or the one of a serial number.

        Returns those that were not revoked before.

        Raises:
            ConfigError: there is none of that name or number.
        """
        now = dt.datetime.now(dt.UTC)
        found = [
            each
            for each in self.issued()
            if (each.name == name_or_serial and each.not_after > now)
            or f"{each.serial:x}" == name_or_serial.lower()
        ]
        if not found:
            raise ConfigError(
                f"no certificate of {name_or_serial!r} is there to revoke: "
                "`kafkaesque certs show` lists them"
            )
        fresh = [each for each in found if not each.is_revoked]
        old = list(x509.load_pem_x509_crl(self._path("crl.pem")))
        try:
            self._write_revoked([*old, *(_revoked(each.serial, now) for each in fresh)])
        except OSError as error:
            raise self._unwritable(error) from None
        return fresh

    def issued(self) -> list[Issued]:
        """Return all that was issued, the oldest first."""
        try:
            revoked = read_revoked(self.directory / "crl.pem", self.directory / "ca.pem")
            # Dates of certificates count in seconds, and copies of files may have lost theirs.
            paths = sorted(
                (self.directory / "issued").glob("*.pem"), key=lambda each: each.stat().st_mtime_ns
            )
            found = [x509.load_pem_x509_certificate(path.read_bytes()) for path in paths]
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.directory} cannot be read: {error}") from None
        found.sort(key=lambda each: each.not_valid_before_utc)
        return [_issued(each, {serial for _, serial in revoked}) for each in found]

    def _newest(self, name: str) -> Issued:
        found = [each for each in self.issued() if each.name == name]
        if not found:
            raise ConfigError(
                f"no certificate was issued to {name!r}: `kafkaesque certs show` lists them"
            )
        return found[-1]

    def _issue(
        self, name: str, uri: str, hosts: Sequence[str], days: int, *, is_server: bool
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = self.certificate.subject
        builder = _builder(subject, issuer, key.public_key(), self._key.public_key(), days)
        alternatives = [x509.UniformResourceIdentifier(uri), *map(_host, hosts)]
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if is_server:
            purposes.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(is_authority=False), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), False)
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
        made = builder.sign(self._key, hashes.SHA256())
        issued = self.directory / "issued"
        try:
            issued.mkdir(exist_ok=True)
            _write(issued / f"{made.serial_number:040x}.pem", _pem(made), 0o644)
            _write(self.directory / f"{name}.key", _key_pem(key), 0o600)
            _write(self.directory / f"{name}.pem", _pem(made), 0o644)
        except OSError as error:
            raise self._unwritable(error) from None
        return _issued(made, set())

    def _write_revoked(self, revoked: Sequence[x509.RevokedCertificate]) -> None:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now)
            .next_update(self.certificate.not_valid_after_utc)
            .add_extension(x509.CRLNumber(int(now.timestamp() * 1000)), False)
        )
        for each in revoked:
            builder = builder.add_revoked_certificate(each)
        made = builder.sign(self._key, hashes.SHA256())
        _write(self.directory / "crl.pem", made.public_bytes(serialization.Encoding.PEM), 0o644)

    def _path(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(f"{self.directory} cannot be written: {error.strerror}")


def read_issued(path: Path) -> list[Issued]:
    """Return what the certificates in a file say, whoever has issued them.

    Raises:
        ConfigError: there are none.
    """
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path} holds no certificates in PEM") from None
    return [_issued(each, set()) for each in found]


def read_revoked(crl: Path, authorities: Path) -> frozenset[tuple[str, int]]:
    """Return issuer and serial number of what is revoked, as one of the authorities has signed it.

    A file may hold several lists. One that is older than it should be counts as it is: what is
    revoked stays so.

    Raises:
        ConfigError: a list cannot be read, or is signed by none of the authorities.
    """
    try:
        lists = [x509.load_pem_x509_crl(each) for each in _PEM_LIST.findall(crl.read_bytes())]
        trusted = x509.load_pem_x509_certificates(authorities.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{crl} or {authorities} is not PEM: {error}") from None
    if not lists:
        raise ConfigError(f"{crl} holds no list of revoked certificates in PEM")
    revoked: set[tuple[str, int]] = set()
    for found in lists:
        signer = next((each for each in trusted if _has_signed(each, found)), None)
        if signer is None:
            raise ConfigError(f"{crl} is signed by none of the authorities in {authorities}")
        issuer = _name_of(signer)
        revoked.update((issuer, each.serial_number) for each in found)
    return frozenset(revoked)


def _name_of(authority: x509.Certificate) -> str:
    """Return the name of an authority as certificates that it issued have it when they come in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=_pem(authority).decode())
    found: Any = context.get_ca_certs()[0]["subject"]
    return write_name(found)


def _has_signed(authority: x509.Certificate, crl: x509.CertificateRevocationList) -> bool:
    key = authority.public_key()
    try:
        return authority.subject == crl.issuer and crl.is_signature_valid(key)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _issued(made: x509.Certificate, revoked: set[int]) -> Issued:
    uris: list[str] = []
    hosts: list[str] = []
    try:
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        pass
    else:
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        hosts = names.get_values_for_type(x509.DNSName)
        hosts += [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    common = made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Issued(
        name=str(common[0].value) if common else made.subject.rfc4514_string(),
        serial=made.serial_number,
        uri=uris[0] if uris else "",
        hosts=tuple(hosts),
        not_after=made.not_valid_after_utc,
        is_revoked=made.serial_number in revoked,
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:
        raise ConfigError(f"{name!r} is neither an address nor a name of a machine") from None


def _revoked(serial: int, now: dt.datetime) -> x509.RevokedCertificate:
    builder = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
    return builder.build()


def _pem(made: x509.Certificate) -> bytes:
    return made.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file whole or not at all; it never has wider permissions than these."""
    half = path.with_name(f".{path.name}.new")
    half.unlink(missing_ok=True)
    fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
