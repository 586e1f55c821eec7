/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule as its user sees it: exit status, text, files. */
#include "cli/schedule.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/tutti-cli-XXXXXX";
static char output[65536]; /* what the last command said, on both streams */

static int make_folder(void **state)
{
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    return chdir("/") || rmdir(folder);
}

static void read_output(FILE *file)
{
    rewind(file);
    size_t got = fread(output, 1, sizeof output - 1, file);
    output[got] = 0;
    fclose(file);
}

/* Runs "schedule" with the words of `line`. Returns the exit status. */
static int command(const char *line)
{
    char words[512], *argv[32] = {"schedule"}, *rest = words;
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word; argc < 31 && (word = strsep(&rest, " "));)
        if (*word)
            argv[argc++] = word;
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(NULL);
    int out = dup(1), err = dup(2);
    dup2(fileno(file), 1);
    dup2(fileno(file), 2);
    int status = cmd_schedule(argc, argv);
    fflush(NULL);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    read_output(file);
    return status;
}

static void expect(int status, const char *line, const char *text)
{
    int got = command(line);
    if (got != status || !strstr(output, text))
        fail_msg("'%s': status %d, wanted %d with '%s', said: %s", line, got, status, text, output);
}

/* Nothing is written unasked into the folder where the program runs. */
static bool folder_is_empty(void)
{
    int entries = 0;
    DIR *folder = opendir(".");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        entries += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return folder && entries == 0;
}

static void table_and_drawing(void **state)
{
    expect(0, "allreduce ring -n 4", "OUT[3] = IN[3] op recv from 3");
    assert_null(strstr(output, "drawn"));
    assert_true(folder_is_empty());
    expect(0, "ReduceScatter Ring --svg x.svg --quiet", "drawn in x.svg");
    assert_null(strstr(output, "round"));
    assert_int_equal(unlink("x.svg"), 0);
    expect(0, "broadcast binomial --root 3 -r 3", "rank 3");
    assert_null(strstr(output, "rank 2"));
    expect(0, "broadcast tree --svg -", "<svg ");
    assert_int_equal(strncmp(output, "<svg ", 5), 0);
}

static void proof_and_price(void **state)
{
    expect(0, "allreduce tree -n 13 --quiet --check", "proved in place");
    assert_non_null(strstr(output, "proved out of place"));
    expect(0, "allreduce two-shot -n 4 --quiet --check", "proved in place");
    expect(0, "reduce bulk -n 8 --root 3 --quiet --check", "proved in place");
    expect(0, "broadcast fan -n 5 --root 2 --quiet --check", "proved out of place");
    expect(0, "allreduce OneShot -n 4 -r 0", "allreduce one-shot: 4 ranks");
    expect(0, "alltoall bruck --quiet --check", "proved out of place");
    assert_null(strstr(output, "in place"));
    expect(0, "allreduce ring -n 131072 --quiet --cost 1G --alpha 1e-6 --overhead 0 --beta 0 --gamma 0",
           "262142.000 us");
    expect(0, "broadcast ring -n 3 --quiet --cost 2K --slices 2 --alpha 0 --overhead 0 --beta 1e-6 --gamma 0",
           "2048 bytes in 2 slices: 3072.000 us");
}

static void plans(void **state)
{
    expect(0, "allreduce --plan 64K -n 4 --quiet",
           "4 GPUs, a process each: one-shot, kernel reduce_one, 16 blocks of 512 threads");
    expect(0, "allreduce --plan 1M -n 4 --where process --quiet --check", "peer-load, kernel reduce_peer");
    assert_non_null(strstr(output, "proved in place"));
    expect(0, "allreduce --plan 4M -n 4 --where symmetric --quiet", "with all: peer-load, kernel reduce_peer");
    expect(0, "allreduce --plan 256M -n 4 --captured --quiet", "in a graph: bulk, kernel reduce_bulk");
    expect(0, "broadcast --plan 1M -n 3 --where host -r 1", "broadcast fan: 3 ranks");
    expect(0, "barrier --plan 0 -n 2 --quiet", "exchange, kernel exchange\n");
    expect(2, "allreduce --plan 1M -n 9", "for 8 GPUs at most, got -n 9");
    expect(2, "allreduce --plan 1M -n 4 --where here", "--where wants processes, symmetric");
    expect(2, "allreduce ring --plan 1M -n 4", "want one collective");
    expect(2, "allreduce --plan much", "got \"much\"");
}

static void hosts(void **state)
{
    expect(0, "allreduce two-level -n 8 --hosts 2 -r 0 --check --cost 1M",
           "busiest host's link: 2 rounds, 8 messages, 1 vectors sent");
    assert_non_null(strstr(output, "two-level: 8 ranks, 4 rounds"));
    assert_non_null(strstr(output, "proved in place"));
    expect(0, "allreduce ring -n 8 --hosts 4,3,1 --quiet --check --cost 1M", "busiest host's link: 14 rounds");
    expect(0, "allreduce ring -n 8 --quiet --cost 1M", "busiest rank");
    assert_null(strstr(output, "host"));
    static const char *const bad[] = {"0",  "9", "4,3", "4,,4",   "4,4,4",
                                      "8,", "x", "-1",  "4,-4,8", "99999999999999999999,1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[100];
        snprintf(line, sizeof line, "allreduce ring -n 8 --quiet --hosts %s", bad[i]);
        expect(2, line, "--hosts wants a number of hosts, or sizes whose sum is -n, got");
    }
}

/* A schedule of several hosts sends between them what its formula says. */
static void islands(void **state)
{
    expect(0, "allreduce --islands 4,4 --check", "allreduce two-level: 8 ranks, 4 rounds");
    assert_non_null(strstr(output, "proved in place"));
    expect(0, "alltoall --islands 3,1 --quiet --check --cost 1M",
           "rails together: (n^2 - sum of the squares of island sizes) / n = 1.5 vectors");
    expect(0, "broadcast --islands 2,2,3 --root 6 --quiet --svg -", "<svg ");
    expect(0, "allreduce ring --islands 4,4 --quiet --cost 1M", "busiest host's link: 14 rounds");
    assert_null(strstr(output, "rails together"));
    expect(0, "allgather --islands 2 -n 6 --quiet --cost 6M", "rails together: islands - 1 = 1 vectors");
    expect(2, "alltoallv --islands 4,4", "alltoallv has no algorithm two-level");
    expect(2, "allreduce --islands 4,0", "--islands wants a number of hosts, or sizes");
    expect(2, "allreduce --islands 4,4 --root 8", "less than the number of ranks");
}

static void plans_of_islands(void **state)
{
    expect(0, "allreduce --plan --islands 4,4 --bytes 16M --quiet", "on islands of 4,4: 4 rounds, 4 rails");
    assert_non_null(strstr(output, "step 1: round 0 to 1, each island: reduce-scatter by direct; a rank sends up to "
                                   "12582912 bytes\n"));
    assert_non_null(strstr(output, "step 2: round 1 to 2, each rail: allreduce by ring; a rank sends up to 4194304 "
                                   "bytes; overlaps step 1"));
    assert_non_null(strstr(output, "rail 1: ranks 1 5"));
    assert_non_null(strstr(output, "rails together: 2 (islands - 1) = 2 vectors, 33554432 bytes"));
    assert_non_null(strstr(output, "steps are better; steps are better from"));
    expect(0, "allreduce --plan 8 --islands 4,4 --quiet", "flat is better");
    expect(0, "scatter --plan 1M --islands 4,4 --quiet", "step 3: nothing, as each column has one rank");
    expect(0, "gather --plan 1M --islands 8,3 --quiet", "rail 1: ranks 2 9");
    expect(0, "allreduce --plan 16M --islands 4,4 --slices 16 --links 1 --quiet", "price in 16 slices");
    expect(0, "alltoall --plan 64K --islands 8,8,8,8 --quiet", "steps are better from 1 to ");
    expect(0, "alltoall --plan 1G --islands 8,8,8,8 --quiet", "flat is better");
    expect(2, "allreduce --plan --islands 4,4", "--plan wants bytes");
    expect(2, "alltoallv --plan 1M --islands 4,4", "alltoallv has no algorithm two-level");
}

static void lists(void **state)
{
    expect(0, "--list", "scatter-allgather");
    expect(0, "--help", "Usage: tutti schedule");
    expect(0, "-h", "--cost BYTES");
}

static void wrong_use(void **state)
{
    expect(2, "", "want one collective and one algorithm");
    expect(2, "allreduce", "want one collective and one algorithm");
    expect(2, "allreduce ring more", "want one collective and one algorithm");
    expect(2, "alreduce ring", "Did you mean \"allreduce\"");
    expect(2, "allreduce rinng", "allreduce has no algorithm rinng, but direct, one-shot");
    expect(2, "allreduce ring -n 0", "got \"0\"");
    expect(2, "allreduce ring -n x", "got \"x\"");
    expect(2, "allreduce ring --alpha -1", "got \"-1\"");
    expect(2, "allreduce ring --alpha 1s", "got \"1s\"");
    expect(2, "allreduce ring --cost many", "got \"many\"");
    expect(2, "allreduce ring --slices 0", "got \"0\"");
    expect(2, "allreduce ring --what", "there is no option --what");
    expect(2, "allreduce ring -n 4 -r 4", "less than the number of ranks");
    expect(2, "broadcast tree -n 4 --root 4", "less than the number of ranks");
    expect(2, "allgather doubling -n 6", "power of two");
}

static void what_cannot_be_written(void **state)
{
    struct stat facts;
    expect(1, "allreduce ring --quiet --svg /nonexistent/x.svg", "/nonexistent/x.svg: No such file");
    expect(1, "allreduce ring --quiet --svg /dev/full", "could not be written");
    assert_int_equal(stat("/dev/full", &facts), 0);
    assert_true(S_ISCHR(facts.st_mode));
    expect(1, "allreduce ring -n 100 --quiet --svg x.svg", "up to 64 ranks");
    assert_int_not_equal(access("x.svg", F_OK), 0);
    expect(1, "allreduce ring -n 100 --quiet --svg -", "up to 64 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_and_drawing),
        cmocka_unit_test(proof_and_price),
        cmocka_unit_test(lists),
        cmocka_unit_test(plans),
        cmocka_unit_test(hosts),
        cmocka_unit_test(islands),
        cmocka_unit_test(plans_of_islands),
        cmocka_unit_test(wrong_use),
        cmocka_unit_test(what_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
