#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fetch.sh NAME PACKAGE...: has packages of PyPI in the virtual environment build-NAME. uv fetches them, in a third of
# the processor time that pip takes for PyTorch; pip does where there is no uv to be had. Files that several
# environments have are linked, not copied. FETCH_OPTIONS: more options of both, such as --upgrade.
set -eu
cd "$(dirname "$0")/.."
name=$1 python=build-$1/bin/python uv=build-uv/bin/uv
shift
if [ ! -x $uv ]; then
    [ -x build-uv/bin/python ] || /usr/bin/python3 -m venv build-uv
    build-uv/bin/python -m pip install -q uv || echo "No uv to be had: pip fetches, which takes longer" >&2
fi
[ -x "$python" ] || echo "Fetching $*"
if [ -x $uv ]; then
    export UV_CACHE_DIR=build-uv/cache UV_PYTHON_DOWNLOADS=never
    [ -x "$python" ] || $uv venv -q --python /usr/bin/python3 "build-$name"
    # shellcheck disable=SC2086
    exec $uv pip install -q --python "$python" ${FETCH_OPTIONS:-} "$@"
fi
[ -x "$python" ] || /usr/bin/python3 -m venv "build-$name"
# shellcheck disable=SC2086
exec "$python" -m pip install -q ${FETCH_OPTIONS:-} "$@"
