#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A hook of tutti master for Kubernetes, where agents are called by their nodes (tutti agent --host NODE): no new pods
# on the node of a verdict; if the job stands, its pods there are deleted, and its controller starts others elsewhere.
#
#   TUTTI_HOOK_SELECTOR   labels of the job's pods, such as batch.kubernetes.io/job-name=train
#   TUTTI_HOOK_NAMESPACE  theirs (default: that of kubectl's context)
set -eu
. "$(dirname "$0")/common.sh"

[ -n "${TUTTI_HOOK_SELECTOR-}" ] || fail "TUTTI_HOOK_SELECTOR is not set: which pods are the job's?"
act kubectl cordon "$TUTTI_VERDICT_HOST"
# A process that is stopped does not hear SIGTERM: the grace is short.
[ "$stands" = 0 ] || act kubectl delete pods ${TUTTI_HOOK_NAMESPACE:+"--namespace=$TUTTI_HOOK_NAMESPACE"} \
    "--selector=$TUTTI_HOOK_SELECTOR" "--field-selector=spec.nodeName=$TUTTI_VERDICT_HOST" --grace-period=5 --wait=false
