#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes cuda_calls.h from the definitions: calls.sh FILE.c... > cuda_calls.h
set -eu
echo '/* SPDX-License-Identifier: Apache-2.0 */'
echo '/* The calls of the stand-in. Written by calls.sh from the definitions. */'
echo '#pragma once'
echo
cat "$@" | awk '/^EXPORT /{p=1; sub(/^EXPORT /, "")} p{sub(/^ +/, " "); printf "%s", $0} p && /\)$/{print ";"; p=0}' |
    LC_ALL=C sort
