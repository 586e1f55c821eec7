#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every build that the tests are run in, one after the other, and one sum. The last line is "N passed, N failed, N
# skipped". A build that fails to compile counts as one failure. All of them:
# CHECK_BUILDS="release asan tsan clang nohwloc aarch64".
set -u
cd "$(dirname "$0")/.." || exit 1
builds=${CHECK_BUILDS:-release asan tsan}
results=""
broken=0
rm -f build-summary.txt build-*.built

# The builder goes ahead of the tests, in what they leave of the processors: they wait much. Where sessions share
# processors evenly (autogroup), niceness counts within a session only; the builder's session has a niceness of its own.
# shellcheck disable=SC2016,SC2086
setsid nice -n 19 sh -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec tests/build.sh "$@"' sh $builds &
builder=$!
trap 'kill -- -$builder 2>/dev/null' EXIT
trap 'exit 1' INT TERM

# run NAME "TEST OPTIONS": waits for the build of that name, and runs its tests.
run() {
    name=$1 folder=build-${1%-quick} tests=$2
    [ "$name" = release ] && folder=build
    echo "== $name"
    while [ ! -f "build-$name.built" ] && kill -0 $builder 2>/dev/null; do sleep 0.2; done
    if [ "$(cat "build-$name.built" 2>/dev/null)" = 0 ]; then
        echo "   built ($(($(date +%s) - start)) s so far)"
        # shellcheck disable=SC2086
        meson test -C "$folder" --no-rebuild --print-errorlogs --num-processes "$processes" $tests
        results="$results $folder/meson-logs/testlog.json"
    else
        echo "$name: the build failed:"
        tail -n 40 "build-$name.log"
        broken=$((broken + 1))
    fi
    echo "   tested ($(($(date +%s) - start)) s so far)"
}

# More at once than processors: many tests wait most of the time. More still where limits of time are far away; less
# with TSan, where programs that wait for traffic were starved.
processes=3
quick() {
    [ "$1" = tsan ] && processes=4 || processes=6
    TUTTI_TEST_QUICK=1 run "$@"
}

# Unit tests, and whole collectives over shared memory.
only_units="--no-suite style --no-suite cli --no-suite fault --no-suite conformance --no-suite verbs --no-suite launch
    --no-suite example --no-suite abi --no-suite lab --no-suite tcp"

# Tests that have one thread in each process, and programs that start others: the thread sanitizer has nothing to find
# there that it does not find in the tests of what they use.
no_threads="--no-suite alone --no-suite link --no-suite conformance --no-suite cli --no-suite launch"

start=$(date +%s)
for build in $builds; do
    case $build in
    release) run release "" ;;
    asan) quick asan "--no-suite style --no-suite script --no-suite lab --no-suite patient --timeout-multiplier 4" ;;
    tsan) quick tsan "$no_threads --no-suite style --no-suite script --no-suite lab --no-suite patient --no-suite long
        --timeout-multiplier 6" ;;
    aarch64) quick aarch64 "--no-suite style --timeout-multiplier 8" ;;
    aarch64-quick) quick aarch64-quick "$only_units --timeout-multiplier 8" ;;
    nohwloc) quick nohwloc "topology cli" ;;
    *) quick "$build" "--no-suite style" ;;
    esac
done
# shellcheck disable=SC2086
python3 tests/sum_up.py build-summary.txt $broken $results
