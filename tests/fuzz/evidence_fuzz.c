/* SPDX-License-Identifier: Apache-2.0 */
/* Any text to the readers of what the system, its log and other programs say of a process: what comes out fits, and is
 * printable. An even first byte: the others are words of these texts. */
#include "days/days.h"
#include "diagnosis/group.h"
#include "evidence/parts.h"
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
    "0::",
    "4:cpu,cpuacct:",
    "1:freezer:",
    "/a/b",
    ":",
    ",",
    "\n",
    " ",
    "cpu",
    "nr_throttled 7\n",
    "throttled_usec ",
    "99999999999999999999",
    "6,741,12610331926,-;",
    "oom-kill:",
    ",oom_memcg=",
    ",task_memcg=",
    ",pid=",
    "77",
    "   0: 0100007F:1F90 0100007F:C350 01 0:0 00:0 0 0 0 12 ",
    "00000000000000000000000001000000:0016",
    "36 35 98:0 / ",
    "/",
    " - ",
    "nfs4 srv:/data rw",
    "Tcp: RetransSegs InErrs\n",
    "Tcp: ",
    "  eth0: ",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
    "Thread 1 (LWP 5):\n",
    "#0  pause ()\n",
    "    wait (a.py:3)\n",
    "\x1b[31m\xff",
    "{\"lldp\": {\"interface\": ",
    "{\"eth0\": {\"chassis\": {\"leaf1\": {}}, \"port\": {\"id\": {\"type\": \"ifname\", \"value\": \"a\"}}}}",
    "}}",
    "[",
    "2026-11-28 h3 lanes 4 pauses 12 slow 7 verdicts ",
    "2026-11-28 ",
    "h3 lanes 4294967295 pauses ",
    "slow:2,",
    "link:1",
    "]",
};

/* Also no bytes with which a terminal does something. */
static void must_be_clean(const char *text, size_t size, bool lines)
{
    must(memchr(text, 0, size));
    for (; *text; text++)
        must(((unsigned char)*text >= 32 && (unsigned char)*text < 127) || (lines && *text == '\n'));
}

static void groups(const char *text)
{
    static const char *const controllers[] = {"cpu", "memory", "freezer", "cgroup", ""};
    struct group_kill kill;
    struct group_place place;
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
        if (group_place(text, controllers[i], &place)) {
            char name[64];
            must(*place.group == '/' && memchr(place.folder, 0, sizeof place.folder));
            group_name(name, sizeof name, place.group, strlen(place.group));
            must_be_clean(name, sizeof name, false);
        }
    group_number(text, "nr_throttled");
    if (group_kill_in(text, &kill))
        must(kill.pid != 0);
    must_be_clean(kill.group, sizeof kill.group, false);
}

/* A row that is taken is written and read again as the same. */
static void history(const char *text)
{
    struct day_row row, again;
    char line[1024];
    static struct days days;
    must(days.rows || days_open(&days));
    days.count = 0;
    if (!days_read_row(text, &row) || !days_add(&days, &row))
        return;
    must_be_clean(row.host, sizeof row.host, false);
    FILE *out = fmemopen(line, sizeof line, "w");
    must(out);
    days_write_row(out, &row);
    fclose(out);
    must(days_read_row(line, &again) && again.lanes == row.lanes && strcmp(again.host, row.host) == 0 &&
         memcmp(again.verdicts, row.verdicts, sizeof row.verdicts) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const columns[] = {"RetransSegs", "InErrs", NULL};
    static struct nic before, now;
    char out[160], line[EVIDENCE_LINE], *text = text_of(words, sizeof words / sizeof *words, data, size, NULL);
    groups(text);
    history(text);
    awaited_tcp(text, 12, out, sizeof out);
    awaited_mount(text, "/a/b", out, sizeof out);
    must(stacks_choose(text, out, sizeof out) < sizeof out);
    must_be_clean(out, sizeof out, true);
    strcpy(now.name, "eth0");
    now.count = 0;
    nic_take_device(&now, text);
    nic_take_table(&now, text, "Tcp:", columns);
    if (nic_line(&before, &now, 1000000000, line))
        must_be_clean(line, sizeof line, false);
    before = now;
    if (neighbour_in(text, strlen(text), "eth0", line))
        must_be_clean(line, sizeof line, false);
    free(text);
    return 0;
}
