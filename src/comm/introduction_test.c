/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say when they meet: what fits, what does not, and what nobody may say. */
#include "comm/introduction.h"
#include "engine/team_open.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/intern.h"
#include "base/random.h"
#include "engine/engine_life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RANKS 6

static struct introduction all[RANKS];

static int begin(void **state)
{
    for (int rank = 0; rank < RANKS; rank++)
        introduction_begin(&all[rank], false, 5);
    return 0;
}

/* As ranks send them. */
static struct introductions *sent(void)
{
    static struct introduction_first first[RANKS];
    static uint8_t more[RANKS][INTRODUCTION_MOST], packed[RANKS * INTRODUCTION_MOST];
    static struct introductions said = {.nranks = RANKS, .first = first, .more = packed};
    for (int rank = 0; rank < RANKS; rank++)
        introduction_pack(&all[rank], &first[rank], more[rank]);
    said.each = introductions_more(first, RANKS);
    for (int rank = 0; rank < RANKS; rank++)
        memcpy(packed + (size_t)rank * said.each, more[rank], said.each);
    return &said;
}

static void refused(tutti_result_t why, const char *said)
{
    for (int me = 0; me < RANKS; me += 3) {
        assert_int_equal(introductions_compare(sent(), me), why);
        if (!strstr(error_last(), said))
            fail_msg("\"%s\" is not in \"%s\"", said, error_last());
    }
}

static void alike(void **state)
{
    memcpy(all[2].fact.nic, ((uint8_t[]){1, 0, 7}), 3);
    strcpy(all[2].fact.bus_id, "0000:17:00.0");
    assert_int_equal(introductions_compare(sent(), 4), TUTTI_SUCCESS);
}

static void unlike(void **state)
{
    all[4].choices++;
    refused(TUTTI_INVALID_USAGE, "rank 4 has another table of algorithms than rank ");
    all[4].settings++;
    assert_int_equal(introductions_compare(sent(), 1), TUTTI_IN_PROGRESS); /* ranks with one value hear of it, too */
    all[4].on_device = 1;
    refused(TUTTI_INVALID_USAGE, "rank 4 works on a GPU, rank ");
    all[4].version++;
    refused(TUTTI_INVALID_USAGE, "rank 4 has tutti ");
    all[4].fact.nic[0] = 99; /* of another version all else may be different */
    refused(TUTTI_INVALID_USAGE, "rank 4 has tutti ");
}

static void odd(size_t offset, uint8_t value, const char *what)
{
    begin(NULL);
    ((uint8_t *)&all[1])[offset] = value;
    refused(TUTTI_REMOTE_ERROR, what);
}

static void hostile(void **state)
{
    const size_t nic = offsetof(struct introduction, fact.nic), bus = offsetof(struct introduction, fact.bus_id);
    odd(nic, WIRE_DEVICES, "rank 1 introduces itself with an order of adapters");
    odd(nic + 1, 0, "an order of adapters"); /* behind the last */
    odd(bus, '\n', "a GPU");
    odd(bus + 3, '0', "a GPU"); /* behind the end */
    odd(offsetof(struct introduction, process.tcp) + sizeof(struct wire_address), 5, "an address");
    odd(offsetof(struct introduction, process.shares), 3, "a way to share memory");
    odd(offsetof(struct introduction, on_device), 2, "a kind of memory");
    begin(NULL);
    memset(all[1].fact.nic, 3, sizeof all[1].fact.nic);
    refused(TUTTI_REMOTE_ERROR, "an order of adapters"); /* twice the same */
    begin(NULL);
    memset(all[1].fact.bus_id, '0', sizeof all[1].fact.bus_id);
    refused(TUTTI_REMOTE_ERROR, "a GPU"); /* no end */
}

/* A rank of one adapter and one of many: what was said comes back, in few bytes where little was said. */
static void packed(void **state)
{
    struct introduction room;
    introduction_begin(&all[0], false, 5);
    memset(all[0].process.uuid, 1, 32);
    all[0].process.tcp[0] = (struct wire_address){.family = 4, .port = 4711, .bytes = {10, 0, 0, 1}};
    memset(&all[1].process, 7, sizeof all[1].process);
    struct introductions *said = sent();
    assert_true(said->first[0].bytes < 100);
    assert_true(said->first[1].bytes > INTRODUCTION_FIRST);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_non_null(introduction_of(said, rank, &room));
        assert_memory_equal(&room, &all[rank], sizeof room);
    }
    struct introduction_first *first = (struct introduction_first *)(uintptr_t)said->first;
    const int right = first[2].bytes;
    for (int length = 0; length < 0x10000; length += length < 1000 ? 1 : 999) {
        if (length == right)
            continue;
        sent();
        first[2].bytes = (uint16_t)length;
        assert_true(introductions_more(first, RANKS) <= INTRODUCTION_MOST);
        if (length <= INTRODUCTION_FIRST + (int)said->each || length > (int)INTRODUCTION_MOST)
            assert_null(introduction_of(said, 2, &room));
    }
    assert_int_equal(introductions_compare(said, 1), TUTTI_REMOTE_ERROR);
    assert_non_null(strstr(error_last(), "rank 2 sends no introduction"));
}

static void settings(void **state)
{
    struct settings told[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        settings_here(&told[rank]);
    all[3].settings++;
    assert_int_equal(settings_refuse(sent(), told, 0), TUTTI_REMOTE_ERROR);
    assert_non_null(strstr(error_last(), "rank 3 says that its settings differ from those of rank 0"));
    int i = 0; /* the number of TUTTI_SLICE among them */
    for (int id = 0; id < PARAM_SLICE; id++)
        i += param_row((enum param_id)id)->same_on_all_ranks;
    told[3].value[i] = 77;
    assert_int_not_equal(settings_hash(&told[3]), settings_hash(&told[2]));
    assert_int_equal(settings_refuse(sent(), told, 2), TUTTI_INVALID_USAGE);
    assert_non_null(strstr(error_last(), "TUTTI_SLICE differs: rank 2 has \""));
    assert_non_null(strstr(error_last(), "\", rank 3 77; it must be the same on all ranks"));
}

static void from_array(const void *context, int index, struct roster_entry *out)
{
    const struct roster_entry *entries = context;
    *out = entries[index];
}

/* Two hosts in one rack, which the second has come to first; each host with two islands; and a host elsewhere. */
static void levels(void **state)
{
    static struct roster_entry said[RANKS];
    const uint64_t host[RANKS] = {8, 9, 4, 4, 8, 4}, island[RANKS] = {1, 0, 2, 1, 1, 2};
    struct levels *found;
    for (int rank = 0; rank < RANKS; rank++) {
        said[rank].process.host = host[rank];
        said[rank].process.place[0] = rank == 1 ? 0 : 70; /* not told */
        said[rank].process.place[1] = 50;
        said[rank].island = island[rank];
    }
    const struct roster *roster = roster_make(RANKS, from_array, said);
    assert_non_null(roster);
    assert_int_equal(team_levels(roster, NULL, RANKS, &found), TUTTI_SUCCESS);
    assert_memory_equal(found->order, ((int32_t[]){0, 4, 2, 5, 3, 1}), 24);
    assert_int_equal(found->level[TEAM_LEVEL_ISLAND].groups, 4);
    assert_int_equal(levels_hosts(found)->groups, 3);
    assert_ptr_equal(levels_hosts(found), &found->level[TEAM_LEVEL_HOST]);
    assert_int_equal(found->level[TEAM_LEVEL_PLACES].groups, 2);
    assert_int_equal(found->level[TEAM_LEVEL_PLACES + 1].groups, 1);
    free(found);
    roster_release(roster);
}

#define MANY 4096

/* Of a second communicator of the same ranks, and of a child of half of them: what members are takes no room again. */
static void memory_of_many_ranks(void **state)
{
    static struct roster_entry said[MANY];
    static int half[MANY / 2];
    struct engine *engine;
    struct team *team[3];
    assert_int_equal(engine_acquire(&engine), TUTTI_SUCCESS);
    for (int rank = 0; rank < MANY; rank++) {
        said[rank].process = *link_domain_self(engine->links);
        random_bytes(said[rank].process.uuid, sizeof said[rank].process.uuid);
        random_bytes(said[rank].process.secret, sizeof said[rank].process.secret);
        said[rank].process.host = (uint64_t)rank / 8 + 1;
        said[rank].island = 1 + (uint64_t)rank / 8;
        half[rank / 2] = rank;
    }
    const struct roster *roster = roster_make(MANY, from_array, said);
    struct team_config config = {.id = 1, .name = "many", .nranks = MANY, .members = {.roster = roster}};
    assert_int_equal(team_open(engine, &config, &team[0]), TUTTI_SUCCESS);
    roster_release(roster);
    size_t alone = team_memory(team[0]), known = intern_memory();
    config.id = 2;
    config.members.roster = roster = roster_make(MANY, from_array, said);
    assert_int_equal(team_open(engine, &config, &team[1]), TUTTI_SUCCESS);
    roster_release(roster);
    assert_int_equal(intern_memory(), known);
    size_t each = team_memory(team[1]), further = 2 * each - alone;
    config =
        (struct team_config){.id = 3, .name = "half", .nranks = MANY / 2, .members = {.of = team[0], .rank = half}};
    assert_int_equal(team_open(engine, &config, &team[2]), TUTTI_SUCCESS);
    assert_int_equal(intern_memory(), known);
    assert_ptr_equal(team_row(team[2], 7), team_row(team[1], half[7]));
    print_message("%d ranks: the first communicator takes %zu bytes, a further one %zu\n", MANY, alone, further);
    assert_true(alone / MANY < 108 && further / MANY < 52); /* a copy of what each said would be 416 */
    for (int i = 0; i < 3; i++)
        team_close(team[i]);
    assert_int_equal(intern_memory(), 0);
    engine_release(engine);
}

/* ---- `introduction_test RANKS MIB [gpus [ports]]`: what the first rank of a large job holds for ten communicators,
 * and an error if it is more ---- */

static bool have_gpus, have_ports; /* ports: adapters have numbers of their own */

/* Hosts of eight ranks, in racks of 16 hosts; with GPUs also of eight adapters. */
static void from_number(const void *context, int rank, struct roster_entry *out)
{
    uint64_t host = (uint64_t)rank / 8;
    *out = (struct roster_entry){.process = *(const struct wire_process *)context};
    struct wire_process *process = &out->process;
    for (unsigned i = 0; i < 16 && rank; i += 8) {
        memcpy(process->uuid + i, &(uint64_t){mix64((uint64_t)rank * 4 + i)}, 8);
        memcpy(process->secret + i, &(uint64_t){mix64((uint64_t)rank * 4 + i + 1)}, 8);
    }
    process->host = host ? mix64(host) : process->host;
    process->pid = (uint32_t)(10000 + rank);
    process->place[0] = (uint32_t)mix64(host / 16 + 1);
    process->tcp[0] = (struct wire_address){.family = 4, .port = (uint16_t)(30000 + rank % 8)};
    memcpy(process->tcp[0].bytes, &(uint32_t){(uint32_t)host}, 4);
    for (uint32_t i = 0; i < WIRE_DEVICES && have_gpus; i++) {
        process->verbs[i] = process->tcp[0];
        memcpy(process->verbs[i].bytes, &(uint32_t){(uint32_t)host << 3 | i}, 4);
        process->verbs[i].port = have_ports ? (uint16_t)mix64((uint64_t)rank << 3 | i) : process->tcp[0].port;
    }
    out->island = have_gpus ? mix64(host + 2) : 0;
}

static size_t anonymous_bytes(void)
{
    char line[200];
    size_t kilobytes = 0, one;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Anonymous: %zu", &one) == 1)
            kilobytes = one;
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

/* As benchmarks/many_rank.c, with 8 ranks of a tensor parallel group and 4 stages. */
static bool is_mate(int which, int rank)
{
    int t = rank % 8, p = rank / 8 % 4, d = rank / 32, wide = d * 8 + t;
    const bool mate[] = {true,   d == 0 && p == 0,        d == 0 && t == 0,   p == 0 && t == 0,       d == 0, t == 0,
                         p == 0, d < 2 && rank % 32 == 0, p == 0 && wide < 8, p == 0 && wide % 8 == 0};
    return mate[which];
}

static bool hold(int ranks, double most)
{
    struct engine *engine;
    struct team *team[10];
    int *mates = malloc((size_t)ranks * sizeof *mates);
    assert_true(engine_acquire(&engine) == TUTTI_SUCCESS && mates);
    memset(mates, 1, (size_t)ranks * sizeof *mates);
    size_t before = anonymous_bytes(), counted = 0;
    uint64_t begun = clock_ns();
    const struct roster *roster = roster_make(ranks, from_number, link_domain_self(engine->links));
    struct team_config config = {.id = 1, .name = "world", .nranks = ranks, .members = {.roster = roster}};
    for (int which = 0; which < 10; which++) {
        int count = 0;
        for (int rank = 0; rank < ranks; rank++)
            if (is_mate(which, rank))
                mates[count++] = rank;
        if (which)
            config = (struct team_config){.name = "child", .members = {.of = team[0], .rank = mates}};
        config.id = (uint64_t)which + 1;
        config.nranks = count;
        assert_int_equal(team_open(engine, &config, &team[which]), TUTTI_SUCCESS);
    }
    roster_release(roster);
    for (int which = 0; which < 10; which++)
        counted += team_memory(team[which]) - roster_share(team[which]->roster);
    double held = (double)(anonymous_bytes() - before) / (1 << 20);
    printf(
        "%d ranks: ten communicators of one hold %.1f MiB in memory, made in %.2f s; a roster of %.1f MiB, tables of "
        "%.1f MiB\n",
        ranks, held, (double)(clock_ns() - begun) / NS_PER_S, (double)intern_memory() / (1 << 20),
        (double)counted / (1 << 20));
    for (int which = 9; which >= 0; which--)
        team_close(team[which]);
    engine_release(engine);
    free(mates);
    return held <= most;
}

int main(int argc, char **argv)
{
    have_gpus = argc > 3;
    have_ports = argc > 4;
    if (argc > 2)
        return !hold(atoi(argv[1]), atof(argv[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(alike, begin),    cmocka_unit_test_setup(unlike, begin),
        cmocka_unit_test_setup(hostile, begin),  cmocka_unit_test_setup(packed, begin),
        cmocka_unit_test_setup(settings, begin), cmocka_unit_test_setup(levels, begin),
        cmocka_unit_test(memory_of_many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
