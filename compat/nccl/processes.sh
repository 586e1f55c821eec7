#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# processes.sh TUTTI PROGRAM RANKS: runs PROGRAM in RANKS processes that meet through a file.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" run -n "$3" --timeout 120 -- "$2" "$folder/id"
