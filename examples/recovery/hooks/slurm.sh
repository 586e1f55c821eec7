#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A hook of tutti master for Slurm, where agents are called by Slurm's names of nodes: the node of a verdict gets no new
# jobs; if the job stands, it is put into the queue again (sbatch --requeue), and starts on other nodes.
#
#   TUTTI_HOOK_JOB  the job's number (default: SLURM_JOB_ID, where the master runs within the job)
set -eu
. "$(dirname "$0")/common.sh"

job=${TUTTI_HOOK_JOB-${SLURM_JOB_ID-}}
case $job in
'' | *[!0-9]*) fail "TUTTI_HOOK_JOB is \"$job\": which job is it?" ;;
esac
act scontrol update "NodeName=$TUTTI_VERDICT_HOST" State=DRAIN \
    "Reason=tutti: $TUTTI_VERDICT_KIND, rank ${TUTTI_VERDICT_RANK:-unknown}"
[ "$stands" = 0 ] || act scontrol requeue "$job"
