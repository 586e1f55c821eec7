#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh SOURCES BUILD: what `make install PREFIX=...` leaves, as a stranger uses it: builds against it by
# pkg-config alone, and runs. Then what it leaves out, and that `make uninstall` leaves nothing.
set -eu
sources=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/a/prefix

unset MAKEFLAGS DESTDIR PREFIX
from_make() {
    make -s --no-print-directory -C "$sources" PACKAGES= NINJA=true BUILD="$build" "$@"
}
from_make put PARTS=runtime,compat,devel,man,control,extra PREFIX="$prefix"
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
expect "a network for NCCL" "$(LD_LIBRARY_PATH=$lib/tutti python3 -c 'import ctypes
print(bool(ctypes.c_void_p.in_dll(ctypes.CDLL("libnccl-net-tutti.so"), "ncclNetPlugin_v11")))')" True
[ -f "$prefix/include/tutti/nccl/nccl.h" ] || { echo "nccl.h is not installed"; exit 1; }
if [ -x "$prefix/bin/softverbs" ]; then
    expect "a device of the stand-in" "$("$prefix/bin/softverbs" run -- "$work/devices" | grep -x soft_lo)" "soft_lo"
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

# Below DESTDIR there is one tree, whatever the umask of who installs; nothing in it has the name of another's library
# where the linker or the compiler looks, and nothing is a demo or an emulator.
dest=$work/dest
[ -f "$build/include/tutti/tutti.h" ] && filled="" || filled=no
(umask 077 && from_make install DESTDIR="$dest" PREFIX=/usr) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
[ -z "$filled" ] || rm -rf "$build/include/tutti" # as it was
expect "trees below DESTDIR" "$(cd "$dest" && echo *)" usr
expect "names of NVIDIA's" "$(find "$dest" \( -name 'libnccl*' -o -name nccl.h \) ! -path '*/tutti/*')" ""
# Programs for operators are there where their libraries are.
expect "programs" "$(cd "$dest/usr/bin" && for name in *; do
    case $name in
    tutti-agent | tutti-hostfile | tutti-master | tutti-pathagent | tutti-pathmaster | tutti-simulate) ;;
    *) echo "$name" ;;
    esac
done)" tutti
expect "files that others cannot read" "$(find "$dest/usr" ! -type l ! -perm -o=r)" ""
grep -q "LD_PRELOAD=.*/tutti/libnccl.so.2" "$work/log" ||
    { echo "make install does not say where libnccl.so.2 is"; exit 1; }
from_make put PARTS=demo,extra DESTDIR="$dest" PREFIX=/usr
[ -x "$dest/usr/bin/tutti-train" ] || { echo "tutti-train is not installed"; exit 1; }
echo kept >"$dest/usr/bin/another"
from_make found PREFIX=/opt/tutti | grep -q 'LD_LIBRARY_PATH=/opt/tutti/lib' ||
    { echo "make install does not say how programs find a library beside the linker's path"; exit 1; }
from_make found PREFIX=/usr/local | grep -q 'there after: ldconfig' ||
    { echo "make install does not say that ldconfig is to run"; exit 1; }
from_make uninstall DESTDIR="$dest" PREFIX=/usr >/dev/null
expect "files after make uninstall" "$(find "$dest" ! -type d)" "$dest/usr/bin/another"
expect "folders after make uninstall" "$(find "$dest" -name tutti -o -name softverbs)" ""
! from_make uninstall DESTDIR="$dest" PREFIX=/usr >"$work/log" 2>&1 || { echo "uninstalled twice"; exit 1; }

# A compiler that nobody tried warns of what others do not: only `make check` takes that for an error.
expect "warnings as errors in a user's build" "$(grep -h werror "$sources/meson.build" "$sources/debian/rules" \
    "$sources/bindings/python/setup.py"; grep '^SETUP.*werror' "$sources/Makefile")" ""

# What the demo does not run it does not build.
parts=$(sed -n 's/^DEMO_PARTS := //p' "$sources/Makefile")
expect "what make demo builds" "$(python3 "$sources/tests/needed.py" "$build" --tags "$parts" | sed 's/\.so.*//')" \
    "cli/tutti
examples/train/tutti-train
src/api/libtutti"

# Each target that has a name of its own is in the list.
from_make help >"$work/help"
for target in build all demo install install-extra uninstall deb wheel sdist check bench docs clean; do
    grep -q "^make $target " "$work/help" || { echo "make help does not name $target"; exit 1; }
done
