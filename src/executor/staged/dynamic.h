/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges whose lengths only GPUs know, between GPUs that share no memory. */
#ifndef TUTTI_EXECUTOR_STAGED_DYNAMIC_H
#define TUTTI_EXECUTOR_STAGED_DYNAMIC_H

#include "executor/staged/staged.h"

/* By the first channel, when the user's stream has come to the job: reads lengths, tells and hears them, and copies
 * what the rank keeps. The job is sends and receives then, perhaps none, of the channels that it has. */
tutti_result_t dynamic_prepare(struct channel *first, struct job *job);

#endif
