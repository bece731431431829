"""The list of parts of a release (CycloneDX 1.6), from the locks that it is installed by."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Pin(NamedTuple):
    """One locked dependency, under its normalized name."""

    name: str
    version: str
    hashes: tuple[str, ...]


def pins(lock: str) -> list[Pin]:
    """Return what a lock names, in its order. Raises ValueError for a pin without a hash."""
    found: list[Pin] = []
    for part in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE):
        pin = _PIN.match(part)
        if pin is None:
            continue
        hashes = tuple(_HASH.findall(part))
        if not hashes:
            raise ValueError(f"{pin[1]} has no hash")
        found.append(Pin(re.sub(r"[-_.]+", "-", pin[1]).lower(), pin[2], hashes))
    return found


def bill_of_parts(version: str, locks: Iterable[Path], time: int) -> str:
    """Return the list as JSON. Nothing in it is of this machine or moment: its number is made of
    what it lists."""
    found = {pin for lock in locks for pin in pins(lock.read_text())}
    product = _component(Pin("svc-cluster", version, ()), ComponentType.APPLICATION)
    product.licenses.add(LicenseExpression("Apache-2.0"))
    bom = Bom(components=[_component(pin, ComponentType.LIBRARY) for pin in sorted(found)])
    bom.metadata.component = product
    bom.metadata.timestamp = datetime.fromtimestamp(time, UTC)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, repr((version, sorted(found))))
    bom.register_dependency(product, list(bom.components))
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _component(pin: Pin, kind: ComponentType) -> Component:
    url = PackageURL("pypi", name=pin.name, version=pin.version)
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in pin.hashes]
    # More than one: the wheels for each platform. The list names every one that may be installed.
    return Component(
        name=pin.name,
        version=pin.version,
        type=kind,
        purl=url,
        bom_ref=url.to_string(),
        hashes=hashes,
    )
