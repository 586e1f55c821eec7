#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every build that the tests are run in, one after the other, and one sum. The last line is "N passed, N failed, N
# skipped". Only the release compiles the kernels for GPUs, of one kind (the others run them on the CPU); it takes two
# minutes. A build that fails to compile counts as one failure. The usual builds end in eighteen to twenty minutes on
# two processors; all of them: CHECK_BUILDS="release asan tsan clang nohwloc aarch64".
set -u
cd "$(dirname "$0")/.." || exit 1
builds=${CHECK_BUILDS:-release asan tsan}
results=""
broken=0
rm -f build-summary.txt

# run NAME "SETUP OPTIONS" "TEST OPTIONS": builds in build-NAME (build for the release) and runs its tests.
run() {
    name=$1 folder=build-${1%-quick} setup=$2 tests=$3
    [ "$name" = release ] && folder=build
    echo "== $name"
    # shellcheck disable=SC2086
    if { [ -f "$folder/build.ninja" ] || meson setup "$folder" $setup >"$folder.log" 2>&1; } &&
        ninja -C "$folder" >"$folder.log" 2>&1; then
        rm -f "$folder.log"
        # shellcheck disable=SC2086
        meson test -C "$folder" --no-rebuild --print-errorlogs --num-processes "$processes" $tests
        results="$results $folder/meson-logs/testlog.json"
    else
        echo "$name: the build failed:"
        tail -n 40 "$folder.log"
        broken=$((broken + 1))
    fi
}

# More at once than processors: many tests wait most of the time. More still where limits of time are far away.
processes=3
quick() {
    processes=4 TUTTI_TEST_QUICK=1 run "$@"
}

arm="--cross-file cross/aarch64.ini -Dcuda=disabled --buildtype=debugoptimized -Dhwloc=disabled"
# Unit tests, and whole collectives over shared memory.
only_units="--no-suite style --no-suite cli --no-suite fault --no-suite conformance --no-suite verbs --no-suite launch
    --no-suite example --no-suite abi --no-suite lab --no-suite tcp"

# Tests that have one thread in each process: the thread sanitizer has nothing to find there.
no_threads="--no-suite alone --no-suite link --no-suite conformance"

start=$(date +%s)
for build in $builds; do
    case $build in
    release) run release "--buildtype=release --prefix=$PWD/build --libdir=lib -Dgpu_archs=90 -Dgpu_ptx=false" "" ;;
    asan) quick asan "-Dcuda=disabled --buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false" \
        "--no-suite style --no-suite script --no-suite lab --no-suite patient --timeout-multiplier 4" ;;
    tsan) quick tsan "-Dcuda=disabled --buildtype=debugoptimized -Db_sanitize=thread -Db_lundef=false" \
        "$no_threads --no-suite style --no-suite script --no-suite lab --no-suite patient --no-suite long
        --timeout-multiplier 6" ;;
    clang) CC=clang quick clang "-Dcuda=disabled --buildtype=debugoptimized" "--no-suite style" ;;
    nohwloc) quick nohwloc "-Dcuda=disabled --buildtype=debugoptimized -Dhwloc=disabled" "topology cli" ;;
    aarch64) quick aarch64 "$arm" "--no-suite style --timeout-multiplier 8" ;;
    aarch64-quick) quick aarch64-quick "$arm" "$only_units --timeout-multiplier 8" ;;
    *) echo "there is no build called $build"; broken=$((broken + 1)) ;;
    esac
    echo "   ($(($(date +%s) - start)) s so far)"
done
# shellcheck disable=SC2086
exec python3 tests/sum_up.py build-summary.txt $broken $results
