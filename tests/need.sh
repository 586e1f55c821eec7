#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing, and says so. Does nothing, without asking for any right, when none is.
# A package of another architecture is NAME:ARCHITECTURE.
set -eu
missing="" foreign=""
for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed && continue
    missing="$missing $package"
    case $package in *:*) foreign="$foreign ${package#*:}" ;; esac
done
[ -z "$missing" ] && exit 0
command -v apt-get >/dev/null || { echo "Please install the equivalents of:$missing" >&2; exit 1; }
sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "Please install, as root:$missing" >&2; exit 1; }
    sudo=sudo
fi
apt() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
}
echo "Installing:$missing"
fresh=yes
for architecture in $foreign; do
    dpkg --print-foreign-architectures | grep -qx "$architecture" && continue
    $sudo dpkg --add-architecture "$architecture"
    fresh=no
done
# The lists may be as old as the machine: they are refreshed when a package is not found in them.
# shellcheck disable=SC2086
if [ $fresh = yes ] && apt install --no-install-recommends $missing >/dev/null 2>&1; then
    exit 0
fi
apt update >/dev/null
# shellcheck disable=SC2086
apt install --no-install-recommends $missing >/dev/null
