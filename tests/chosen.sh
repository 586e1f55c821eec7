#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# chosen.sh NAME: the options of `meson test` that choose the tests which the build of that name is tested with.

# Unit tests, and whole collectives over shared memory.
only_units="--no-suite style --no-suite cli --no-suite fault --no-suite conformance --no-suite verbs --no-suite launch
    --no-suite example --no-suite abi --no-suite lab --no-suite tcp"

# Tests that have one thread in each process, and programs that start others: the thread sanitizer has nothing to find
# there that it does not find in the tests of what they use.
no_threads="--no-suite alone --no-suite link --no-suite conformance --no-suite cli --no-suite launch"

case $1 in
release) ;;
asan) echo "--no-suite style --no-suite script --no-suite lab --no-suite patient" ;;
tsan) echo "$no_threads --no-suite style --no-suite script --no-suite lab --no-suite patient --no-suite long" ;;
aarch64) echo "--no-suite style" ;;
aarch64-quick) echo "$only_units" ;;
nohwloc) echo "topology cli" ;;
*) echo "--no-suite style" ;;
esac
