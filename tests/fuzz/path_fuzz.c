/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes to the readers of a path master and of its agents. By the first byte: a question, the lines of tenants, or
 * what processes ask and a master answers, in turn. What is taken makes sense, what is refused has a sentence, and no
 * process hears a port of another one's lane.
 */
#include "pathagent/table.h"
#include "pathmaster/ask.h"
#include "pathmaster/tenants.h"

#include "base/error.h"
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

#define PROCESSES 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void question(const uint8_t *data, size_t size)
{
    Tutti__PathAsk *ask = NULL;
    error_note(TUTTI_SUCCESS, "%s", "");
    if (path_ask_read(data, size, &ask)) {
        must(!ask && *error_last());
        return;
    }
    for (size_t i = 0; i < ask->n_lanes; i++)
        must(ask->lanes[i]->from.len == PATH_ADDRESS && ask->lanes[i]->parts);
    for (size_t i = 0; i < ask->n_probed; i++)
        must(ask->probed[i]->lost <= ask->probed[i]->judged && ask->probed[i]->n_hops <= PATH_HOPS);
    path_ask_free(ask);
}

static void tenants(const uint8_t *data, size_t size)
{
    struct tenants list;
    char *text = strndup((const char *)data, size);
    must(text);
    error_note(TUTTI_SUCCESS, "%s", "");
    if (tenants_parse("text", text, &list))
        must(*error_last());
    else
        must(list.count && strlen(list.token[0].text) >= TOKEN_LEAST && *list.tenant[0].name);
    tenants_free(&list);
    free(text);
}

/* Ends of processes' lanes hear of numbers that they asked for. */
static void on_tell(void *context, int32_t client, const struct wire_lease_answer *answer)
{
    const bool(*asked)[256] = context;
    must(client >= 0 && client < PROCESSES && answer->number < 256 && asked[client][answer->number]);
}

/* False: it is none, or none to our question. */
static bool take(struct lane_table *table, const uint8_t *data, size_t size)
{
    Tutti__PathAnswer *read = NULL;
    bool good = path_answer_read(data, size, &read) == TUTTI_SUCCESS && table_answer(table, read) == TUTTI_SUCCESS;
    path_answer_free(read);
    return good;
}

static void answer(struct lane_table *table, const uint8_t *data, size_t size)
{
    size_t length;
    Tutti__PathAsk more = TUTTI__PATH_ASK__INIT;
    uint8_t *bytes = table_question(table, &more, &length);
    Tutti__PathAsk *ask = NULL;
    must(bytes && path_ask_read(bytes, length, &ask) == TUTTI_SUCCESS);
    if (size && data[0] % 2) { /* one that fits, with ports of the data */
        Tutti__PathAnswer fits = TUTTI__PATH_ANSWER__INIT;
        Tutti__PathGiven given[256], *givens[256];
        fits.come_ms = 1 + data[0];
        fits.unknown = data[0] & 2;
        for (size_t i = 0; i < ask->n_lanes && i < 256; i++) {
            given[i] = (Tutti__PathGiven)TUTTI__PATH_GIVEN__INIT;
            given[i].number = ask->lanes[i]->number;
            given[i].port = i < size ? 0xC000u + data[i] : 0;
            givens[fits.n_given++] = &given[i];
        }
        fits.given = fits.moved = givens;
        fits.n_moved = fits.n_given / 2;
        uint8_t *reply = path_pack(&fits.base, &length);
        must(reply && (ask->n_lanes > 256 || take(table, reply, length)));
        free(reply);
    } else if (!take(table, data, size)) {
        table_fail(table);
    }
    path_ask_free(ask);
    free(bytes);
}

static void agent(const uint8_t *data, size_t size)
{
    bool asked[PROCESSES][256] = {{false}};
    struct lane_table *table = table_open(on_tell, asked);
    must(table);
    for (size_t i = 0; i + 8 < size; i += 8) {
        const uint8_t *at = data + i;
        int32_t client = at[1] % PROCESSES;
        struct wire_lease_ask ask = {
            .magic = at[0] == 255 ? 0 : WIRE_LEASE_ASK, .number = at[2], .parts = at[3], .port = at[4], .flags = at[5]};
        memset(ask.from, at[6] & 3, sizeof ask.from);
        if (at[0] % 8 < 5) {
            if (table_ask(table, client, &ask))
                asked[client][at[2]] = true;
        } else if (at[0] % 8 == 5) {
            table_leave(table, client);
            memset(asked[client], 0, sizeof asked[client]);
        } else {
            answer(table, at, size - i);
        }
    }
    for (int32_t client = 0; client < PROCESSES; client++)
        table_leave(table, client);
    must(!table_lanes(table));
    table_close(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    (data[0] % 3 == 0 ? question : data[0] % 3 == 1 ? tenants : agent)(data + 1, size - 1);
    return 0;
}
