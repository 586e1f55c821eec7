#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing, and says so. Does nothing, without asking for any right, when none is.
set -eu
missing=""
for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
command -v apt-get >/dev/null || { echo "Please install the equivalents of:$missing" >&2; exit 1; }
sudo=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "Please install, as root:$missing" >&2; exit 1; }
    sudo=sudo
fi
echo "Installing:$missing"
# A lock held by another apt is waited for; one list refresh is enough.
install="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300"
# shellcheck disable=SC2086
$install install --no-install-recommends $missing >/dev/null 2>&1 || {
    $install update >/dev/null
    $install install --no-install-recommends $missing
}
