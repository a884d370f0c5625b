"""A relay before a broker that ends TLS and asks for SASL, and the certificates that it shows."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

from kafkaesque.protocols.kafka.api import ApiKey, read_request_header
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_request, write_response
from kafkaesque.protocols.kafka.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kafkaesque.protocols.kafka.messages.sasl_handshake_response import SaslHandshakeResponse

START_TIMEOUT_S = 90.0
SALT = b"sixteen bytes it"
ITERATIONS = 4096

Respond = Callable[[bytes, int], Awaitable[None]]


class Relay:
    """Continues connections to `port` of 127.0.0.1, once a client has shown who it is."""

    def __init__(
        self,
        target_port: int,
        *,
        host: str,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        users: Mapping[str, str] | None = None,
        mechanism: str = "PLAIN",
        is_impostor: bool = False,
    ) -> None:
        """`users` with their passwords; an impostor accepts all of them, and knows none."""
        self._target_port = target_port
        self._where = (host, port)
        self._tls = tls
        self._users = users
        self._mechanism = mechanism
        self._is_impostor = is_impostor
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run)
        self._transports: set[asyncio.WriteTransport] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.address = ""
        #: How many connections have been continued.
        self.continued = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S):
            raise TimeoutError("the relay does not listen")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        host, port = self._where
        server = await asyncio.start_server(self._on_connection, host, port, ssl=self._tls)
        async with server:
            self.address = f"{host}:{server.sockets[0].getsockname()[1]}"
            self._started.set()
            await self._stop.wait()
        # Clients keep connections for what they will ask next.
        for transport in self._transports:
            transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._transports.add(writer.transport)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._serving.discard(task)
            # Whoever is closed is aborted no more: over TLS Python 3.11.2 fails there.
            self._transports.discard(writer.transport)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._users is not None and not await self._authenticate(reader, writer):
            return
        self.continued += 1
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, broker_writer))
                group.create_task(_pump(broker_reader, writer))
        except* OSError:
            pass
        finally:
            broker_writer.transport.abort()

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        handshake, answer = await _receive(reader, writer)
        is_known = handshake.mechanism == self._mechanism
        code = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer(SaslHandshakeResponse(code, [self._mechanism]))
        await writer.drain()
        if not is_known:
            return False
        message, answer = await _receive(reader, writer)
        said = bytes(message.auth_bytes)
        if self._mechanism == "PLAIN":
            _, name, password = said.decode().split("\0")
            proved = b"" if (self._users or {}).get(name) == password else None
        else:
            first = said.decode().removeprefix("n,,")
            name, nonce = (part[2:] for part in first.split(","))
            salt = base64.b64encode(SALT).decode()
            second = f"r={nonce}-of-the-server,s={salt},i={ITERATIONS}"
            answer(SaslAuthenticateResponse(auth_bytes=second.encode()))
            message, answer = await _receive(reader, writer)
            password = (self._users or {}).get(name, "")
            final = bytes(message.auth_bytes).decode()
            proved = check_proof(self._mechanism, password, first, second, final)
            if self._is_impostor:
                proved = b"v=" + base64.b64encode(b"what it made up")
        refusal = ErrorCode.SASL_AUTHENTICATION_FAILED if proved is None else ErrorCode.NONE
        answer(SaslAuthenticateResponse(refusal, "no", proved or b""))
        await writer.drain()
        return proved is not None


def check_proof(mechanism: str, password: str, first: str, second: str, final: str) -> bytes | None:
    """Return what the server says last, None where the proof is none (RFC 5802, section 3)."""
    name = "sha" + mechanism.rpartition("-")[2]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), SALT, ITERATIONS)
    without, _, proof = final.partition(",p=")
    signed = f"{first},{second},{without}".encode()
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    signature = hmac.digest(stored, signed, name)
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    if hashlib.new(name, key).digest() != stored:
        return None
    server = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    return b"v=" + base64.b64encode(server)


async def _receive(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[Any, Callable[[Any], None]]:
    """Return a request and what answers it."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = memoryview(await reader.readexactly(size))
    header = read_request_header(frame)
    if header.api_key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        raise ConnectionError("not authenticated yet")

    def answer(message: Any) -> None:
        key, version = header.api_key, header.api_version
        writer.write(write_response(key, version, header.correlation_id, message))

    return read_request(header, frame), answer


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


class Certificates:
    """An authority, a server's certificate for one address, and a client's with a locked key."""

    key_password = "open-sesame"

    def __init__(self, folder: Path, server_ip: str) -> None:
        self.authority = folder / "authority.pem"
        self._folder = folder
        key = folder / "authority.key"
        _openssl(*_NEW_KEY, "-x509", "-keyout", key, "-out", self.authority, "-subj", "/CN=all")
        self.server = self._sign("server", f"subjectAltName=IP:{server_ip}")
        self.client = self._sign("client", "keyUsage=digitalSignature")

    def server_context(self, *, wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server, password=self.key_password)
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority)
        return context

    def _sign(self, name: str, extension: str) -> Path:
        key, asked, done = (self._folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        subject = ("-subj", f"/CN={name}", "-addext", extension)
        _openssl(*_NEW_KEY, "-keyout", key, "-out", asked, *subject)
        signer = ("-CA", self.authority, "-CAkey", self._folder / "authority.key")
        copy = ("-CAcreateserial", "-copy_extensions", "copy", "-days", "2")
        _openssl("x509", "-req", "-in", asked, *signer, *copy, "-out", done)
        locked = self._folder / f"{name}.locked"
        lock = ("-topk8", "-v2", "aes-256-cbc", "-passout", f"pass:{self.key_password}")
        _openssl("pkcs8", "-in", key, "-out", locked, *lock)
        both = self._folder / f"{name}.pem"
        both.write_text(locked.read_text() + done.read_text())
        return both


_NEW_KEY = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)
