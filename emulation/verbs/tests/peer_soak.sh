#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The randomised peer test for a long time, with faults, in a network namespace of its own. Meant for builds with a
# sanitizer: any finding ends it with a failure. Usage: peer_soak.sh BUILD [SECONDS [SEED [FAULTS]]]
seed=${3:-1}
faults=${4:-drop=0.01,dup=0.01,reorder=0.01,delay=0.01,corrupt=0.002}
export SOFTVERBS_FAULT="$faults,seed=$seed" SOFTVERBS_STATS=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1
exec "$(dirname "$0")/own_net.sh" "$1/emulation/verbs/verbs_peer" "${2:-600}" "$seed"
