#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fetch.sh FILE: writes the handwritten digits to FILE, as CSV. They are a part of Debian's python3-sklearn (1,797 images of
# 8 x 8 pixels, from the UCI repository): taken from the installed package, else from the package file, without installing.
set -eu
[ $# = 1 ] || { echo "usage: fetch.sh FILE" >&2; exit 2; }
inside=usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
if [ ! -r "/$inside" ]; then
    echo "Fetching the digits from Debian's package python3-sklearn"
    # The lists may be as old as the machine, or missing; then they are refreshed, which needs root.
    (cd "$work" && apt-get -q download python3-sklearn >log 2>&1) ||
        (cd "$work" && $([ "$(id -u)" = 0 ] || echo sudo) apt-get -q update >>log 2>&1 &&
            apt-get -q download python3-sklearn >>log 2>&1) ||
        { cat "$work/log" >&2; echo "fetch.sh: cannot download python3-sklearn" >&2; exit 1; }
    dpkg-deb -x "$work"/python3-sklearn_*.deb "$work"
    source=$work/$inside
else
    source=/$inside
fi
mkdir -p "$(dirname "$1")"
gzip -dc "$source" >"$work/digits.csv"
mv "$work/digits.csv" "$1"
