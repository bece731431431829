#!/usr/bin/env bash
# A base image from Debian packages, for machines that reach no registry: `base.sh TAG [PACKAGE...]`.
# Does nothing when the image is there already. Needs root for the file owners inside.
set -euo pipefail

tag=$1
shift
suite=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

if docker image inspect "$tag" >/dev/null 2>&1; then
    exit 0
fi
if ! command -v debootstrap >/dev/null; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "debootstrap is missing: apt-get install debootstrap, or set BASE to an image" >&2
        exit 1
    fi
    apt-get install -y --no-install-recommends debootstrap >/dev/null
fi

packages=$(IFS=,; echo "$*")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase ${packages:+--include="$packages"} "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    exit 1
}
rm -f "$root.log"
# What no program of ours reads: package lists and caches, manuals, other languages, bytecode.
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/* "$root"/var/log/* \
    "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* \
    "$root"/usr/share/locale/* "$root"/usr/share/lintian "$root"/tmp/*
find "$root" -name __pycache__ -type d -prune -exec rm -rf {} +
tar -C "$root" --numeric-owner -c . | docker import --change 'ENV LANG=C.UTF-8' - "$tag" >/dev/null
docker image inspect --format '{{.Size}}' "$tag" | awk -v tag="$tag" '{printf "%s: %d MB\n", tag, $1 / 1e6}'
