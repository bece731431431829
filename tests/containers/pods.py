"""Pods as the chart renders them, as containers of the engine: the same command, arguments,
environment, mounts, rights and names.

Each field of a pod is one that is carried over (`POD`, `CONTAINER`) or one that has no meaning for
an engine alone (`..._NOT_TRIED`); any other is a fault, so that nothing is passed over in silence.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

Object = dict[str, Any]
Objects = dict[tuple[str, str], Object]

POD: Final = {"containers", "volumes", "securityContext", "terminationGracePeriodSeconds"}
POD_NOT_TRIED: Final = {
    *("serviceAccountName", "automountServiceAccountToken", "enableServiceLinks", "affinity"),
    *("topologySpreadConstraints", "imagePullSecrets", "nodeSelector", "tolerations"),
    "restartPolicy",
}
"""Where pods go, and what only an API server gives them."""
CONTAINER: Final = {
    *("name", "image", "command", "args", "env", "ports", "startupProbe", "livenessProbe"),
    *("readinessProbe", "lifecycle", "resources", "securityContext", "volumeMounts"),
}
CONTAINER_NOT_TRIED: Final = {"imagePullPolicy"}
POD_RIGHTS: Final = {
    *("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy"),
    "seccompProfile",
}
RIGHTS: Final = {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"}
GRACE_SECONDS: Final = 30
"""Kubernetes' own, where a pod says nothing."""
ENGINE_SECCOMP: Final = {"type": "RuntimeDefault"}
"""What the engine applies where it is told nothing."""
_VARIABLE: Final = re.compile(r"\$(\$|\(([^)]*)\))")
_UNITS: Final = {"Mi": 1 << 20, "Gi": 1 << 30}


@dataclass(slots=True)
class Mount:
    """A volume at its place. `files`: what a Secret or ConfigMap has for it; None: an empty
    directory that may be written to."""

    path: str
    is_read_only: bool
    files: dict[str, bytes] | None = None
    mode: int = 0o644
    size: int | None = None
    is_kept: bool = False
    """It outlives the pod, as a claim does."""
    volume: str = ""
    """What the engine calls it."""


@dataclass(slots=True)
class Pod:
    """One pod of a StatefulSet, a Deployment or a CronJob, with its one container."""

    name: str
    host_names: list[str]
    image: str
    entrypoint: list[str] | None
    arguments: list[str]
    environment: dict[str, str]
    user: int
    group: int
    fs_group: int
    is_read_only: bool
    dropped: list[str]
    no_new_privileges: bool
    memory: int
    cpu_shares: int
    grace_seconds: int
    probes: dict[str, Object]
    before_stop: list[str]
    mounts: list[Mount] = field(default_factory=list)

    def run_arguments(self, network: str) -> list[str]:
        """What `docker run` is told."""
        out = ["--name", self.name, "--hostname", self.name, "--network", network]
        for name in self.host_names:
            out += ["--network-alias", name]
        out += ["--user", f"{self.user}:{self.group}", "--group-add", str(self.fs_group)]
        for key, value in self.environment.items():
            out += ["--env", f"{key}={value}"]
        out += ["--read-only"] if self.is_read_only else []
        for each in self.dropped:
            out += ["--cap-drop", each]
        out += ["--security-opt", "no-new-privileges:true"] if self.no_new_privileges else []
        out += ["--memory", str(self.memory), "--cpu-shares", str(self.cpu_shares)]
        for mount in self.mounts:
            if mount.size is not None:
                options = f"size={mount.size},mode=2777,gid={self.fs_group}"
                out += ["--tmpfs", f"{mount.path}:{options}"]
            else:
                rights = "ro" if mount.is_read_only else "rw"
                out += ["--volume", f"{mount.volume}:{mount.path}:{rights}"]
        command = list(self.arguments)
        if self.entrypoint is not None:
            out += ["--entrypoint", self.entrypoint[0]]
            command = [*self.entrypoint[1:], *command]
        return [*out, self.image, *command]


def pods_of(objects: Objects, kind: str, name: str, count: int) -> list[Pod]:
    """The first `count` pods of a StatefulSet, Deployment or CronJob. Raises ValueError for a field
    of which nothing is known."""
    document = objects[kind, name]
    if kind == "CronJob":
        document = {**document, "spec": document["spec"]["jobTemplate"]["spec"]}
    spec = document["spec"]["template"]["spec"]
    _known(f"{kind} {name}, pod", spec, POD | POD_NOT_TRIED)
    _known("its rights", spec["securityContext"], POD_RIGHTS)
    (container,) = spec["containers"]
    _known("container", container, CONTAINER | CONTAINER_NOT_TRIED)
    return [_pod(objects, document, spec, container, index) for index in range(count)]


def _known(where: str, found: Object, known: set[str]) -> None:
    unknown = found.keys() - known
    if unknown:
        raise ValueError(f"{where}: nothing is known of {', '.join(sorted(unknown))}")


def _pod(objects: Objects, document: Object, spec: Object, container: Object, index: int) -> Pod:
    name = f"{document['metadata']['name']}-{index}"
    rights, own = spec["securityContext"], container["securityContext"]
    _known("rights of the container", own, RIGHTS)
    if rights["seccompProfile"] != ENGINE_SECCOMP or not rights["runAsNonRoot"]:
        raise ValueError(f"{name}: {rights}")
    environment = _environment(container["env"], name)
    command = container.get("command")
    resources = container["resources"]
    return Pod(
        name=name,
        host_names=_host_names(objects, document, name),
        image=container["image"],
        entrypoint=None if command is None else [_expanded(c, environment) for c in command],
        arguments=[_expanded(argument, environment) for argument in container["args"]],
        environment=environment,
        user=rights["runAsUser"],
        group=rights["runAsGroup"],
        fs_group=rights["fsGroup"],
        is_read_only=own["readOnlyRootFilesystem"],
        dropped=own["capabilities"]["drop"],
        no_new_privileges=not own["allowPrivilegeEscalation"],
        memory=_bytes(resources["limits"]["memory"]),
        cpu_shares=max(2, int(_cores(resources["requests"]["cpu"]) * 1024)),
        grace_seconds=spec.get("terminationGracePeriodSeconds", GRACE_SECONDS),
        probes={
            kind: _probe(container, container[f"{kind}Probe"])
            for kind in ("startup", "liveness", "readiness")
            if f"{kind}Probe" in container
        },
        before_stop=container.get("lifecycle", {})
        .get("preStop", {})
        .get("exec", {})
        .get("command", []),
        mounts=[_mount(objects, document, spec, name, m) for m in container["volumeMounts"]],
    )


def _environment(entries: list[Object], pod: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for entry in entries:
        if "valueFrom" in entry:
            if entry["valueFrom"] != {"fieldRef": {"fieldPath": "metadata.name"}}:
                raise ValueError(f"nothing is known of {entry}")
            out[entry["name"]] = pod
        else:
            out[entry["name"]] = _expanded(entry["value"], out)
    return out


def _expanded(text: str, environment: dict[str, str]) -> str:
    """As Kubernetes does: `$(NAME)` of a variable that there is, `$$` for `$`, the rest stays."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] == "$" else environment.get(found[2], found[0])

    return _VARIABLE.sub(value, text)


def _host_names(objects: Objects, document: Object, pod: str) -> list[str]:
    """A pod of a StatefulSet has a name of its own; a Service's leads to all its pods."""
    space = document["metadata"]["namespace"]
    labels = document["spec"]["template"]["metadata"]["labels"]
    out = []
    for (kind, service), written in objects.items():
        selector = written["spec"].get("selector") if kind == "Service" else None
        if selector and selector.items() <= labels.items():
            whole = f"{service}.{space}.svc.cluster.local"
            if document["spec"].get("serviceName") == service:
                out.append(f"{pod}.{whole}")
            out += [service, whole]
    return out


def _mount(objects: Objects, document: Object, spec: Object, pod: str, mount: Object) -> Mount:
    path, is_read_only = mount["mountPath"], mount.get("readOnly", False)
    claims = {c["metadata"]["name"] for c in document["spec"].get("volumeClaimTemplates", ())}
    if mount["name"] in claims:
        claim = f"{mount['name']}-{pod}"
        return Mount(path, is_read_only, is_kept=True, volume=claim)
    (source,) = [v for v in spec["volumes"] if v["name"] == mount["name"]]
    if "persistentVolumeClaim" in source:
        claim = source["persistentVolumeClaim"]["claimName"]
        return Mount(path, is_read_only, is_kept=True, volume=claim)
    if "emptyDir" in source:
        return Mount(path, is_read_only, size=_bytes(source["emptyDir"]["sizeLimit"]))
    volume = f"{mount['name']}-{document['metadata']['name']}"
    sources = source.get("projected", {}).get("sources") or [source]
    files: dict[str, bytes] = {}
    mode = 0o644
    for each in sources:
        if "secret" in each:
            named = each["secret"]
            called = named.get("secretName", named.get("name"))
            data = objects["Secret", called]["data"]
            content = {key: base64.b64decode(value) for key, value in data.items()}
        else:
            named = each["configMap"]
            data = objects["ConfigMap", named["name"]]["data"]
            content = {key: value.encode() for key, value in data.items()}
        items = named.get("items") or [{"key": key, "path": key} for key in content]
        files |= {item["path"]: content[item["key"]] for item in items}
        mode = named.get("defaultMode", mode)
    mode = source.get("projected", {}).get("defaultMode", mode)
    return Mount(path, is_read_only, files, mode, volume=volume)


def _probe(container: Object, probe: Object) -> Object:
    """With the port's number; the rest as it is."""
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    http = probe["httpGet"]
    return {**probe, "httpGet": {**http, "port": ports.get(http["port"], http["port"])}}


def _bytes(text: str) -> int:
    return int(text[:-2]) * _UNITS[text[-2:]]


def _cores(text: str) -> float:
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def differences(pod: Pod, facts: Object, image: Object) -> list[str]:
    """Where the engine runs something else than was rendered. `facts` and `image` are what it says
    of the container and of its image."""
    config, host = facts["Config"], facts["HostConfig"]
    entrypoint = pod.entrypoint or image["Config"]["Entrypoint"]
    beside = dict(e.partition("=")[::2] for e in image["Config"]["Env"])
    environment = dict(e.partition("=")[::2] for e in config["Env"])
    found = {
        "command and arguments": [*config["Entrypoint"], *(config["Cmd"] or ())],
        "environment": environment,
        "image": config["Image"],
        "name": (facts["Name"].removeprefix("/"), config["Hostname"]),
        "user": config["User"],
        "groups": host["GroupAdd"],
        "root file system is read-only": host["ReadonlyRootfs"],
        "capabilities dropped": host["CapDrop"],
        "further privileges": host["SecurityOpt"],
        "memory": host["Memory"],
        "processor": host["CpuShares"],
        "volumes": sorted((m["Destination"], m["Name"], m["RW"]) for m in facts["Mounts"]),
        "empty directories": sorted(host.get("Tmpfs") or ()),
        "names": sorted(
            name
            for each in facts["NetworkSettings"]["Networks"].values()
            for name in each["Aliases"]
            if name != facts["Id"][:12] and name != pod.name
        ),
    }
    wanted = {
        "command and arguments": [*entrypoint, *pod.arguments],
        "environment": beside | pod.environment,
        "image": pod.image,
        "name": (pod.name, pod.name),
        "user": f"{pod.user}:{pod.group}",
        "groups": [str(pod.fs_group)],
        "root file system is read-only": pod.is_read_only,
        "capabilities dropped": pod.dropped,
        "further privileges": ["no-new-privileges:true"] if pod.no_new_privileges else None,
        "memory": pod.memory,
        "processor": pod.cpu_shares,
        "volumes": sorted(
            (m.path, m.volume, not m.is_read_only) for m in pod.mounts if m.size is None
        ),
        "empty directories": sorted(m.path for m in pod.mounts if m.size is not None),
        "names": sorted(pod.host_names),
    }
    return [
        f"{pod.name}, {what}: rendered {json.dumps(wanted[what])}, run {json.dumps(value)}"
        for what, value in found.items()
        if json.dumps(value, sort_keys=True) != json.dumps(wanted[what], sort_keys=True)
    ]
