#!/usr/bin/env bash
# Debian's nginx into a directory, without installing it: `fetch.sh DIRECTORY`. Does nothing when it
# is there.
set -euo pipefail

mkdir -p "$1"
cd "$1"
exec 9>.lock
flock 9 # tests in several processes may ask at once
[ -x nginx ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && apt-get download nginx >/dev/null 2>&1 && dpkg-deb -x nginx_*.deb unpacked)
cp "$work"/unpacked/usr/sbin/nginx .
