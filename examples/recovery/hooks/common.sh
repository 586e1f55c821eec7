# SPDX-License-Identifier: Apache-2.0
# Read by the hooks beside it. A hook says what it would run; with TUTTI_HOOK_ACT=1 it runs that.

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# No rank, host or process to blame: nothing to remove.
[ -n "${TUTTI_VERDICT_KIND-}" ] || fail "TUTTI_VERDICT_KIND is not set: this is a hook of tutti master"
[ -n "${TUTTI_VERDICT_HOST-}" ] || {
    echo "verdict $TUTTI_VERDICT_KIND names no host: nothing is done"
    exit 0
}

# Kinds whose culprit is a process or its host. The program is at fault where calls do not match, and a link has
# two ends: there a new start helps nobody. Whom a debugger holds, somebody is looking at.
case $TUTTI_VERDICT_KIND in
stopped | dead | behind | still | failed | absent | ahead | unread) stands=1 ;;
slow | starved | sender | receiver | interface) stands=0 ;;
*)
    echo "verdict $TUTTI_VERDICT_KIND is not of a process or host to remove: nothing is done"
    exit 0
    ;;
esac

act() {
    if [ "${TUTTI_HOOK_ACT-0}" = 1 ]; then
        echo "runs: $*"
        "$@"
    else
        echo "would run: $*"
    fi
}
