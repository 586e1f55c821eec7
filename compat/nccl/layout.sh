#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# layout.sh OURS THEIRS: two programs print the same.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" >"$folder/ours" && "$2" >"$folder/theirs" && diff "$folder/ours" "$folder/theirs"
