/* SPDX-License-Identifier: Apache-2.0 */
/* Answers for policies that do not care. */
#include "link/policy.h"

int path_all_data(void *state, const struct path_question *question, struct path_wish *wishes)
{
    enum path_role data = question->messages && !question->data ? 0 : PATH_DATA;
    for (int i = 0; i < question->likely; i++)
        wishes[i].roles = (uint16_t)(data | (question->messages && i == 0 ? PATH_CONTROL : 0));
    return question->likely;
}

static tutti_result_t no_settings(struct wire_process *self)
{
    return TUTTI_SUCCESS;
}

static struct path_window no_window(void *state, const struct path_lane *lane, const struct path_payload *payload,
                                    uint64_t now)
{
    return (struct path_window){0};
}

static void ignore_posted(void *state, const struct path_lane *lane, size_t length, uint64_t now)
{
}

static void ignore_landed(void *state, const struct path_lane *lane, size_t length, uint64_t posted, uint64_t landed)
{
}

static void ignore_lane(void *state, const struct path_lane *lane)
{
}

static lane_set any_lane(void *state, const struct path_payload *payload, uint64_t now)
{
    return 0;
}

static uint64_t longest(void *state, const struct path_lane *const *lanes, int count,
                        const struct path_payload *payload, uint64_t most)
{
    return most;
}

static int policy_same_source(const uint8_t *peer, uint16_t index, uint16_t has, uint64_t now)
{
    return 0;
}

static int any_source(const struct path_source *lane, uint64_t now)
{
    return 0;
}

struct path_policy path_complete(const struct path_policy *policy)
{
    return (struct path_policy){.name = policy->name,
                                .state_bytes = policy->state_bytes,
                                .open = policy->open ? policy->open : no_settings,
                                .lanes = policy->lanes ? policy->lanes : path_all_data,
                                .window = policy->window ? policy->window : no_window,
                                .pick = policy->pick,
                                .posted = policy->posted ? policy->posted : ignore_posted,
                                .landed = policy->landed ? policy->landed : ignore_landed,
                                .up = policy->up ? policy->up : ignore_lane,
                                .down = policy->down ? policy->down : ignore_lane,
                                .credit = policy->credit ? policy->credit : any_lane,
                                .segment = policy->segment ? policy->segment : longest,
                                .source = policy->source ? policy->source : any_source,
                                .steered = policy->steered ? policy->steered : policy_same_source};
}
