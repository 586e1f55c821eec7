#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing, and says so. Does nothing, without asking for any right, when none is.
# A package of another architecture is NAME:ARCHITECTURE. NAME? is left out, and named, where there is no such package.
set -eu
installed() {
    dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}
missing="" foreign="" optional=""
for package in "$@"; do
    installed "${package%\?}" && continue
    case $package in
    *\?) optional="$optional ${package%\?}" ;;
    *) missing="$missing $package" ;;
    esac
    case $package in *:*) foreign="$foreign ${package#*:}" ;; esac
done
[ -z "$missing$optional" ] && exit 0
# Other distributions have other names: meson says what is not there.
if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get: please see that the equivalents are installed of:$missing" >&2
    exit 0
fi
sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
        [ -n "$missing" ] || exit 0
        echo "Please install, as root: apt-get install$missing" >&2
        echo "or go on without: make PACKAGES= ..." >&2
        exit 1
    }
    sudo=sudo
fi
apt() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}
[ -z "$missing" ] || echo "Installing:$missing"
fresh=yes
for architecture in $foreign; do
    dpkg --print-foreign-architectures | grep -qx "$architecture" && continue
    $sudo dpkg --add-architecture "$architecture"
    fresh=no
done
# The lists may be as old as the machine: they are refreshed when a package is not found in them.
# shellcheck disable=SC2086
if [ -z "$missing" ] || { [ $fresh = yes ] && apt install --no-install-recommends $missing >/dev/null 2>&1; }; then
    :
else
    apt update >/dev/null
    # shellcheck disable=SC2086
    apt install --no-install-recommends $missing >/dev/null
fi
for package in $optional; do
    apt install --no-install-recommends "$package" >/dev/null 2>&1 ||
        { apt update >/dev/null && apt install --no-install-recommends "$package" >/dev/null 2>&1; } ||
        echo "This distribution has no $package: what needs it is left out"
done
