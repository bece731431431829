"""A backup as release 0.1.0 made it: every later one reads it."""

from __future__ import annotations

import asyncio
import base64
from typing import Final

from svc_cluster.backup.backup_manifest import Manifest
from svc_cluster.stream import keys
from svc_cluster.stream.basin_state import BasinState
from tests.unit.backup.scene import Scene

KEPT: Final = {
    "chunks/b4e40494f61708526b853bc31d226c91718c1bbc": (
        "c3ZjYmt1cAEAU83OK0T++D1uwGZvwxTeWADBBO/xKW5SpQ9VnIpmvrkotS/9IFx9AQDgAAAAEQAAAEMEAAEA"
        "AQIAAAAHJxAAcmVjb3JkcwgAYMMKAXANcACssmQGRhtAFw=="
    ),
    "manifests/0000000001": (
        "c3ZjYmt1cAEARkJR5qfLS+iKkdcHH9ypzEYf3zTCB+vvu2aw9tER+U8otS/9YCIBZQoA1pRIM2BJqwMwagZs"
        "UYD7+N83bUeK7dLqeOVT26Q42W4p+sukLZnSEASHsnKLpPQAbFAU4MwaCTkAPgA5ANADf/bJrcaICF0j6/ex"
        "SYq0UxibyLjH0Piemw82kuuGDjlUanrYukZ3wpgBWaxPCquy5TJlLZoxCFF7na6LJw6q+jwfS9fowiyrgChQ"
        "WBNflrR52AwOPmyLw/HeVvUo8LWqdAKBARUWFiyKsvBUdDlqv5bvT6BEyre1JLea8hS7va9B+EzoTaadfGRP"
        "JyN1HAnJJsZ2zY/k0TVTtoBPbNfyBUFBUCW4lS/4SgAY8K5qjQAUGBYladD+X6lMGpZmmPc4DcvnUJZSwqcb"
        "fz1pOw2d+MgGQg86xL18ETE0PlPe74EZtVvrvoQPADVDPDgMEHEoXpAJ4NIK8LXY4jIwfVKLHmJgDZqHayh3"
        "To3YLVE="
    ),
    "parts/14394287654d5dfbd3e2d74888af538a257300d4": (
        "c3ZjYmt1cAEAI3f2iQW5dGaPTZgqBFcuPIMRf62H7ZTina9uLnbOZBEotS/9YJkBbQ4AhhpePzBtlA7Dw1CD"
        "1wCGBPoxGPtpH/UpP5mSmH7Vr8f5oyHynnsvW7eTJve2q6qGgoKhYfFRkyEodoxWdq5tjU92CkkASABPAI5t"
        "dknMpLBUn+3blFoZ4uRaH6jCjVNmMLRrykjh5NA780G3/8PFXD83OfNaBMEs9wiy4Tiliyw1tT4SFaWrGbVX"
        "qPXDLMWAIAT/C7QOV4Paj+bx/Vha2Y4um9URt7QaLjKHM6KNxLCtpMsYhZ1Rx1bWDZdInK4YO27WcNzQjy0k"
        "8fVu5npmFIqwx7avhinvswItwCfeMYJCIyH5T4CDhMJjwsIlFB7UT+8oiNxDtC/O1zfEk16QPESb/I/8N7UJ"
        "PCk14D+A/6eTyUSZEnTlTMdGO9CgtIAj4uNCADnkBv63ncgYJm1zfKg3CZ7bk3vDHJfLzbFcZEv7jqBlVfBS"
        "YVQZ0EKhxMoCWhYXF8tCubhUYFQWTCWjUlHhijWZgGDszY8Dz83MjAEERfB8CPjf2XiJSCIggIIJDpIdgVKg"
        "0FEwhAMk2mVlWUBuzm5gmYlJwhpgLIAHvlEQgkgqDL47M7KIBPI+CdW6diUpSx4NmMVNhjWIOGYoD7szG5s/"
        "LRnNvOOEoE8="
    ),
    "parts/d8b216ec7ad1d66289855f681bd8781d0b39b744": (
        "c3ZjYmt1cAEAA/pwwPtNVs3lnJ9cIFovjUVARED0DnURgm5ztjfg+CUotS/9YOIA/QkA1tNDMmBFnAMApID9"
        "rWcU4jfy0Q/ByHpGbhUY35skaUgKJUwlLYWUPkgQKOLjhqyAMAXEEiJTNQAyADQAkhYxo2Rqwk2SY0tyMTqR"
        "lHeqnmm9h08uBT8TWb6vRZKNkl9crq4Lalzkd2HtE8Y9tLwhl4brGtk8fbO3Gb8E306Gvtlnj7y4C0tl5FL9"
        "b7E5OTPXaumxfut8SfZiq42a5Akfbx+uBwxbgieKIHRAVZ2qdjoz0m75breQzQ+lrt5XGIRsfL9zQ3U2wYm9"
        "977Ws7bWtY0tn+9PngKTuJbF/hQOk5KYgnSR0M62cTaOe4AqGBrA4K+lIAJVFTiQlkfjA1UgB4JDWmDj4yqu"
        "QFUDVDWiaB8AjBEAuBiCq4yYJeXXfFfCwDWlK0SDLlyA+oTX4yFwQstwjh7rEYrJaZhkT4hJBg=="
    ),
    "vault": (
        "eyJmb3JtYXQiOjEsInZhdWx0X2lkIjoiZmRjZjU5ZTRkZDFjMjQzYjEzMzZmMDMxMDYyNjRmZWQiLCJjbHVz"
        "dGVyX2lkIjoiY2x1c3Rlci1hIiwia2V5X2lkIjoiIn0="
    ),
}
"""Objects by their names; not sealed. They are never written anew."""


def test_a_kept_backup_is_read_and_restored() -> None:
    """By its manifest, its parts and its chunk, to the row: what was once a backup stays one."""
    scene = Scene(sealed=False)
    for name, data in KEPT.items():
        asyncio.run(scene.objects.put_new(name, base64.b64decode(data)))
    made = asyncio.run(_last(scene))
    assert (made.number, made.cluster_id, made.release) == (1, "cluster-a", "9.9")
    assert scene.findings(made) == []
    found = scene.restored(made)[0].groups[made.basins[0].group_id]
    stream = BasinState(found).stream_by_name("one")
    assert stream is not None
    assert (stream.tail_seq_num, stream.metered_bytes_appended) == (2, 7)
    ((_, value),) = found.scan(*keys.batches_range(stream.stream_id))
    assert value.endswith(b"records")


async def _last(scene: Scene) -> Manifest:
    return await (await scene.vault()).chosen(None)
