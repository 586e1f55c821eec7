/* SPDX-License-Identifier: Apache-2.0 */
/* Events: the public calls. */
#include "base/events.h"

#include "base/error.h"
#include "comm/verdicts.h"

#include <stddef.h>

tutti_result_t tutti_events_open(tutti_events_t *events, int *descriptor)
{
    if (!events || !descriptor)
        return error_set(TUTTI_INVALID_ARGUMENT, "events is %p and descriptor %p; neither may be NULL", (void *)events,
                         (void *)descriptor);
    tutti_result_t result = events_open(events, verdicts_follow(), descriptor);
    if (result != TUTTI_SUCCESS)
        verdicts_leave();
    return result;
}

tutti_result_t tutti_events_next(tutti_events_t events, tutti_event_t *event)
{
    if (!events || !event)
        return error_set(TUTTI_INVALID_ARGUMENT, "events is %p and event %p; neither may be NULL", (void *)events,
                         (void *)event);
    if (event->size < offsetof(tutti_event_t, text) + sizeof event->text)
        return error_set(TUTTI_INVALID_ARGUMENT, "event.size is %zu; set it to sizeof(tutti_event_t)", event->size);
    verdicts_look();
    return events_next(events, event);
}

tutti_result_t tutti_events_close(tutti_events_t events)
{
    if (events && events_close(events))
        verdicts_leave();
    return TUTTI_SUCCESS;
}
