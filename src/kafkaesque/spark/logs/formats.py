"""What lines look like: regular expressions of Java, each of which takes a line apart in one pass.

Sources: RFC 3164 section 4.1, RFC 5424 section 6, Apache's and nginx's common and combined log
formats, dpkg's log. Repetitions are possessive wherever a line decides their length: a hostile line
costs no more time than a long one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS = WEB, SYSLOG, DPKG = "web", "syslog", "dpkg"

#: What lines are taken apart into; each format has some of them.
FIELDS = (
    *("time", "host", "program", "pid", "priority", "message"),
    *("msgid", "structured"),
    *("client", "user", "request", "status", "bytes", "referrer", "agent", "extra"),
    *("action", "state", "package", "version", "previous"),
)

_QUOTED = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_BSD = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d"
_SECONDS = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_CHANGES = "install|upgrade|configure|trigproc|remove|purge|disappear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One form of a line."""

    name: str
    kind: str
    #: For people: "a line that begins like ...".
    title: str
    #: How lines of this form begin, as far as it takes to tell them from all others.
    beginning: str
    #: A whole line; its groups are named.
    pattern: str
    #: By the name of a field what it is made of, in groups; the others have the groups' names.
    made_of: Mapping[str, str]

    def replacement(self, separator: str) -> str:
        """Return what Java replaces a line by to get all FIELDS, in their order."""
        groups = {name for name in FIELDS if f"(?<{name}>" in self.pattern}
        plain = {name: f"${{{name}}}" for name in groups}
        return separator.join({**plain, **self.made_of}.get(name, "") for name in FIELDS)


FORMATS = (
    Format(
        name="rfc5424",
        kind=SYSLOG,
        title="syslog (RFC 5424)",
        beginning=r"^<\d{1,5}>\d{1,2} ",
        pattern=rf"(?s)^<(?<priority>\d{{1,5}})>1 (?<time>-|{_ISO}) (?<host>\S{{1,255}})"
        r" (?<program>\S{1,48}) (?<pid>\S{1,128}) (?<msgid>\S{1,32})"
        rf' (?<structured>-|(?:\[[^\s\]="]++(?: [^\s\]="]++="{_QUOTED}")*+\])++)'
        "(?: \ufeff?(?<message>.*))?\\z",
        made_of={},
    ),
    Format(
        name="rfc3164",
        kind=SYSLOG,
        title="syslog (RFC 3164)",
        beginning=rf"^(?:<\d{{1,5}}>|(?:{_BSD}|{_ISO}) )",
        pattern=rf"(?s)^(?:<(?<priority>\d{{1,5}})>)?(?<time>{_BSD}|{_ISO}) (?<host>\S++)"
        r" (?:(?<program>[^\s\[\]:]++)(?:\[(?<pid>[^\]]*+)\])?: ?)?(?<message>.*)\z",
        made_of={},
    ),
    Format(
        name="dpkg",
        kind=DPKG,
        title="dpkg",
        beginning=rf"^{_SECONDS} (?:status|startup|conffile|{_CHANGES}) ",
        pattern=rf"^(?<time>{_SECONDS}) (?:"
        r"(?<status1>status) (?<state>\S++) (?<package1>\S++) (?<version1>\S++)"
        rf"|(?<change>{_CHANGES}) (?<package2>\S++) (?<previous>\S++) (?<version2>\S++)"
        r"|(?<startup>startup) (?<what>\S++ \S++)"
        r"|(?<conffile>conffile) (?<path>\S++) (?<decision>install|keep))\z",
        made_of={
            "program": "dpkg",
            "action": "${status1}${change}${startup}${conffile}",
            "state": "${state}${what}${decision}",
            "package": "${package1}${package2}${path}",
            "version": "${version1}${version2}",
            "status": "",
        },
    ),
    Format(
        name="web",
        kind=WEB,
        title="a web server (common or combined log format)",
        beginning=r"^\S++ \S++ \S++ \[",
        pattern=r"^(?<client>\S++) \S++ (?<user>\S++)"
        r" \[(?<time>\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]"
        rf' "(?<request>{_QUOTED})" (?<status>\d{{3}}) (?<bytes>\d{{1,18}}|-)'
        rf'(?: "(?<referrer>{_QUOTED})" "(?<agent>{_QUOTED})"(?: (?<extra>.*))?)?\z',
        made_of={"message": "${request}"},
    ),
)

#: By number, as in RFC 5424.
SEVERITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
