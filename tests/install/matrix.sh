#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# matrix.sh [--roots FOLDER] [--jobs N] [--whole] [NAME...]: builds and runs tutti in the distributions and with the
# compilers that the README names, and prints a table. As root, with debootstrap, and with a network to fetch packages
# by; takes some minutes for each line, so no test runs this.
#
# FOLDER (build-roots) keeps the roots: the next time only tutti is built. Each line is `make demo` in a clean copy of
# this tree, then a few tests. --whole compiles every file of the tree, and counts warnings; else only what these need.
# Ubuntu's archive is not asked: its compilers are those of the same version that Debian 13 has.
set -eu
sources=$(cd "$(dirname "$0")/../.." && pwd)
roots=$sources/build-roots jobs=$(nproc) whole=""
#     name, distribution, C compiler, C++ compiler, packages of the compiler
lines="debian12-gcc bookworm gcc g++
debian12-clang bookworm clang clang++ clang
debian13-gcc trixie gcc g++
debian13-clang trixie clang clang++ clang
ubuntu24-gcc trixie gcc-13 g++-13 gcc-13 g++-13
ubuntu24-clang trixie clang-18 clang++-18 clang-18"
tests="error_test param_test thread_test engine queue checker reduce nccl\ nccl exported\ symbols matrix\ shm"

while [ $# -gt 0 ]; do
    case $1 in
    --roots) roots=$2 && shift ;;
    --jobs) jobs=$2 && shift ;;
    --whole) whole=yes ;;
    -*) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" && exit 2 ;;
    *) break ;;
    esac
    shift
done
names=${*:-$(echo "$lines" | cut -d' ' -f1)}
[ "$(id -u)" = 0 ] || { echo "matrix.sh wants root, for debootstrap and chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "matrix.sh wants debootstrap: apt-get install debootstrap" >&2; exit 1; }
mkdir -p "$roots"

# inside ROOT COMMAND: with what a machine of its own would have: processes, devices, shared memory.
inside() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child sh -c 'mount --bind "$1" "$1" && mount -t proc proc "$1/proc" &&
        mount --rbind /dev "$1/dev" && mount -t tmpfs none "$1/dev/shm" && mount -t sysfs none "$1/sys" &&
        exec chroot "$1" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$2"' \
        sh "$1" "$2" </dev/null
}

# root_of DISTRIBUTION: makes it where there is none.
root_of() {
    root=$roots/$1
    [ -f "$root/made" ] && return
    echo "Making $root" >&2
    rm -rf "$root"
    debootstrap --variant=minbase "$1" "$root" >"$roots/$1.log" 2>&1 || { tail "$roots/$1.log" >&2; return 1; }
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
    : >"$root/made"
}

# copy_to FOLDER: what git knows, or all but build folders.
copy_to() {
    rm -rf "$1" && mkdir -p "$1"
    if git -C "$sources" rev-parse >/dev/null 2>&1; then
        git -C "$sources" ls-files -z --cached --others --exclude-standard | tar -c -C "$sources" --null -T -
    else
        tar -c -C "$sources" --exclude='./build*' .
    fi | tar -x -C "$1"
}

minutes() { # since TIME
    awk "BEGIN { printf \"%.1f\", ($(date +%s) - $1) / 60 }"
}

table=""
failed=0
for name in $names; do
    line=$(echo "$lines" | grep "^$name ") || { echo "there is no $name: sed -n '/^lines=/,/\"$/p' $0" >&2; exit 2; }
    # shellcheck disable=SC2086
    set -- $line
    distribution=$2 cc=$3 cxx=$4
    shift 4
    root_of "$distribution"
    copy_to "$root/root/$name"
    log=$roots/$name.log
    echo "== $name: $cc in $distribution; log: $log"
    inside "$root" "cd /root/$name; apt-get -q update; apt-get -q -y install make $*; make deps" >"$log" 2>&1 ||
        { tail -n 20 "$log"; echo "the packages cannot be installed"; exit 1; }
    version=$(inside "$root" "$cc -dumpfullversion -dumpversion")
    meson=$(inside "$root" "meson --version")
    make="cd /root/$name; export CC=$cc CXX=$cxx JOBS=$jobs SETUP=-Dcuda=disabled"
    begin=$(date +%s) outcome=""
    inside "$root" "$make; make demo" >>"$log" 2>&1 || outcome="make demo failed"
    demo=$(minutes "$begin")
    begin=$(date +%s)
    if [ -z "$outcome" ] && [ -n "$whole" ]; then
        inside "$root" "$make; make all" >>"$log" 2>&1 || outcome="make all failed"
    fi
    if [ -z "$outcome" ]; then
        inside "$root" "$make; ninja -C build -j $jobs \$(python3 tests/needed.py build $tests)
            TUTTI_TEST_QUICK=1 meson test -C build --no-rebuild --print-errorlogs $tests" >>"$log" 2>&1 ||
            outcome="tests failed"
        [ -n "$outcome" ] || outcome="$(sed -n 's/^Ok: *\([0-9]*\).*/\1/p' "$log" | tail -n 1) tests passed"
    fi
    case $outcome in *failed) failed=1 && tail -n 30 "$log" ;; esac
    warnings=$(grep -c 'warning: .*\[-W' "$log") || true
    what="$distribution, $cc $version, meson $meson"
    table="$table| $name | $what | $demo | $(minutes "$begin") | $outcome | $warnings |
"
    echo "   $outcome, $warnings warnings"
    rm -rf "${root:?}/root/$name"
done
echo
echo "| Name | What | \`make demo\`, minutes | tests, minutes | Outcome | Warnings |"
echo "|---|---|---|---|---|---|"
printf '%s' "$table"
exit $failed
