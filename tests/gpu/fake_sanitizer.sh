#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the program after its own options and ends as compute-sanitizer does. FAKE=errors finds some,
# FAKE=refused cannot run.
tool=$2
[ "$1 $3 $4 $5" = "--tool --report-api-errors no --error-exitcode" ] || exit 3
shift 6
if [ "${FAKE:-}" = refused ]; then
    echo "========= Error: Device not supported"
    exit 1
fi
echo "========= COMPUTE-SANITIZER"
"$@" || exit
found=0
[ "${FAKE:-}" != errors ] || found=2
if [ "$tool" = racecheck ]; then
    echo "========= RACECHECK SUMMARY: $found hazards displayed ($found errors, 0 warnings)"
else
    echo "========= ERROR SUMMARY: $found errors"
fi
[ "$found" = 0 ] || exit 86
