/* SPDX-License-Identifier: Apache-2.0 */
/* Answers for policies that do not care. */
#include "link/policy.h"

int path_all_data(void *state, const struct path_question *question, struct path_wish *wishes)
{
    enum path_role data = question->messages && !question->data ? PATH_BACKUP : PATH_DATA;
    for (int i = 0; i < question->likely; i++)
        wishes[i].roles = (uint16_t)(data | (question->messages && i == 0 ? PATH_CONTROL : 0));
    return question->likely;
}

uint32_t path_no_window(void *state, const struct path_lane *lane)
{
    return 0;
}

void path_ignore_posted(void *state, const struct path_lane *lane, size_t length, uint64_t now)
{
}

void path_ignore_landed(void *state, const struct path_lane *lane, size_t length, uint64_t posted, uint64_t landed)
{
}

void path_ignore_lane(void *state, const struct path_lane *lane)
{
}

uint64_t path_any_lane(void *state, size_t length)
{
    return 0;
}
