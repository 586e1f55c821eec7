#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A hook of tutti master: kills the process that a verdict names, so that the launcher starts its ranks anew. On another
# host by ssh. A slow process is left alone.
set -eu
. "$(dirname "$0")/common.sh"

[ "$stands" = 1 ] || {
    echo "verdict $TUTTI_VERDICT_KIND: a slow process is not killed"
    exit 0
}
case ${TUTTI_VERDICT_PID-} in
'' | *[!0-9]* | 0 | 1) fail "TUTTI_VERDICT_PID is \"${TUTTI_VERDICT_PID-}\": no process" ;;
esac
if [ "$TUTTI_VERDICT_KIND" = dead ]; then
    echo "process $TUTTI_VERDICT_PID is dead already: nothing is done"
elif [ "$TUTTI_VERDICT_HOST" = "$(uname -n)" ]; then
    act kill -KILL "$TUTTI_VERDICT_PID"
else
    act ssh -o BatchMode=yes -- "$TUTTI_VERDICT_HOST" kill -KILL "$TUTTI_VERDICT_PID"
fi
