#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pool.sh others|waits BUILDER FETCHER NAME...: runs the tests of each build, in this order, as soon as tests/build.sh,
# which is the process BUILDER, has made it, and the process FETCHER has ended, which fetches what some tests use. There
# are two pools, which go side by side: tests of the suite `waits` take little of the processors and much time, so that
# they are done while the others keep the processors busy. build-NAME.others and build-NAME.waits name the log that has
# the results.
set -u
cd "$(dirname "$0")/.." || exit 1
pool=$1 builder=$2 fetcher=$3
shift 3

# More at once than processors: many of the others wait some of the time, too. More still where limits of time are far
# away; less with TSan, where programs that wait for traffic were starved.
case $pool in
others) processes=3 quick_processes=4 tsan_processes=3 chosen="--no-suite waits" log=testlog ;;
waits) processes=3 quick_processes=3 tsan_processes=2 chosen="--suite waits" log=waits ;;
*) exit 2 ;;
esac

# run NAME TIMES: waits for the build of that name, and runs its tests, with so many times their limits of time.
run() {
    name=$1 folder=build-${1%-quick}
    [ "$name" = release ] && folder=build
    while [ ! -f "build-$name.built" ] && kill -0 "$builder" 2>/dev/null; do sleep 0.2; done
    while kill -0 "$fetcher" 2>/dev/null; do sleep 0.2; done
    echo "== $name ($pool)"
    [ "$(cat "build-$name.built" 2>/dev/null)" = 0 ] || return
    echo "   built ($(($(date +%s) - start)) s so far)"
    rm -f "$folder/meson-logs/$log.json"
    # shellcheck disable=SC2046,SC2086
    meson test -C "$folder" --no-rebuild --print-errorlogs --num-processes "$processes" --timeout-multiplier "$2" \
        --logbase "$log" $chosen $(tests/chosen.sh "$name")
    echo "$folder/meson-logs/$log.json" >"build-$name.$pool"
    echo "   tested ($(($(date +%s) - start)) s so far)"
}

quick() {
    [ "$1" = tsan ] && processes=$tsan_processes || processes=$quick_processes
    TUTTI_TEST_QUICK=1 run "$@"
}

start=$(date +%s)
for build; do
    case $build in
    release) run release 1 ;;
    asan) quick asan 4 ;;
    tsan) quick tsan 6 ;;
    aarch64*) quick "$build" 8 ;;
    *) quick "$build" 1 ;;
    esac
done
