#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the packet parser from fresh seeds: one frame of every operation. Or the connection manager: one message of
# every kind in every state.
# BUILD was set up with clang and -Dfuzz=true, and a sanitizer.
# Usage: fuzz.sh BUILD [SECONDS [packet|rdmacm]].
# A finding leaves its input in the working folder and the exit status is not 0.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/corpus"
"$(dirname "$0")/fuzz_seeds.py" "$work/seeds" "${3:-packet}"
name=verbs_packet_fuzz
[ "${3:-packet}" = packet ] || name=rdmacm_fuzz
"$1/emulation/verbs/$name" -max_total_time="${2:-600}" -print_final_stats=1 "$work/corpus" "$work/seeds"
