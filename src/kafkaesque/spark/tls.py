"""TLS around a socket: certificates in PEM, and what went wrong with them in one sentence."""

from __future__ import annotations

import re
import socket
import ssl
import tempfile
from pathlib import Path

from kafkaesque.spark.errors import NotAuthenticated, WrongOption
from kafkaesque.spark.security import TlsOptions

#: A larger file is none of certificates.
_PEM_BYTES_MAX = 16 << 20
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----(.*?)-----END \1-----", re.DOTALL)
_LINE_CHARACTERS = 64
#: X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH.
_OTHER_HOST = (62, 64)
#: What may be otherwise at the next attempt.
_PASSING_ALERTS = ("INTERNAL_ERROR", "USER_CANCELLED")


def start_tls(raw: socket.socket, host: str, address: str, options: TlsOptions) -> ssl.SSLSocket:
    """Return the socket with TLS around it; `raw` is closed where that fails.

    Raises:
        WrongOption: certificates or keys cannot be read.
        NotAuthenticated: it would be the same again.
        OSError: the connection broke, or no answer came within the socket's timeout.
    """
    try:
        return make_context(options).wrap_socket(raw, server_hostname=host)
    except (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError):
        raw.close()
        raise ConnectionError(
            "the connection was closed during the TLS handshake; is this a port for TLS?"
        ) from None
    except ssl.SSLError as error:
        raw.close()
        explain(error, address)
        raise
    except BaseException:
        raw.close()
        raise


def explain(error: ssl.SSLError, address: str) -> None:
    """Do nothing where an error may pass.

    Raises:
        NotAuthenticated: it would be the same again.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_HOST:
            raise NotAuthenticated(
                f"the certificate of the broker at {address} is for another host"
                f" ({error.verify_message.rstrip('.')})"
            ) from None
        raise NotAuthenticated(
            f"the certificate of the broker at {address} is not trusted"
            f" ({error.verify_message}): kafka.ssl.truststore.location or .certificates says"
            " which are"
        ) from None
    reason = error.reason or ""
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason:
        raise NotAuthenticated(
            f"the broker at {address} does not speak TLS there: kafka.security.protocol or the"
            " port is another"
        ) from None
    if "ALERT" in reason and not reason.endswith(_PASSING_ALERTS):
        hint = (
            ": it may want another certificate from the client, which kafka.ssl.keystore.location"
            " or .certificate.chain and .key says"
            if "CERT" in reason or "UNKNOWN_CA" in reason or "HANDSHAKE_FAILURE" in reason
            else ""
        )
        raise NotAuthenticated(f"the broker at {address} refuses TLS ({reason}){hint}") from None
    if "PROTOCOL" in reason and ("UNSUPPORTED" in reason or "NO_" in reason):
        raise NotAuthenticated(
            f"the broker at {address} speaks none of the TLS versions of"
            " kafka.ssl.enabled.protocols"
        ) from None


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """Return what a connection needs; files are read now, so that renewed ones count.

    Raises:
        WrongOption: certificates or keys cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = options.version_min, options.version_max
    context.check_hostname = options.checks_host
    # As in Java, a certificate that is trusted needs nobody above it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _trust(context, options)
    _show(context, options)
    return context


def _trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    if options.trusted is not None:
        name, text = "kafka.ssl.truststore.certificates", options.trusted
    elif options.trusted_path is not None:
        name = "kafka.ssl.truststore.location"
        text = _read(name, options.trusted_path)
    else:
        context.load_default_certs()
        return
    blocks = pem_blocks(text, "CERTIFICATE")
    try:
        context.load_verify_locations(cadata=blocks)
    except (ssl.SSLError, ValueError):
        blocks = ""
    if not blocks:
        raise WrongOption(
            f"the option {name} gives no certificates in PEM: {_place(name, options)}"
        )


def _show(context: ssl.SSLContext, options: TlsOptions) -> None:
    if options.own is not None:
        name, text = "kafka.ssl.keystore.key", options.own
    elif options.own_path is not None:
        name = "kafka.ssl.keystore.location"
        text = _read(name, options.own_path)
    else:
        return
    # The library reads keys from files only. An empty password, so that it asks no terminal.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem_blocks(text, ""))
        file.flush()
        try:
            context.load_cert_chain(file.name, password=options.key_password or "")
        except (ssl.SSLError, ValueError):
            password = "another" if options.key_password else "a"
            raise WrongOption(
                f"the option {name} gives no private key with its certificate in PEM, or the key"
                f" needs {password} kafka.ssl.key.password: {_place(name, options)}"
            ) from None


def pem_blocks(text: str, kind: str) -> str:
    """Return the blocks of a PEM text that are of a kind, in lines, even if they were in one."""
    found: list[str] = []
    for label, body in _BLOCK.findall(text):
        if kind not in label:
            continue
        if ":" not in body:
            packed = "".join(body.split())
            lines = range(0, len(packed), _LINE_CHARACTERS)
            body = "\n".join(["", *(packed[at : at + _LINE_CHARACTERS] for at in lines), ""])
        found.append(f"-----BEGIN {label}-----{body}-----END {label}-----\n")
    return "".join(found)


def _read(name: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_PEM_BYTES_MAX).decode("latin-1")
    except OSError as error:
        raise WrongOption(
            f"the option {name} names a file that cannot be read on {socket.gethostname()}:"
            f" {path} ({error.strerror})"
        ) from None


def _place(name: str, options: TlsOptions) -> str:
    if not name.endswith("location"):
        return "it is to begin with -----BEGIN"
    path = options.own_path if "keystore" in name else options.trusted_path
    return f"{path} on {socket.gethostname()}"
