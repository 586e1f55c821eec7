#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every build that the tests are run in, one after the other, and one sum. The last line is "N passed, N failed, N
# skipped". A build that fails to compile counts as one failure. All of them:
# CHECK_BUILDS="release asan tsan clang nohwloc aarch64". FETCH: a command that fetches what some tests use, for which
# the tests wait, and the first build does not.
set -u
cd "$(dirname "$0")/.." || exit 1
builds=${CHECK_BUILDS:-release asan tsan}
results=""
broken=0
rm -f build-summary.txt build-stalls.txt build-*.built build-*.others build-*.waits
: >build-unsteady.txt

# The builder goes ahead of the tests, with half of their weight: enough to be done with a build before its tests'
# turn comes, also on a machine that has other work. Where sessions share processors evenly (autogroup), niceness counts
# within a session only; the builder's session has a niceness of its own.
# shellcheck disable=SC2016,SC2086
setsid nice -n 3 sh -c '{ echo 3 >/proc/self/autogroup; } 2>/dev/null; exec tests/build.sh "$@"' sh $builds &
builder=$!
# shellcheck disable=SC2086
setsid ${FETCH:-true} >build-fetched.log 2>&1 </dev/null &
fetcher=$!
# shellcheck disable=SC2086
setsid tests/pool.sh waits $builder $fetcher $builds >build-waits.log 2>&1 </dev/null &
waits=$!
# shellcheck disable=SC2086
setsid tests/pool.sh others $builder $fetcher $builds </dev/null &
others=$!
setsid tests/stalls.py build-stalls.txt </dev/null &
stalls=$!
# shellcheck disable=SC2064
trap "kill -- -$builder -$fetcher -$waits -$others -$stalls 2>/dev/null" EXIT
trap 'exit 1' INT TERM
wait $others $waits
cat build-waits.log build-fetched.log

for name in $builds; do
    if [ "$(cat "build-$name.built" 2>/dev/null)" != 0 ]; then
        echo "$name: the build failed:"
        tail -n 40 "build-$name.log"
        broken=$((broken + 1))
        continue
    fi
    for pool in others waits; do
        log=$(cat "build-$name.$pool" 2>/dev/null)
        if [ -f "$log" ]; then
            results="$results $log"
        else
            echo "$name: meson left no results of the tests ($pool)"
            broken=$((broken + 1))
        fi
    done
done
cat build-stalls.txt
# shellcheck disable=SC2086
[ $broken != 0 ] || python3 tests/again.py $results >build-unsteady.txt
# shellcheck disable=SC2086
python3 tests/sum_up.py build-summary.txt $broken build-unsteady.txt $results
