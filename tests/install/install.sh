#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh SOURCES BUILD: what `make install PREFIX=...` leaves, as a stranger uses it: builds against it by
# pkg-config alone, and runs.
set -eu
sources=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/a/prefix

make -s -C "$sources" put BUILD="$build" PREFIX="$prefix"
# The folder may be moved afterwards, and has no need of the build.
mv "$work/a" "$work/b"
prefix=$work/b/prefix
pc=$(find "$prefix" -name tutti.pc)
lib=$(dirname "$(dirname "$pc")")
cp "$sources"/tests/install/Makefile "$sources"/tests/install/*.c "$work"
CFLAGS="-Wall -Werror" PKG_CONFIG_PATH=$(dirname "$pc") make -s -C "$work"

expect() {
    [ "$2" = "$3" ] || { echo "$1: \"$2\" where \"$3\" was expected"; exit 1; }
}
expect "two ranks" "$(LD_LIBRARY_PATH=$lib "$prefix/bin/tutti" run -n 2 "$work/sum" | sort)" "[0] sum 3
[1] sum 3"
if command -v cmake >/dev/null; then
    cp "$sources/tests/install/CMakeLists.txt" "$work"
    cmake -S "$work" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
        cmake --build "$work/cmake" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    expect "two ranks of CMake's program" "$(LD_LIBRARY_PATH=$lib "$prefix/bin/tutti" run -n 2 "$work/cmake/sum" |
        sort)" "[0] sum 3
[1] sum 3"
    sed 's/tutti 0.1/tutti 0.9/' "$work/CMakeLists.txt" >"$work/b/CMakeLists.txt"
    ! cmake -S "$work/b" -B "$work/later" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 ||
        { echo "CMake took an older version"; exit 1; }
fi
expect "version" "$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --variable=prefix tutti | xargs realpath)" \
    "$(realpath "$prefix")"
expect "a network for NCCL" "$(LD_LIBRARY_PATH=$lib python3 -c 'import ctypes
print(bool(ctypes.c_void_p.in_dll(ctypes.CDLL("libnccl-net-tutti.so"), "ncclNetPlugin_v11")))')" True
[ -f "$prefix/include/nccl.h" ] || { echo "nccl.h is not installed"; exit 1; }
if [ -x "$prefix/bin/softverbs" ]; then
    expect "a device of the stand-in" "$("$prefix/bin/softverbs" run -- "$work/devices" | tail -n 1)" "soft_lo"
elif [ -f /usr/include/infiniband/verbs.h ]; then
    echo "softverbs is not installed, although its headers are there"
    exit 1
fi
manual=$(find "$prefix" -name man3)
[ -f "$manual/tutti_allreduce.3" ] && [ -f "$manual/../man1/tutti.1" ] ||
    { echo "the manual is not installed"; exit 1; }
# Whatever a program may say of itself: no installed file names the folder that it was made in.
named=$(grep -rlF "$build" "$prefix" || true)
expect "files that name the folder of the build" "$named" ""
