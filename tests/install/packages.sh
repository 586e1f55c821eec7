#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# packages.sh SOURCES BUILD: Debian packages of what was built there, installed into an empty root, as a stranger uses
# them: ranks, a program that pkg-config helps to build, NCCL's interface, Python. TUTTI_TEST_FULL=1: lintian, too.
set -eu
sources=$1 build=$2
PATH=$PATH:/usr/sbin:/sbin
for tool in dpkg-buildpackage dh dh_python3 chrpath ldconfig; do
    command -v "$tool" >/dev/null || { echo "SKIPPED: $tool is not installed: make deb-deps"; exit 77; }
done
as_root=""
[ "$(id -u)" = 0 ] || as_root=fakeroot # files are root's in a package
command -v "${as_root:-sh}" >/dev/null || { echo "SKIPPED: neither root nor fakeroot"; exit 77; }
/usr/bin/python3 -c 'import setuptools, wheel' 2>/dev/null ||
    { echo "SKIPPED: /usr/bin/python3 lacks setuptools or wheel: make deb-deps"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
lib=$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)

maintainer="A Packager <packager@tutti.invalid>"
make -s -C "$sources" deb DEB="$work/deb" DEB_FLAGS=-d TUTTI_BUILD="$build" DEB_BUILD_OPTIONS=noautodbgsym \
    MAINTAINER="$maintainer" HOMEPAGE=https://tutti.invalid DPKG_GENSYMBOLS_CHECK_LEVEL=4 \
    >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log"; echo "A new call of the library wants a line in debian/libtutti0.symbols"; exit 1; }
[ "$(find "$work/deb" -name '*.deb' | wc -l)" = 7 ] || { echo "seven packages were expected:"; ls "$work/deb"; exit 1; }

# As the packages' rules configure what nobody has built yet.
meson setup -Dtests=disabled -Dcuda=disabled "$work/configured" "$work/deb/tutti" >"$work/log" 2>&1 ||
    { tail "$work/log"; exit 1; }

mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/etc"
: >"$root/var/lib/dpkg/status"
# Nothing that they need is in the root, so scripts of packages could not run there.
into() {
    $as_root dpkg --root="$root" --force-not-root --force-depends --force-bad-path --log="$work/dpkg.log" "$@" \
        >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
}
into -i "$work"/deb/lib*.deb "$work"/deb/tutti-doc_*.deb
dpkg-deb -x "$work"/deb/tutti_*.deb "$root"
dpkg-deb -e "$work"/deb/tutti_*.deb "$work/scripts"
into --unpack "$work"/deb/python3-tutti_*.deb

expect() {
    [ "$2" = "$3" ] || { echo "$1: \"$2\" where \"$3\" was expected"; exit 1; }
}
for package in "$work"/deb/*.deb; do
    expect "who made $package" "$(dpkg-deb -f "$package" Maintainer Homepage)" "Maintainer: $maintainer
Homepage: https://tutti.invalid"
done
expect "symbols that dependent packages are told of" \
    "$(cat "$root"/var/lib/dpkg/info/libtutti0*.symbols | grep -c '^ tutti_')" \
    "$(nm -D --defined-only "$lib/libtutti.so.0" | grep -c ' tutti_')"
[ -f "$root/usr/share/doc/tutti-doc/docs/index.md" ] || { echo "the pages are not in tutti-doc"; exit 1; }
export LD_LIBRARY_PATH="$lib"
tutti="$root/usr/bin/tutti"
"$tutti" run -n 2 -- "$tutti" perf allreduce -b 8 -e 64K -f 16 -n 2 -w 1 >"$work/log" || { cat "$work/log"; exit 1; }
grep -q "Out of bounds values : 0 OK" "$work/log" || { cat "$work/log"; exit 1; }

export PKG_CONFIG_LIBDIR="$lib/pkgconfig" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
expect "version" "$(pkg-config --modversion tutti)" "$("$tutti" version | cut -d' ' -f2)"
# shellcheck disable=SC2046
cc -Wall -Werror -o "$work/sum" "$sources/tests/install/sum.c" \
    $(pkg-config --define-variable=prefix="$root/usr" --cflags --libs tutti)
expect "a program" "$("$tutti" run -n 2 -- "$work/sum" | sort)" "[0] sum 3
[1] sum 3"

if command -v cmake >/dev/null; then
    mkdir "$work/stranger"
    cp "$sources/tests/install/CMakeLists.txt" "$sources/tests/install/sum.c" "$work/stranger"
    cmake -S "$work/stranger" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$root/usr" >"$work/log" 2>&1 &&
        cmake --build "$work/cmake" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    expect "a program of CMake" "$("$tutti" run -n 2 -- "$work/cmake/sum" | sort)" "[0] sum 3
[1] sum 3"
fi

expect "no library of NCCL's name among the system's" "$(find "$lib" -maxdepth 1 -name 'libnccl*')" ""
expect "NCCL's interface" "$(LD_PRELOAD= python3 -c 'import ctypes, sys
version = ctypes.c_int()
ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version))
print(version.value)' "$lib/tutti/libnccl.so.2")" 22809

python3 -c 'import ctypes, sys
for version in range(8, 12):
    ctypes.c_void_p.in_dll(ctypes.CDLL(sys.argv[1]), "ncclNetPlugin_v%d" % version)' "$lib/tutti/libnccl-net-tutti.so"

# By itself: devices for a program, a network that is only shown, and the manual.
alone=$work/alone
dpkg-deb -x "$work"/deb/softverbs_*.deb "$alone"
expect "what softverbs needs of ours" "$(dpkg-deb -f "$work"/deb/softverbs_*.deb Depends | grep -c tutti || true)" 0
expect "what softverbs needs of others" \
    "$(dpkg-deb -f "$work"/deb/softverbs_*.deb Depends | grep -o 'libc6\|libyaml-0-2\|iproute2' | sort -u |
        tr '\n' ' ')" \
    "iproute2 libc6 libyaml-0-2 "
cc -Wall -Werror -o "$work/devices" "$sources/tests/install/devices.c" -libverbs
expect "a device of softverbs" \
    "$(LD_LIBRARY_PATH= "$alone/usr/bin/softverbs" run -- "$work/devices" | grep -x soft_lo)" soft_lo
for example in "$alone"/usr/share/doc/softverbs/examples/*.yaml; do
    "$alone/usr/bin/tutti-lab" up "$example" --dry-run >"$work/log" && grep -q '^netns add' "$work/log" ||
        { echo "tutti-lab does not read $example"; exit 1; }
done
[ -f "$alone/usr/share/man/man1/softverbs.1.gz" ] && [ -f "$alone/usr/share/man/man1/tutti-lab.1.gz" ] &&
    [ ! -f "$root/usr/share/man/man1/softverbs.1.gz" ] ||
    { echo "softverbs' manual is not where it should be"; exit 1; }

site="$root/usr/lib/python3/dist-packages"
expect "Python" "$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$site" PATH="$root/usr/bin:$PATH" /usr/bin/python3 \
    -m tutti.run -n 2 --no-tag -- /usr/bin/python3 -c 'import array, sys, tutti
with tutti.init() as comm:
    one = array.array("d", [1.0])
    comm.allreduce(one)
    sys.stdout.write(f"{one[0]}\n") # a line at once: another rank writes, too' | sort -u)" 2.0
grep -q "tutti.torch:autoload" "$site"/tutti-*.egg-info/entry_points.txt ||
    { echo "PyTorch does not find the backend"; exit 1; }
[ ! -e "$site/tutti/_carried" ] || { echo "Python's package carries a library"; exit 1; }

# Services: the programs are there and know the options. Whoever installs the package starts and enables none.
for name in tutti-export tutti-agent tutti-master; do
    unit=$(find "$root" -name "$name.service")
    [ -n "$unit" ] || { echo "there is no $name.service"; exit 1; }
    # shellcheck disable=SC2046
    (OPTIONS="" MASTER=http://127.0.0.1:9 CREDENTIALS_DIRECTORY=/ STATE_DIRECTORY=/ &&
        eval "set -- $(sed -n 's/^ExecStart=//p' "$unit")" && "$root$@" --help >"$work/log" 2>&1) ||
        { echo "$unit:"; cat "$work/log"; exit 1; }
    ! grep "deb-systemd-invoke .*start" "$work/scripts/postinst" && grep -q "debian-installed '$name" \
        "$work/scripts/postinst" || { echo "installing starts or enables $name"; exit 1; }
done
if command -v systemd-analyze >/dev/null; then
    find "$root" -name 'tutti-*.service' -exec cp {} "$work" \;
    sed -i "s|=/usr/bin|=$root/usr/bin|" "$work"/tutti-*.service
    systemd-analyze verify "$work"/tutti-*.service 2>"$work/log" || :
    ! grep "$work" "$work/log" || { echo "systemd does not take a unit"; exit 1; }
fi

zcat "$root/usr/share/man/man3/tutti_allreduce.3.gz" | grep -q "SH SHAPES AND UNITS"
zcat "$root/usr/share/man/man1/tutti-run.1.gz" | grep -q "SH DESCRIPTION"
[ -f "$root/usr/share/bash-completion/completions/tutti" ]
[ -f "$root/usr/share/zsh/site-functions/_tutti" ]
[ -f "$root/usr/share/fish/vendor_completions.d/tutti.fish" ]
expect "run paths" "$(find "$root/usr" "$alone/usr" -type f \( -name '*.so*' -o -path '*/bin/*' \) \
    -exec chrpath --list {} + 2>/dev/null | grep PATH=)" ""
expect "files that name the folder of the build" "$(grep -rlF "$work/deb" "$root/usr" "$alone" || true)" ""

if [ -n "${TUTTI_TEST_FULL:-}" ] && command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning --suppress-tags bad-distribution-in-changes-file "$work"/deb/*.changes
fi
