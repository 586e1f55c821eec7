#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh NAME...: makes the builds that the tests are run in, one after the other: the release in build, NAME in
# build-NAME. What the tools say goes to build-NAME.log, the exit status to build-NAME.built.
set -u
cd "$(dirname "$0")/.." || exit 1

# set_up NAME FOLDER: only the release compiles the kernels for GPUs, of one kind; the others run them on the CPU.
# Code with sanitizers is little slower at -O1, and compiled in two thirds of the time; of debugging it needs the lines
# alone. There gcc warns of what it cannot follow, such as arrays that a callee fills: warnings are errors in the other
# builds.
set_up() {
    plain="-Dcuda=disabled --buildtype=debugoptimized" debug="$plain -Dwerror=true"
    watched="$plain -Doptimization=1 -Ddebug=false -Dc_args=-g1 -Db_lundef=false"
    # shellcheck disable=SC2086
    case $1 in
    release) meson setup "$2" --buildtype=release --prefix="$PWD/build" --libdir=lib -Dgpu_archs=90 \
        -Dgpu_ptx=false -Dgpu_optimized=false -Dwerror=true ;;
    asan) meson setup "$2" $watched -Db_sanitize=address,undefined ;;
    tsan) meson setup "$2" $watched -Db_sanitize=thread ;;
    clang) CC=clang meson setup "$2" $debug ;;
    nohwloc) meson setup "$2" $debug -Dhwloc=disabled ;;
    aarch64 | aarch64-quick) meson setup "$2" $debug --cross-file cross/aarch64.ini -Dhwloc=disabled ;;
    *) echo "there is no build called $1" && return 1 ;;
    esac
}

# make_it NAME FOLDER: of builds with sanitizers, which no one else uses, what their tests need.
make_it() {
    [ -f "$2/build.ninja" ] || set_up "$1" "$2" || return
    needed=all
    # shellcheck disable=SC2046
    case $1 in
    asan | tsan) needed=$(python3 tests/needed.py "$2" $(tests/chosen.sh "$1")) || return ;;
    esac
    # shellcheck disable=SC2086
    ninja -C "$2" $needed
}

for name; do
    [ "$name" = release ] && folder=build || folder=build-${name%-quick}
    code=0
    make_it "$name" "$folder" >"build-$name.log" 2>&1 || code=$?
    echo $code >"build-$name.part" && mv "build-$name.part" "build-$name.built"
done
