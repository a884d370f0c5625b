"""Ready configuration files for clients of one user of a secured cluster.

Each is written for one client, as that client reads it. They name the authority's file, and most of
them hold the password, which their clients do not read from a file: so all are for their owner's
eyes only.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkaesque.access.secret import Secret
from kafkaesque.cli import log_in, tls
from kafkaesque.cli.code_log_in import TOTP_VARIABLE
from kafkaesque.cli.private_file import write_private
from kafkaesque.cli.session_file import FILE_VARIABLE

MECHANISM: Final = "SCRAM-SHA-512"
#: Pipelines find their credentials by it.
SPARK_VARIABLE: Final = "KAFKAESQUE_SPARK_OPTIONS"
_HEAD: Final = "Written by `kafkaesque up --secure` at every start."
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"

_PYTHON: Final = '''\
# {head}
"""How {user} reaches the cluster with {client}.

    import sys
    sys.path.insert(0, "{directory}")
    import {module}
    {example}
"""

import ssl

SETTINGS = {{
    "bootstrap_servers": {servers},
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": {mechanism},
    "sasl_plain_username": {user_text},
    "sasl_plain_password": {password},
    "ssl_context": ssl.create_default_context(cafile={ca}),
}}
'''

_KAFKAJS: Final = """\
// {head}
// const {{ Kafka }} = require('kafkajs')
// const kafka = new Kafka(require({path}))
const fs = require('fs')

module.exports = {{
  clientId: {user_text},
  brokers: {servers},
  ssl: {{ ca: [fs.readFileSync({ca}, 'utf-8')] }},
  sasl: {{ mechanism: {mechanism}, username: {user_text}, password: {password} }},
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientUser:
    """A user, as clients have to know it."""

    name: str
    password: Secret
    #: Its file has the same password and nothing else.
    password_file: Path
    #: The authority's certificate.
    ca: Path
    bootstrap_servers: str
    #: The admin port of a broker; empty: none has one.
    admin: str = ""
    #: The file of the second factor; None: the user has none.
    totp_file: Path | None = None

    @property
    def secret(self) -> str:
        """The password, to be written down."""
        return self.password.reveal().decode()


def write_client_files(directory: Path, user: ClientUser) -> list[Path]:
    """Write all of a user's files, over those that are there; return them.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    written = []
    for name, text in _contents(directory, user).items():
        path = directory / name
        write_private(path, text.encode())
        written.append(path)
    return written


def _contents(directory: Path, user: ClientUser) -> Mapping[str, str]:
    name = user.name
    if user.totp_file is not None:
        # No client of Kafka can show a code: a session or a token logs in for this user.
        return {f"{name}.env": _environment(directory, user)}
    return {
        f"{name}.env": _environment(directory, user),
        f"{name}.librdkafka.conf": _librdkafka(user),
        f"{name}.java.properties": _java(user),
        f"{name}_aiokafka.py": _python(
            directory, user, "aiokafka", "producer = aiokafka.AIOKafkaProducer(**{module}.SETTINGS)"
        ),
        f"{name}_kafka_python.py": _python(
            directory, user, "kafka-python", "producer = kafka.KafkaProducer(**{module}.SETTINGS)"
        ),
        f"{name}_kafkajs.js": _kafkajs(directory, user),
        f"{name}_spark.json": json.dumps(_spark(user), indent=2) + "\n",
    }


def write_cluster_file(directory: Path, bootstrap_servers: str, admin: str, ca: Path) -> Path:
    """Write where the cluster is, and no user: for people who log in themselves.

    Raises:
        OSError: the directory cannot be written.
    """
    lines = [
        f"# {_HEAD}",
        "# Then: kafkaesque login NAME",
        *_exports(_places(bootstrap_servers, admin, ca)),
        f"unset {log_in.USER_VARIABLE} {log_in.PASSWORD_VARIABLE} {log_in.CONFIG_VARIABLE} "
        f"{TOTP_VARIABLE} {FILE_VARIABLE}",
    ]
    path = directory / "cluster.env"
    write_private(path, ("\n".join(lines) + "\n").encode())
    return path


def _environment(directory: Path, user: ClientUser) -> str:
    values = {
        **_places(user.bootstrap_servers, user.admin, user.ca),
        log_in.USER_VARIABLE: user.name,
        log_in.PASSWORD_VARIABLE: str(user.password_file),
    }
    if user.totp_file is None:
        values[SPARK_VARIABLE] = str(directory / f"{user.name}_spark.json")
    else:
        values[TOTP_VARIABLE] = str(user.totp_file)
        # Its own, so that it does not end a session that somebody has at another cluster.
        values[FILE_VARIABLE] = str(directory / f"{user.name}.session.json")
    return "\n".join([f"# {_HEAD}", *_exports(values)]) + "\n"


def _places(bootstrap_servers: str, admin: str, ca: Path) -> dict[str, str]:
    where = {"KAFKAESQUE_BOOTSTRAP_SERVER": bootstrap_servers, tls.CA: str(ca)}
    return {**where, "KAFKAESQUE_ADMIN": admin} if admin else where


def _exports(values: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in values.items()]


def _librdkafka(user: ClientUser) -> str:
    """Return it for `kcat -F`, and for every client that is made of librdkafka."""
    values = {
        "bootstrap.servers": user.bootstrap_servers,
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(user.ca),
        "sasl.mechanisms": MECHANISM,
        "sasl.username": user.name,
        "sasl.password": user.secret,
    }
    return f"# {_HEAD}\n" + "".join(f"{name}={value}\n" for name, value in values.items())


def _jaas(user: ClientUser) -> str:
    return f'{_SCRAM_MODULE} required username="{user.name}" password="{user.secret}";'


def _java(user: ClientUser) -> str:
    values = {
        "bootstrap.servers": user.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(user.ca),
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": _jaas(user),
    }
    return f"# {_HEAD}\n" + "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _escaped(value: str) -> str:
    """Return a value as java.util.Properties reads it."""
    units = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)


def _python(directory: Path, user: ClientUser, client: str, example: str) -> str:
    module = f"{user.name}_{client.replace('-', '_')}"
    return _PYTHON.format(
        head=_HEAD,
        user=user.name,
        client=client,
        directory=directory,
        module=module,
        example=example.format(module=module),
        servers=repr(user.bootstrap_servers),
        mechanism=repr(MECHANISM),
        user_text=repr(user.name),
        password=repr(user.secret),
        ca=repr(str(user.ca)),
    )


def _kafkajs(directory: Path, user: ClientUser) -> str:
    return _KAFKAJS.format(
        head=_HEAD,
        path=json.dumps(str(directory / f"{user.name}_kafkajs.js")),
        servers=json.dumps(user.bootstrap_servers.split(",")),
        mechanism=json.dumps(MECHANISM.lower()),
        user_text=json.dumps(user.name),
        password=json.dumps(user.secret),
        ca=json.dumps(str(user.ca)),
    )


def _spark(user: ClientUser) -> dict[str, str]:
    """Return the connector's options."""
    return {
        "kafka.bootstrap.servers": user.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(user.ca),
        "kafka.sasl.mechanism": MECHANISM,
        "kafka.sasl.jaas.config": _jaas(user),
        # So that a rule for a prefix covers a sink's transactional ids.
        "transactionalIdPrefix": f"{user.name}-",
    }
