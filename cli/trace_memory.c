/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of a communicator on a GPU: bytes by where they are, and what for. */
#include "cli/trace.h"
#include "cli/trace_text.h"

#include <inttypes.h>
#include <string.h>

static const char *const places[] = {"device", "pinned", "host"};
enum { PLACES = sizeof places / sizeof *places };

static bool is_in(size_t row, const char *where)
{
    return strcmp(blackbox_memory_row(row)->where, where) == 0;
}

void view_memory_line(FILE *out, const struct blackbox_comm *comm)
{
    const char *comma = "    memory: ";
    if (!blackbox_memory(comm, NULL))
        return;
    for (int i = 0; i < PLACES; i++) {
        const char *bracket = " (";
        uint64_t bytes = blackbox_memory(comm, places[i]);
        fprintf(out, "%s%s %s", comma, places[i], view_size(bytes).text);
        comma = ", ";
        for (size_t row = 0; row < WIRE_BOX_MEMORY; row++) {
            if (!is_in(row, places[i]) || !comm->memory[row])
                continue;
            fprintf(out, "%s%s %s", bracket, blackbox_memory_row(row)->name, view_size(comm->memory[row]).text);
            bracket = ", ";
        }
        if (bytes)
            fputc(')', out);
    }
    fputc('\n', out);
}

json_t *view_memory_json(const struct blackbox_comm *comm)
{
    json_t *out = json_object();
    for (int i = 0; i < PLACES; i++) {
        json_t *rows = json_object();
        for (size_t row = 0; row < WIRE_BOX_MEMORY; row++)
            if (is_in(row, places[i]) && comm->memory[row])
                json_object_set_new(rows, blackbox_memory_row(row)->name, json_integer((json_int_t)comm->memory[row]));
        json_object_set_new(
            out, places[i],
            json_pack("{s:I, s:o}", "bytes", (json_int_t)blackbox_memory(comm, places[i]), "for", rows));
    }
    return out;
}
