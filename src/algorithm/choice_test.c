/* SPDX-License-Identifier: Apache-2.0 */
/* The choice: defaults cover everything, overrides and files are obeyed, and what is wrong in them is named. */
#include "algorithm/choice.h"
#include "algorithm/algorithm.h"
#include "base/error.h"
#include "base/param.h"
#include "base/tuned.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/tutti-choice-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/tune.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    unlink(path);
    return rmdir(folder);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char *pick_with(const char *override, const char *file, enum coll coll, int n, size_t bytes,
                             uint32_t capabilities)
{
    struct choice_table *table = NULL;
    assert_int_equal(choice_open_with(override, file, &table), TUTTI_SUCCESS);
    const struct algorithm *algorithm = choice_pick(table, coll, n, bytes, capabilities, CHOICE_SHM);
    assert_non_null(algorithm);
    choice_close(table);
    return algorithm->name;
}

static const char *pick_by_tcp(enum coll coll, int n, size_t bytes)
{
    struct choice_table *table = NULL;
    assert_int_equal(choice_open_with("", NULL, &table), TUTTI_SUCCESS);
    const struct algorithm *algorithm = choice_pick(table, coll, n, bytes, 0, CHOICE_TCP);
    choice_close(table);
    return algorithm->name;
}

static const char *pick(const char *override, enum coll coll, int n, size_t bytes)
{
    return pick_with(override, NULL, coll, n, bytes, 0);
}

static uint64_t hash_of(const char *override, const char *file)
{
    struct choice_table *table = NULL;
    assert_int_equal(choice_open_with(override, file, &table), TUTTI_SUCCESS);
    uint64_t hash = choice_hash(table);
    choice_close(table);
    return hash;
}

static void cover(const struct choice_table *table, enum coll coll, int n)
{
    for (size_t bytes = 0; bytes < (size_t)1 << 36; bytes = bytes * 8 + 8)
        for (uint32_t options = 0; options < 4; options++) {
            enum choice_class choice_class = options & 1 ? CHOICE_TCP : CHOICE_SHM;
            const struct algorithm *algorithm = choice_pick(table, coll, n, bytes, options >> 1, choice_class);
            struct shape shape = {coll, n, 0};
            assert_non_null(algorithm);
            assert_true(schedule_fits(algorithm, &shape));
        }
}

static void defaults_cover_everything(void **state)
{
    static const char *const overrides[] = {"", "ring", "^ring", "^direct,ring,tree,doubling,binomial,pairwise",
                                            "halving"};
    for (int o = 0; o < 5; o++) {
        struct choice_table *table = NULL;
        assert_int_equal(choice_open_with(overrides[o], NULL, &table), TUTTI_SUCCESS);
        for (int coll = 0; coll < COLL_COUNT; coll++)
            for (int n = 1; n < 200000; n = n < 100 ? n + 1 : n * 3)
                cover(table, (enum coll)coll, n);
        choice_close(table);
    }
}

static void direct_needs_the_capability(void **state)
{
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 4, 1024, CHOICE_SHARED), "one-shot");
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 4, 1024, 0), "doubling");
}

static void by_tcp(void **state)
{
    assert_string_equal(pick_by_tcp(COLL_ALLGATHER, 4, 256 << 10), "doubling");
    assert_string_equal(pick("", COLL_ALLGATHER, 4, 256 << 10), "ring");
    assert_string_equal(pick_by_tcp(COLL_ALLGATHER, 8, 256 << 10), "ring");
    assert_string_equal(pick_by_tcp(COLL_ALLGATHER, 4, 1 << 20), "ring");
}

static void override_for_all(void **state)
{
    assert_string_equal(pick("ring", COLL_ALLREDUCE, 8, 8), "ring");
    assert_string_equal(pick("Ring", COLL_BROADCAST, 8, 8), "ring");
    assert_string_equal(pick("ring", COLL_BARRIER, 8, 0), "doubling"); /* a barrier has no ring: by table */
    assert_string_equal(pick("Tree", COLL_REDUCE, 8, 8), "tree");
}

static void override_by_collective(void **state)
{
    const char *text = " AllReduce : ring ; broadcast:tree;;ReduceScatter:pairwise;doubling";
    assert_string_equal(pick(text, COLL_ALLREDUCE, 8, 8), "ring");
    assert_string_equal(pick(text, COLL_BROADCAST, 8, 8), "tree");
    assert_string_equal(pick(text, COLL_REDUCE_SCATTER, 8, 8), "pairwise");
    assert_string_equal(pick(text, COLL_ALLGATHER, 8, 8), "doubling");
    assert_string_equal(pick("doubling;allreduce:ring", COLL_ALLREDUCE, 8, 8), "ring");
}

static void override_lists_and_exclusions(void **state)
{
    assert_string_equal(pick("allgather:doubling,bruck", COLL_ALLGATHER, 8, 8), "doubling");
    assert_string_equal(pick("allgather:doubling,bruck", COLL_ALLGATHER, 7, 1 << 30), "bruck");
    assert_string_equal(pick("^doubling", COLL_ALLREDUCE, 8, 8), "halving");
    assert_string_equal(pick("allreduce:^ring", COLL_ALLREDUCE, 8, 1 << 30), "tree");
    assert_string_equal(pick("^ring;allreduce:ring", COLL_ALLREDUCE, 8, 8), "ring");
}

static void names_of_nccl_that_are_not_here(void **state)
{
    assert_string_equal(pick("NVLS", COLL_ALLREDUCE, 8, 8), "doubling");
    assert_string_equal(pick("allreduce:CollNetDirect,Tree", COLL_ALLREDUCE, 8, 8), "tree");
    assert_string_equal(pick("allreduce:pairwise", COLL_ALLREDUCE, 8, 8), "doubling");
}

static void refused_override(const char *text, const char *sentence)
{
    struct choice_table *table = NULL;
    assert_int_equal(choice_open_with(text, NULL, &table), TUTTI_INVALID_ARGUMENT);
    assert_null(table);
    if (!strstr(error_last(), sentence))
        fail_msg("wanted '%s' in '%s'", sentence, error_last());
}

static void wrong_overrides(void **state)
{
    refused_override("rinng", "no algorithm is called 'rinng'; want one of direct, one-shot, ring");
    refused_override("ring,,tree", "is called ''");
    refused_override("allreduce:", "name is missing");
    refused_override("^", "name is missing");
    refused_override("alreduce:ring", "no collective is called 'alreduce'");
    refused_override("ring;tree,nope", "'nope'");
}

static const char *const good_file =
    "{\"version\": 1, \"comment\": \"x\", \"rules\": ["
    "{\"collective\": \"allreduce\", \"class\": \"tcp\", \"algorithm\": \"tree\"},"
    "{\"collective\": \"allreduce\", \"class\": \"shm\", \"min_ranks\": 4, \"max_ranks\": 8, \"max_bytes\": 100,"
    " \"algorithm\": \"halving\"},"
    "{\"collective\": \"allreduce\", \"direct\": true, \"algorithm\": \"one-shot\"}]}";

static void rules_of_a_file(void **state)
{
    write_file(good_file);
    assert_string_equal(pick_with("", path, COLL_ALLREDUCE, 4, 100, 0), "halving");
    assert_string_equal(pick_with("", path, COLL_ALLREDUCE, 8, 100, 0), "halving");
    assert_string_equal(pick_with("", path, COLL_ALLREDUCE, 8, 101, 0), "doubling");
    assert_string_equal(pick_with("", path, COLL_ALLREDUCE, 9, 100, 0), "doubling");
    assert_string_equal(pick_with("", path, COLL_ALLREDUCE, 3, 100, 0), "doubling");
    assert_string_equal(pick_with("", path, COLL_ALLREDUCE, 9, 1 << 30, CHOICE_SHARED), "one-shot");
    assert_string_equal(pick_with("ring", path, COLL_ALLREDUCE, 4, 100, 0), "ring");
}

static void refused_file(const char *text, const char *sentence)
{
    struct choice_table *table = NULL;
    write_file(text);
    assert_int_equal(choice_open_with("", path, &table), TUTTI_INVALID_ARGUMENT);
    assert_null(table);
    if (!strstr(error_last(), sentence) || !strstr(error_last(), path))
        fail_msg("wanted '%s' in '%s'", sentence, error_last());
}

static void refused_rule(const char *rule, const char *sentence)
{
    char text[512];
    snprintf(text, sizeof text, "{\"version\": 1, \"rules\": [{\"collective\":\"reduce\",\"algorithm\":\"tree\"}, %s]}",
             rule);
    refused_file(text, sentence);
    assert_non_null(strstr(error_last(), "rule 1"));
}

static void wrong_files(void **state)
{
    refused_file("", "line 1");
    refused_file("{\"version\": 1, \"rules\": [", "line 1");
    refused_file("[]", "\"version\" is not 1");
    refused_file("{\"rules\": []}", "\"version\" is not 1");
    refused_file("{\"version\": 2, \"rules\": []}", "\"version\" is not 1");
    refused_file("{\"version\": 1}", "\"rules\": want an array");
    refused_file("{\"version\": 1, \"version\": 1, \"rules\": []}", "twice");
    refused_file("{\"version\": 1, \"rules\": [{\"collective\": \"reduce\", \"collective\": \"reduce\"}]}", "twice");
    refused_file("{\"version\": 2, \"rules\": [{\"way\": 1}]}", "\"version\" is not 1");
    refused_file("{\"version\": 1,\n \"rules\": [] x}", "line 2, column 14");
    refused_file("{\"version\": 1, \"rules\": []} 1", "follows");
    refused_file("{\"version\": 1, \"comment\": \"\xff\", \"rules\": []}", "UTF-8");
    refused_file("{\"version\": 1, \"comment\": 99999999999999999999, \"rules\": []}", "too large");
    refused_file("{\"version\": 1.0, \"rules\": []}", "\"version\" is not 1");
    refused_file("{\"version\": 1, \"comment\": \"\\x\", \"rules\": []}", "backslash");
    refused_file("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "in one another");
    refused_rule("7", "an object");
    refused_rule("{\"collective\": \"allreduse\", \"algorithm\": \"ring\"}", "\"collective\"");
    refused_rule("{\"algorithm\": \"ring\"}", "\"collective\"");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"pairwise\"}", "direct, one-shot, ring");
    refused_rule("{\"collective\": \"allreduce\"}", "\"algorithm\"");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"ring\", \"class\": \"ib\"}", "\"class\"");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"ring\", \"class\": 1}", "\"class\"");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"ring\", \"shared\": 1}", "true or false");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"ring\", \"min_ranks\": 0}", "1 to 2147483647");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"ring\", \"min_ranks\": 5, \"max_ranks\": 4}",
                 "5 to");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"ring\", \"max_bytes\": -1}", "\"max_bytes\"");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"ring\", \"max_bytes\": \"1M\"}", "\"max_bytes\"");
    refused_rule("{\"collective\": \"allreduce\", \"algorithm\": \"ring\", \"max_byte\": 1}", "one of the keys");
}

static void missing_file(void **state)
{
    struct choice_table *table = NULL;
    assert_int_equal(choice_open_with("", "/nonexistent/tune.json", &table), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "/nonexistent/tune.json"));
}

/* What no key asks for is passed over, whatever it is. */
static void other_values(void **state)
{
    const char *text =
        " {\"more\": [1, -2.5e3, {\"a\": null}, [], {}], \"comment\": \"\\u0041\\n\\u00e4 \xc3\xa4\", \"version\":1 ,"
        "\"rules\": [ {\"\\u0061lgorithm\": \"tree\" , \"collective\":\"broadcast\", \"hosts\": false} ] } ";
    FILE *file = fopen(path, "w");
    assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
    assert_string_equal(pick_with("", path, COLL_BROADCAST, 1000, 4096, 0), "tree");
}

static void saved_and_read_again(void **state)
{
    const struct choice_rule rules[] = {
        {COLL_BROADCAST, 1u << CHOICE_SHM | 1u << CHOICE_TCP, false, 2, INT_MAX, 4096,
         algorithm_find(COLL_BROADCAST, "tree", 4)},
        {COLL_BROADCAST, 1u << CHOICE_TCP, false, 1, 4, UINT64_MAX, algorithm_find(COLL_BROADCAST, "ring", 4)},
        {COLL_BROADCAST, 1u << CHOICE_SHM, true, 1, 16, UINT64_MAX,
         algorithm_find(COLL_BROADCAST, "scatter-allgather", 17)},
    };
    assert_int_equal(choice_save(path, "a comment", rules, 3), TUTTI_SUCCESS);
    assert_string_equal(pick_with("", path, COLL_BROADCAST, 1000, 4096, 0), "tree");
    assert_string_equal(pick_with("", path, COLL_BROADCAST, 16, 4097, CHOICE_SHARED), "scatter-allgather");
    assert_string_equal(pick_with("", path, COLL_BROADCAST, 17, 4097, CHOICE_SHARED), "direct");
    uint64_t saved = hash_of("", path);
    assert_int_equal(choice_save(path, "another\n \"\\\x01 \xc3\xa4", rules, 3), TUTTI_SUCCESS);
    assert_true(hash_of("", path) == saved);
    assert_int_equal(choice_save(path, NULL, rules, 2), TUTTI_SUCCESS);
    assert_true(hash_of("", path) != saved);
}

static void not_saved(void **state)
{
    char text[PATH_MAX + 8];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(choice_save("/nonexistent/tune.json", NULL, NULL, 0), TUTTI_SYSTEM_ERROR);
    assert_int_equal(choice_save(text, NULL, NULL, 0), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(choice_save(path, "\xff", NULL, 0), TUTTI_SYSTEM_ERROR);
}

static void hashes(void **state)
{
    assert_true(hash_of("", NULL) == hash_of(NULL, ""));
    assert_true(hash_of("ring", NULL) == hash_of(" Ring", NULL));
    assert_true(hash_of("ring", NULL) != hash_of("", NULL));
    assert_true(hash_of("ring", NULL) != hash_of("^ring", NULL));
    assert_true(hash_of("allreduce:ring", NULL) != hash_of("ring", NULL));
    write_file(good_file);
    assert_true(hash_of("", path) != hash_of("", NULL));
}

/* alltoallv: ranks know only their own sizes, which must not change the choice. */
static void alltoallv_ignores_bytes(void **state)
{
    assert_string_equal(pick("", COLL_ALLTOALLV, 64, 0), pick("", COLL_ALLTOALLV, 64, (size_t)1 << 40));
    write_file(
        "{\"version\": 1, \"rules\": [{\"collective\": \"alltoallv\", \"max_bytes\": 10, \"algorithm\": \"direct\"}]}");
    assert_string_equal(pick_with("", path, COLL_ALLTOALLV, 64, 1 << 20, 0), "direct");
}

/* Each owner closes it, in any order, and the file may have changed meanwhile. */
static void shared_by_several(void **state)
{
    struct choice_table *table = NULL;
    write_file(good_file);
    assert_int_equal(choice_open_with("", path, &table), TUTTI_SUCCESS);
    const char *name = choice_pick(table, COLL_ALLREDUCE, 4, 100, 0, CHOICE_SHM)->name;
    struct choice_table *same = choice_share(table);
    write_file("{");
    choice_close(table);
    assert_string_equal(choice_pick(same, COLL_ALLREDUCE, 4, 100, 0, CHOICE_SHM)->name, name);
    choice_close(same);
    choice_close(NULL);
}

static const char *pick_from_environment(void)
{
    struct choice_table *table = NULL;
    param_reload();
    assert_int_equal(choice_open(&table), TUTTI_SUCCESS);
    const char *name = choice_pick(table, COLL_ALLREDUCE, 4, 100, 0, CHOICE_SHM)->name;
    choice_close(table);
    return name;
}

static void from_the_environment(void **state)
{
    struct choice_table *table = NULL;
    char home[PATH_MAX];
    setenv("HOME", folder, 1);
    assert_true(tuned_default_path(home, sizeof home));
    assert_non_null(strstr(home, "/.config/tutti/tune.json"));
    assert_false(tuned_default_path(home, 10));
    write_file(good_file);
    assert_string_equal(pick_from_environment(), "doubling");
    setenv("TUTTI_TUNE_FILE", path, 1);
    assert_string_equal(pick_from_environment(), "halving");
    setenv("NCCL_ALGO", "Tree", 1);
    assert_string_equal(pick_from_environment(), "tree");
    setenv("TUTTI_ALGO", "nothing", 1);
    param_reload();
    assert_int_equal(choice_open(&table), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "TUTTI_ALGO: no algorithm is called 'nothing'"));
    unsetenv("TUTTI_ALGO");
    unsetenv("NCCL_ALGO");
    unsetenv("TUTTI_TUNE_FILE");
    param_reload();
}

/* Without TUTTI_TUNE_FILE the file in the home folder counts. */
static void from_the_home_folder(void **state)
{
    char config[80], tutti[100], file[120];
    snprintf(config, sizeof config, "%s/.config", folder);
    snprintf(tutti, sizeof tutti, "%s/tutti", config);
    snprintf(file, sizeof file, "%s/tune.json", tutti);
    setenv("HOME", folder, 1);
    assert_int_equal(mkdir(config, 0700) | mkdir(tutti, 0700), 0);
    write_file(good_file);
    assert_int_equal(rename(path, file), 0);
    assert_string_equal(pick_from_environment(), "halving");
    assert_int_equal(unlink(file) | rmdir(tutti) | rmdir(config), 0);
    unsetenv("HOME");
    assert_false(tuned_default_path(file, sizeof file));
    assert_string_equal(pick_from_environment(), "doubling");
}

static void several_hosts(void **state)
{
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 8, 1 << 20, CHOICE_HOSTS), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 8, 1 << 20, 0), "ring");
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 8, 64 << 10, CHOICE_HOSTS), "halving");
    assert_string_equal(pick_with("^two-level", NULL, COLL_ALLREDUCE, 8, 1 << 20, CHOICE_HOSTS), "ring");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 32 << 10, CHOICE_HOSTS), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 16 << 10, CHOICE_HOSTS), "doubling");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 100, 64 << 10, CHOICE_HOSTS), "bruck");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 100, 1 << 20, CHOICE_HOSTS), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 32 << 10, 0), "doubling");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 7, 32 << 10, 0), "bruck");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 1 << 20, 0), "ring");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 8, 8 << 10, CHOICE_HOSTS | CHOICE_ALIKE), "halving");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 8, 16 << 10, CHOICE_HOSTS | CHOICE_ALIKE),
                        "two-level");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 64, 64 << 10, CHOICE_HOSTS | CHOICE_ALIKE), "halving");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 64, 1 << 20, CHOICE_HOSTS | CHOICE_ALIKE),
                        "two-level");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 8, 1 << 20, 0), "ring");
    assert_string_equal(pick_with("", NULL, COLL_BROADCAST, 8, 64 << 10, CHOICE_HOSTS), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_BROADCAST, 8, 4 << 20, CHOICE_HOSTS), "ring");
    assert_string_equal(pick_with("", NULL, COLL_BROADCAST, 8, 64 << 10, 0), "binomial");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE, 8, 64 << 10, CHOICE_HOSTS), "binomial");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE, 8, 256 << 10, CHOICE_HOSTS), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE, 8, 4 << 20, CHOICE_HOSTS), "ring");
    assert_string_equal(pick_with("", NULL, COLL_ALLTOALL, 8, 64 << 10, CHOICE_HOSTS | CHOICE_ALIKE), "direct");
    assert_string_equal(pick_with("", NULL, COLL_ALLTOALL, 8, 256 << 10, CHOICE_HOSTS | CHOICE_ALIKE), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_ALLTOALL, 8, 256 << 10, 0), "direct");
    /* with unlike hosts few ranks would carry much */
    assert_string_equal(pick_with("", NULL, COLL_ALLTOALL, 8, 256 << 10, CHOICE_HOSTS), "direct");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 8, 1 << 20, CHOICE_HOSTS), "ring");
}

/* NCCLX section 5.4: near ranks exchange much, and far ones little. */
static void far_ranks(void **state)
{
    uint32_t hosts = CHOICE_HOSTS | CHOICE_ALIKE | CHOICE_FAR;
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 16 << 10, CHOICE_FAR), "far-doubling");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 16 << 10, hosts), "far-doubling");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 64 << 10, CHOICE_FAR), "far-doubling");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 2, 16 << 10, CHOICE_FAR), "doubling");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 7, 16 << 10, CHOICE_FAR), "bruck");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 1 << 20, hosts), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 8, 1 << 20, CHOICE_FAR), "ring");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 8, 8 << 10, hosts), "far-halving");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 8, 16 << 10, hosts), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 8, 256 << 10, CHOICE_FAR), "far-halving");
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 8, 128 << 10, hosts), "far-halving");
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 8, 256 << 10, CHOICE_FAR), "far-halving");
    assert_string_equal(pick_with("^far-halving", NULL, COLL_ALLREDUCE, 8, 128 << 10, hosts), "halving");
    /* of many hosts few rounds count for more */
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 64, 1 << 20, hosts), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 100, 16 << 20, hosts), "far-halving");
    assert_string_equal(pick_with("", NULL, COLL_ALLREDUCE, 100, 17 << 20, hosts), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 128, 4 << 20, hosts), "far-doubling");
    assert_string_equal(pick_with("", NULL, COLL_ALLGATHER, 100, 4 << 20, hosts), "two-level");
    assert_string_equal(pick_with("", NULL, COLL_REDUCE_SCATTER, 128, 4 << 20, hosts), "far-halving");
}

static void names_of_algorithms(void **state)
{
    char text[256], small[12];
    assert_string_equal(algorithm_names(COLL_BARRIER, text, sizeof text), "direct, doubling, exchange");
    assert_string_equal(algorithm_names(COLL_ALLREDUCE, small, sizeof small), "direct, one");
    assert_null(algorithm_row(-1));
    assert_null(algorithm_row(algorithm_count()));
    assert_null(algorithm_find(COLL_BARRIER, "ring", 4));
    assert_non_null(algorithm_find(COLL_ALLREDUCE, "RING", 4));
    assert_null(algorithm_find(COLL_ALLREDUCE, "rin", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_cover_everything),
        cmocka_unit_test(direct_needs_the_capability),
        cmocka_unit_test(by_tcp),
        cmocka_unit_test(override_for_all),
        cmocka_unit_test(override_by_collective),
        cmocka_unit_test(override_lists_and_exclusions),
        cmocka_unit_test(names_of_nccl_that_are_not_here),
        cmocka_unit_test(wrong_overrides),
        cmocka_unit_test(rules_of_a_file),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(missing_file),
        cmocka_unit_test(other_values),
        cmocka_unit_test(saved_and_read_again),
        cmocka_unit_test(not_saved),
        cmocka_unit_test(hashes),
        cmocka_unit_test(alltoallv_ignores_bytes),
        cmocka_unit_test(shared_by_several),
        cmocka_unit_test(from_the_environment),
        cmocka_unit_test(from_the_home_folder),
        cmocka_unit_test(several_hosts),
        cmocka_unit_test(far_ranks),
        cmocka_unit_test(names_of_algorithms),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
