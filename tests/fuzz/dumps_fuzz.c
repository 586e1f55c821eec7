/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of other libraries may hold anything: a box that can be diagnosed, or a sentence. The first byte says how many
 * ranks the same dump is. */
#include "diagnosis/network.h"
#include "dumps/dumps.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RANKS 4
#define BOXES 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct blackbox *all[BOXES];
    size_t count = 0;
    for (int rank = 0; size && rank <= data[0] % RANKS; rank++) {
        char path[32];
        struct blackbox **boxes;
        size_t made;
        snprintf(path, sizeof path, "rank_%d", rank);
        if (dump_read(&(struct dump_file){path, data + 1, size - 1, data[0] * 8ull << 56}, &boxes, &made) !=
            TUTTI_SUCCESS)
            continue;
        for (size_t i = 0; i < made; i++)
            if (count < BOXES)
                all[count++] = boxes[i];
            else
                blackbox_free(boxes[i]);
        free(boxes);
    }
    const struct snapshot snapshot = {.now = {all, NULL, count}, .stuck = 1};
    struct findings found = diagnosis_find(&snapshot);
    struct network_report report;
    network_look(&snapshot, &report);
    network_free(&report);
    findings_free(&found);
    for (size_t i = 0; i < count; i++)
        blackbox_free(all[i]);
    return 0;
}
