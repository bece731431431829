"""What a published crate of S2 says of the interface, as plain facts that can be compared.

The sources are read by their form, not compiled: messages of the `.proto` file, paths with methods
and statuses of the server, members of the JSON types, headers. What a crate does not have is empty.
"""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

CRATE_BYTES_MAX: Final = 64 * 1024 * 1024
FILE_BYTES_MAX: Final = 8 * 1024 * 1024

Facts = dict[str, dict[str, str]]
"""Of each thing (`message AppendInput`, `GET /basins`) its parts, with what is said of each."""


class CrateError(Exception):
    """The archive is none that this can read."""


@dataclass(frozen=True, slots=True)
class Crate:
    """A published crate: digest of the archive, and its files by their paths within it."""

    name: str
    version: str
    digest: str
    files: dict[str, str] = field(repr=False)

    @classmethod
    def open(cls, name: str, path: Path) -> Crate:
        """Read `<name>-<version>.crate`. Raises CrateError, OSError."""
        if path.stat().st_size > CRATE_BYTES_MAX:
            raise CrateError(f"{path} has more than {CRATE_BYTES_MAX} bytes")
        data = path.read_bytes()
        files: dict[str, str] = {}
        try:
            with tarfile.open(path, "r:gz") as archive:
                for member in archive:
                    inner = member.name.partition("/")[2]
                    if not member.isfile() or not inner.endswith((".rs", ".proto", ".md")):
                        continue
                    if member.size > FILE_BYTES_MAX:
                        raise CrateError(f"{path}: {inner} has {member.size} bytes")
                    found = archive.extractfile(member)
                    assert found is not None, "a file has a content"
                    files[inner] = found.read().decode(errors="replace")
        except (tarfile.TarError, EOFError) as cause:
            raise CrateError(f"{path} is no crate: {cause}") from cause
        version = path.name.removeprefix(f"{name}-").removesuffix(".crate")
        return cls(name, version, sha256(data).hexdigest(), files)

    def facts(self) -> Facts:
        """Return everything that is compared, in order of names."""
        found: Facts = {}
        for path, text in sorted(self.files.items()):
            if path.endswith(".proto"):
                found |= proto_facts(text)
            elif path.endswith(".rs") and not _is_aside(path):
                plain = _without_comments(text)
                if self.name in TYPES_OF:
                    found |= type_facts(plain)
                if self.name in HEADERS_OF:
                    _add_headers(found, plain)
        found |= path_facts(self.files)
        return dict(sorted(found.items()))

    def news(self, since: str) -> list[str]:
        """Return the lines of the changelog that are newer than version `since`."""
        lines: list[str] = []
        version = ""
        for line in self.files.get("CHANGELOG.md", "").splitlines():
            if heading := re.match(r"## \[([^]]+)\]", line):
                version = heading[1]
                if version == since:
                    break
            elif version and line.startswith("- "):
                lines.append(f"{version}: {line[2:]}")
        return lines


TYPES_OF: Final = frozenset({"s2-api", "s2-resource-spec"})
"""The crates whose types are what stands in JSON."""
HEADERS_OF: Final = frozenset({"s2-api", "s2-common"})


def _is_aside(path: str) -> bool:
    """Made of the `.proto` file, or none of the interface."""
    return "/proto/" in path or not path.startswith("src/")


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)^\s*//.*$", "", text)


def proto_facts(text: str) -> Facts:
    """Messages with their fields, and enumerations with their values."""
    plain = re.sub(r"/\*.*?\*/", "", re.sub(r"//[^\n]*", "", text), flags=re.DOTALL)
    found: Facts = {}
    inside: list[str] = []
    for token in re.finditer(r"(message|enum|oneof)\s+(\w+)\s*\{|\}|([^;{}]+);", plain):
        kind, name, statement = token.groups()
        if kind is not None:
            inside.append(f"{kind} {name}")
            if kind != "oneof":
                found[_innermost(inside)] = {}
        elif statement is None:
            if inside:
                inside.pop()
        elif inside and (part := re.fullmatch(r"(.*?)(\w+)\s*=\s*(\d+)", _one_line(statement))):
            note = f" in {inside[-1]}" if inside[-1].startswith("oneof") else ""
            found[_innermost(inside)][part[2]] = f"{part[1]}= {part[3]}{note}"
    return found


def _innermost(inside: list[str]) -> str:
    """The message or enumeration, with those around it."""
    named = [each for each in inside if not each.startswith("oneof ")]
    kind = named[-1].split()[0]
    return f"{kind} " + ".".join(each.split()[1] for each in named)


def _one_line(text: str) -> str:
    return " ".join(text.split())


_BLOCK: Final = re.compile(r"pub (struct|enum) (\w+)(?:<[^>]*>)?\s*\{(.*?)\n\}", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r'#\[serde\((?:[^()"]|"[^"]*"|\([^)]*\))*\)\]')


def type_facts(text: str) -> Facts:
    """Public structures with their members and enumerations with their variants."""
    found: Facts = {}
    for kind, name, body in _BLOCK.findall(text):
        members: dict[str, str] = {}
        attributes: list[str] = []
        for line in body.splitlines():
            attributes += _ATTRIBUTE.findall(line)
            bare = _ATTRIBUTE.sub("", line).strip()
            pattern = r"pub (\w+): (.+?),?" if kind == "struct" else r"(\w+)(.*?),?"
            if bare.startswith("#") or not (part := re.fullmatch(pattern, bare)):
                continue
            members[part[1]] = _one_line(" ".join([*attributes, part[2]]))
            attributes = []
        found[f"{kind} {name}"] = members
    return found


def _add_headers(found: Facts, text: str) -> None:
    for name in re.findall(r'HeaderName::from_static\(\s*"([^"]+)"', text):
        found.setdefault("headers", {})[name] = "named"


_OPERATION: Final = re.compile(r"utoipa::path\((.*?)\n\)\)\]", re.DOTALL)


def path_facts(files: dict[str, str]) -> Facts:
    """Operations of the server: method and path, with parameters, body and statuses."""
    constants = _constants(files.get("src/handlers/v1/paths.rs", ""))
    found: Facts = {}
    for path, text in sorted(files.items()):
        if not path.startswith("src/handlers/"):
            continue
        for block in _OPERATION.findall(text):
            method = re.search(r"\b(get|put|post|patch|delete)\b,", block)
            place = re.search(r"path = super::paths::([\w:]+)", block)
            if method is None or place is None:
                continue
            where = constants.get(place[1], place[1])
            parts = {f"status {code}": _one_line(rest) for code, rest in _statuses(block)}
            if body := re.search(r"request_body = ([\w:<>]+)", block):
                parts["body"] = body[1]
            if parameters := re.search(r"params\(([^)]*)\)", block):
                parts["parameters"] = _one_line(parameters[1]).rstrip(", ")
            found[f"{method[1].upper()} {where}"] = parts
    return found


def _statuses(block: str) -> list[tuple[str, str]]:
    return [
        (code, (re.search(r"body = ([\w:<>]+)", rest) or ["", ""])[1])
        for code, rest in re.findall(r"\(status = (?:StatusCode::)?(\w+)([^)]*)\)", block)
    ]


_PATHS: Final = re.compile(
    r'pub mod (\w+) \{|pub const (\w+): &str = "([^"]*)"|^\s*\}', re.MULTILINE
)


def _constants(text: str) -> dict[str, str]:
    """Paths by their names, as `streams::records::READ`."""
    found: dict[str, str] = {}
    inside: list[str] = []
    for token in _PATHS.finditer(text):
        module, name, value = token.groups()
        if module is not None:
            inside.append(module)
        elif name is not None:
            found["::".join([*inside, name])] = value
        elif inside:
            inside.pop()
    return found
