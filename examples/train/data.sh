#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the handwritten digits (1797 images of 8 x 8, UCI) that Debian's package python3-sklearn ships,
# without installing it.
#   data.sh FILE.csv
set -eu
target=${1:?usage: data.sh FILE.csv}
[ -s "$target" ] && exit 0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
(cd "$folder" && { apt-get download -qq python3-sklearn ||
    { apt-get update -qq && apt-get download -qq python3-sklearn; }; }) 2>"$folder/log" || {
    cat "$folder/log" >&2
    echo "data.sh: the package python3-sklearn cannot be downloaded; is apt set up?" >&2
    exit 1
}
dpkg-deb -x "$folder"/python3-sklearn_*.deb "$folder/x"
mkdir -p "$(dirname "$target")"
gzip -dc "$folder"/x/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz >"$folder/digits.csv"
mv "$folder/digits.csv" "$target"
