"""TLS: whom to trust, and what to show, as files."""

import os
import ssl
from dataclasses import dataclass

from kafkaesque.client.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files in PEM form."""

    #: Certificates of the authorities that are trusted; none: those of the system.
    ca: str | os.PathLike[str] | None = None
    #: What the client shows to a broker that wants a certificate, and its key.
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None

    def context(self) -> ssl.SSLContext:
        """Read the files.

        Raises:
            AuthorityUnreadable, CertificateUnreadable: they are not what they should be.
        """
        try:
            made = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise AuthorityUnreadable(
                f"{self.ca} holds no certificates: {_reason(error)}"
            ) from None
        if self.certificate:
            try:
                made.load_cert_chain(self.certificate, self.key or None)
            except (OSError, ssl.SSLError) as error:
                raise CertificateUnreadable(
                    f"{self.certificate} and {self.key or self.certificate} are not a certificate "
                    f"and its key: {_reason(error)}"
                ) from None
        return made

    def library_settings(self) -> dict[str, str]:
        """Return what librdkafka has to be told."""
        settings = {"security.protocol": "ssl"}
        if self.ca:
            settings["ssl.ca.location"] = str(self.ca)
        if self.certificate:
            settings["ssl.certificate.location"] = str(self.certificate)
            settings["ssl.key.location"] = str(self.key or "")
        return settings


class AuthorityUnreadable(InvalidArgument):
    """The file of authorities holds no certificates."""


class CertificateUnreadable(InvalidArgument):
    """The files are not a certificate and its key."""


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return (error.strerror or str(error)).lower()
