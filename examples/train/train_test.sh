#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# train_test.sh TUTTI PROGRAM FILE: one rank and four learn the digits equally well. FILE is fetched if it is missing.
set -eu
here=$(dirname "$0") tutti=$1 program=$2 file=$3
[ -s "$file" ] || "$here/fetch.sh" "$file" >&2 || { echo "no data: skipped"; exit 77; }

fail() {
    echo "train_test: $*" >&2
    exit 1
}

accuracy() { # RANKS: the last line's percentage, times 100
    "$tutti" run -n "$1" -- "$program" --epochs 12 --data "$file" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "$1 ranks failed"; }
    grep -c 'epoch ' "$work/out" | grep -qx 12 || { cat "$work/out" >&2; fail "want a line per epoch, of rank 0 alone"; }
    sed -n 's/.*done in .*accuracy \([0-9]*\)\.\([0-9][0-9]\) %/\1\2/p' "$work/out"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
one=$(accuracy 1) four=$(accuracy 4)
echo "1 rank: $one, 4 ranks: $four hundredths of a percent"
[ "$one" -ge 9500 ] && [ "$four" -ge 9500 ] || fail "accuracy below 95 %"
difference=$((one - four))
[ "${difference#-}" -le 50 ] || fail "accuracies differ by more than 0.5 %"

# Bad input is refused with a sentence.
refused() { # STATUS TEXT ARGUMENT...
    want=$1 text=$2 status=0
    shift 2
    "$program" "$@" >"$work/out" 2>&1 || status=$?
    [ $status = "$want" ] || fail "$*: exit status $status, want $want"
    grep -q -- "$text" "$work/out" || { cat "$work/out"; fail "$*: does not say '$text'"; }
}
refused 0 'usage: ' --help
refused 2 'usage: ' --colour
refused 2 'usage: ' extra
refused 2 'want a number' --epochs x
refused 2 'want a number' --batch 0
run() { # the same under the launcher, one rank
    printf '%s' "$1" >"$work/bad.csv"
    "$tutti" run -n 1 -- "$program" --data "$work/bad.csv" >"$work/out" 2>&1 && fail "took $1"
    grep -q "$2" "$work/out" || { cat "$work/out"; fail "does not say '$2'"; }
}
run '' 'want a CSV file'
run "$(for i in 1 2 3 4 5 6 7 8 9 10 11; do echo '1,x,2'; done)" 'row 1 is not'
run "$(for i in 1 2 3 4 5 6 7 8 9 10; do echo '1,2,3'; done; echo '1,2,-3')" 'row 11 is not'
"$tutti" run -n 2 -- "$program" --data "$work/none.csv" >"$work/out" 2>&1 && fail "trained on no file"
grep -q 'No such file' "$work/out" || fail "does not name the missing file"
exit 0
