#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One rank and four ranks learn the same; bad files and options are refused.
#   train_test.sh TUTTI TRAIN
set -eu
tutti=$1 train=$2
emulator=${MESON_EXE_WRAPPER:-} # of a build for another processor
data=${TUTTI_TRAIN_DATA:-${TMPDIR:-/tmp}/tutti-digits-$(id -u).csv}
"$(dirname "$0")/data.sh" "$data" || { echo "SKIPPED: the data set cannot be had"; exit 77; }

accuracy() {
    $emulator "$tutti" run -n "$1" --no-tag -- $emulator "$train" --data "$data" --epochs 12 |
        sed -n 's/^held-out accuracy: \([0-9.]*\)%$/\1/p'
}
expect() {
    code=0
    $emulator "$tutti" run -n 1 -- $emulator "$train" "$@" >/dev/null 2>&1 || code=$?
    [ "$code" = "$want" ] || { echo "tutti-train $*: exit code $code, want $want"; exit 1; }
}

one=$(accuracy 1)
four=$(accuracy 4)
echo "held-out accuracy: 1 rank $one%, 4 ranks $four%"
awk "BEGIN { d = $one - $four; exit !(d < 0.5 && d > -0.5 && $one > 95 && $four > 95) }"
want=1 expect --data /nonexistent/digits.csv
want=1 expect --data "$0"
want=2 expect --epochs 0
want=2 expect --nonsense
