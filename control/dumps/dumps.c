/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes dumps, and makes boxes of them. */
#include "dumps/dumps.h"
#include "dumps/readers.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define PICKLE 0x80 /* first byte of a pickle of protocol 2 or later */

static const struct {
    const char *name;
    bool (*knows)(const json_t *root);
    tutti_result_t (*read)(struct dump *dump);
} libraries[] = {{DUMP_RECORDER, recorder_knows, recorder_read},
                 {DUMP_NCCLX, ncclx_knows, ncclx_read},
                 {DUMP_RAS, ras_knows, ras_read}};

static tutti_result_t read_root(struct dump *dump)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (libraries[i].knows(dump->root)) {
            tutti_result_t result = libraries[i].read(dump);
            for (size_t j = 0; j < dump->count; j++)
                dump_text(dump->boxes[j]->header.library, sizeof dump->boxes[j]->header.library, libraries[i].name);
            return result;
        }
    return error_note(TUTTI_INVALID_USAGE,
                      "reading %s: neither a black box, nor a dump of the Flight Recorder, of NCCL's RAS or of NCCLX",
                      dump->path);
}

static json_t *parse(const char *path, const void *bytes, size_t size)
{
    json_error_t error;
    if (size && *(const uint8_t *)bytes == PICKLE)
        return pickle_read(bytes, size, path);
    json_t *root = json_loadb(bytes, size, 0, &error);
    if (!root)
        error_note(TUTTI_INVALID_USAGE, "reading %s: neither a black box nor a dump: as JSON, line %d: %s", path,
                   error.line, error.text);
    return root;
}

tutti_result_t dump_read(const struct dump_file *file, struct blackbox ***boxes, size_t *count)
{
    json_t *root = parse(file->name, file->bytes, file->size);
    struct dump dump = {.path = file->name, .written = file->written, .root = root};
    tutti_result_t result = root ? read_root(&dump) : TUTTI_INVALID_USAGE;
    json_decref(root);
    if (result != TUTTI_SUCCESS) {
        for (size_t i = 0; i < dump.count; i++)
            blackbox_free(dump.boxes[i]);
        free(dump.boxes);
        return result;
    }
    *boxes = dump.boxes;
    *count = dump.count;
    return TUTTI_SUCCESS;
}
