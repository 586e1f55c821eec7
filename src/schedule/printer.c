/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule as text. */
#include "schedule/printer.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* "OUT[2]" or "OUT[2..5]". */
static void format_place(char *out, size_t size, int buffer, int block, int nblocks)
{
    static const char *const names[] = {"IN", "OUT", "SCRATCH"};
    const char *name = buffer <= BUFFER_SCRATCH ? names[buffer] : "?";
    if (nblocks == 0)
        snprintf(out, size, "nothing");
    else if (nblocks == 1)
        snprintf(out, size, "%s[%d]", name, block);
    else
        snprintf(out, size, "%s[%d..%d]", name, block, block + nblocks - 1);
}

char *printer_action(const struct action *a, char *out, size_t size)
{
    char src[48], dst[48];
    const char *final = a->final ? " (final)" : "";
    format_place(src, sizeof src, a->src_buffer, a->src_block, a->nblocks * (a->kind == ACTION_REDUCE ? a->nsrc : 1));
    format_place(dst, sizeof dst, a->dst_buffer, a->dst_block, a->nblocks);
    switch (a->kind) {
    case ACTION_SEND:
        snprintf(out, size, "send %s to %d", src, a->peer);
        break;
    case ACTION_RECV:
        snprintf(out, size, "recv %s from %d", dst, a->peer);
        break;
    case ACTION_RECV_REDUCE:
        snprintf(out, size, "%s = %s op recv from %d%s", dst, src, a->peer, final);
        break;
    case ACTION_COPY:
        snprintf(out, size, "%s = %s", dst, src);
        break;
    default:
        snprintf(out, size, "%s = op over %s%s", dst, src, final);
    }
    return out;
}

static void print_rank(FILE *file, const struct algorithm *algorithm, const struct shape *shape, int rank, int round,
                       struct action *actions)
{
    char text[160];
    int count = schedule_round(algorithm, shape, rank, round, actions);
    for (int i = 0; i < count; i++) {
        if (i == 0)
            fprintf(file, "  rank %-6d ", rank);
        fprintf(file, "%s%s", i ? "; " : "", printer_action(&actions[i], text, sizeof text));
    }
    if (count)
        fputc('\n', file);
}

static void print_head(FILE *file, const struct algorithm *algorithm, const struct shape *shape)
{
    fprintf(file, "%s %s: %d rank%s", schedule_coll_name(shape->coll), algorithm->name, shape->nranks,
            shape->nranks == 1 ? "" : "s");
    if (schedule_has_root(shape->coll))
        fprintf(file, ", root %d", shape->root);
    int rounds = algorithm->rounds(shape), blocks = algorithm->blocks(shape);
    fprintf(file, ", %d round%s, %d block%s\n", rounds, rounds == 1 ? "" : "s", blocks, blocks == 1 ? "" : "s");
}

tutti_result_t printer_text(FILE *file, const struct algorithm *algorithm, const struct shape *shape, int only_rank)
{
    if (!schedule_fits(algorithm, shape) || only_rank < -1 || only_rank >= shape->nranks)
        return error_note(TUTTI_INVALID_ARGUMENT, "printing %s %s: it does not take %d ranks, root %d, rank %d",
                          schedule_coll_name(shape->coll), algorithm->name, shape->nranks, shape->root, only_rank);
    struct action *actions = calloc((size_t)algorithm->actions(shape) + 1, sizeof *actions);
    if (!actions)
        return error_set(TUTTI_SYSTEM_ERROR, "printing a schedule: out of memory");
    int first = only_rank < 0 ? 0 : only_rank, end = only_rank < 0 ? shape->nranks : only_rank + 1;
    print_head(file, algorithm, shape);
    for (int round = 0; round < algorithm->rounds(shape); round++) {
        fprintf(file, "round %d\n", round);
        for (int rank = first; rank < end; rank++)
            print_rank(file, algorithm, shape, rank, round, actions);
    }
    free(actions);
    return TUTTI_SUCCESS;
}
