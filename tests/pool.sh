#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pool.sh others|waits BUILDER NAME...: runs the tests of each build, in this order, as soon as tests/build.sh, which is
# the process BUILDER, has made it. There are two pools, which go side by side: tests of the suite `waits` take little
# of the processors and much time, so that they are done while the others keep the processors busy. build-NAME.others
# and build-NAME.waits name the log that has the results.
set -u
cd "$(dirname "$0")/.." || exit 1
pool=$1 builder=$2
shift 2

# More at once than processors: many of the others wait some of the time, too. More still where limits of time are far
# away; less with TSan, where programs that wait for traffic were starved.
case $pool in
others) processes=3 quick_processes=5 tsan_processes=3 chosen="--no-suite waits" log=testlog ;;
waits) processes=3 quick_processes=3 tsan_processes=2 chosen="--suite waits" log=waits ;;
*) exit 2 ;;
esac

# run NAME "TEST OPTIONS": waits for the build of that name, and runs its tests.
run() {
    name=$1 folder=build-${1%-quick} tests=$2
    [ "$name" = release ] && folder=build
    while [ ! -f "build-$name.built" ] && kill -0 "$builder" 2>/dev/null; do sleep 0.2; done
    echo "== $name ($pool)"
    [ "$(cat "build-$name.built" 2>/dev/null)" = 0 ] || return
    echo "   built ($(($(date +%s) - start)) s so far)"
    rm -f "$folder/meson-logs/$log.json"
    # shellcheck disable=SC2086
    meson test -C "$folder" --no-rebuild --print-errorlogs --num-processes "$processes" --logbase "$log" $chosen $tests
    echo "$folder/meson-logs/$log.json" >"build-$name.$pool"
    echo "   tested ($(($(date +%s) - start)) s so far)"
}

quick() {
    [ "$1" = tsan ] && processes=$tsan_processes || processes=$quick_processes
    TUTTI_TEST_QUICK=1 run "$@"
}

# Unit tests, and whole collectives over shared memory.
only_units="--no-suite style --no-suite cli --no-suite fault --no-suite conformance --no-suite verbs --no-suite launch
    --no-suite example --no-suite abi --no-suite lab --no-suite tcp"

# Tests that have one thread in each process, and programs that start others: the thread sanitizer has nothing to find
# there that it does not find in the tests of what they use.
no_threads="--no-suite alone --no-suite link --no-suite conformance --no-suite cli --no-suite launch"

start=$(date +%s)
for build; do
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
