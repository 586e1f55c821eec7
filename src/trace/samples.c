/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/samples.h"

#include "trace/trace.h"

#include <string.h>

double samples_see(const struct wire_box_op *ring, uint64_t since, double *bytes)
{
    double seen = 0;
    for (unsigned i = 0; i < WIRE_BOX_OPS; i++) {
        uint64_t stamp = __atomic_load_n(&ring[i].stamp, __ATOMIC_ACQUIRE);
        if (!stamp || trace_load(&ring[i].begin) <= since)
            continue;
        seen++;
        if (!(stamp & WIRE_OP_DEVICE) && (trace_load(&ring[i].what) & 0xff) < WIRE_SEND)
            *bytes += (double)trace_load(&ring[i].bytes);
    }
    return seen;
}

/* Makes room: the sample goes whose neighbours are nearest to each other for their age. The first one stays. */
static void thin_out(struct wire_box_samples *samples, uint64_t now)
{
    struct wire_box_sample *items = samples->items;
    size_t least = 1;
    double best = 2;
    for (size_t i = 1; i + 1 < WIRE_BOX_SAMPLES; i++) {
        double part = (double)(items[i + 1].at - items[i - 1].at) / (double)(now - items[i - 1].at);
        if (part < best)
            best = part, least = i;
    }
    memmove(items + least, items + least + 1, (WIRE_BOX_SAMPLES - 1 - least) * sizeof *items);
    memmove(samples->called + least, samples->called + least + 1,
            (WIRE_BOX_SAMPLES - 1 - least) * sizeof *samples->called);
    samples->count = WIRE_BOX_SAMPLES - 1;
}

void samples_add(struct wire_box_samples *samples, struct wire_box_sample sample, uint64_t called)
{
    uint64_t stamp = samples->stamp;
    trace_store(&samples->stamp, stamp + 1);
    trace_fence();
    if (samples->count >= WIRE_BOX_SAMPLES)
        thin_out(samples, sample.at);
    uint64_t count = samples->count, last = count ? samples->items[count - 1].at : 0;
    sample.at = sample.at > last ? sample.at : last + 1;
    samples->called[count] = called + (count ? samples->called[count - 1] : 0);
    samples->items[count] = sample;
    samples->count = count + 1;
    __atomic_store_n(&samples->stamp, stamp + 2, __ATOMIC_RELEASE);
}
