#!/usr/bin/env bash
# Debian's prometheus and promtool into a directory, without installing them: `fetch.sh DIRECTORY`.
# Does nothing when they are there.
set -euo pipefail

mkdir -p "$1"
cd "$1"
[ -x prometheus ] && [ -x promtool ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && apt-get download prometheus >/dev/null 2>&1 && dpkg-deb -x prometheus_*.deb unpacked)
cp "$work"/unpacked/usr/bin/prom{etheus,tool} .
