/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small client of PMI-1, the line protocol that MPICH's and Slurm's launchers speak over an inherited socket
 * (PMI_FD): "cmd=name key=value ...\n" each way. Used only in processes without MPI, which would speak over the same
 * socket.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/env_kind.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE      1024
#define ANSWER_MS 120000 /* a barrier lasts until the slowest rank has started */

/* Launchers give a socket, by the rules a pipe would do. A launcher that is gone must not kill us by SIGPIPE. */
static ssize_t write_some(int fd, const char *text, size_t size)
{
    ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
    return sent < 0 && errno == ENOTSOCK ? write(fd, text, size) : sent;
}

static bool write_all(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t sent = write_some(fd, text, size);
        if (sent < 0 && errno != EINTR)
            return false;
        text += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

/* False: nothing came until then. */
static bool env_pmi_await(int fd, uint64_t deadline)
{
    struct pollfd one = {fd, POLLIN, 0};
    int ready;
    do
        ready = poll(&one, 1, clock_left_ms(deadline));
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* One line without its end; byte by byte, for whoever reads after us must find the rest. */
static bool env_pmi_read_line(int fd, char out[LINE])
{
    uint64_t deadline = clock_deadline_ms(ANSWER_MS);
    for (size_t used = 0; used < LINE; used++) {
        if (!env_pmi_await(fd, deadline) || read(fd, out + used, 1) != 1)
            return false;
        if (out[used] == '\n') {
            out[used] = 0;
            return true;
        }
    }
    return false;
}

/* Sends a command, reads the answer, which must be `want`, with rc=0 if it has one. */
static bool env_pmi_ask(int fd, const char *command, const char *want, char answer[LINE])
{
    char expected[64];
    if (!write_all(fd, command, strlen(command)) || !env_pmi_read_line(fd, answer))
        return false;
    int length = snprintf(expected, sizeof expected, "cmd=%s", want);
    if (strncmp(answer, expected, (size_t)length) != 0 || (answer[length] && answer[length] != ' '))
        return false;
    const char *rc = strstr(answer, " rc=");
    return !rc || strtol(rc + 4, NULL, 10) == 0;
}

/* The word after " key=". */
static bool field(const char *answer, const char *key, char *out, size_t size)
{
    char mark[32];
    snprintf(mark, sizeof mark, " %s=", key);
    const char *found = strstr(answer, mark);
    if (!found)
        return false;
    found += strlen(mark);
    size_t length = strcspn(found, " ");
    if (length >= size)
        return false;
    memcpy(out, found, length);
    out[length] = 0;
    return true;
}

struct session {
    int fd;
    bool opened;
    char space[256];
};

/* A session lasts until the process ends: after "finalize" the launcher takes no other "init". */
static tutti_result_t session_open(struct session *session)
{
    char answer[LINE];
    if (session->opened)
        return TUTTI_SUCCESS;
    if (!env_pmi_ask(session->fd, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", answer))
        return error_note(TUTTI_SYSTEM_ERROR, "PMI_FD=%d: the launcher does not speak PMI-1", session->fd);
    if (!env_pmi_ask(session->fd, "cmd=get_my_kvsname\n", "my_kvsname", answer) ||
        !field(answer, "kvsname", session->space, sizeof session->space))
        return error_note(TUTTI_SYSTEM_ERROR, "PMI_FD=%d: the launcher told no name space", session->fd);
    session->opened = true;
    return TUTTI_SUCCESS;
}

/* Values may be limited to 255 characters by a launcher, so the id goes in two halves. */
static bool put_half(const struct session *session, unsigned generation, int half, const char *text)
{
    char command[LINE], answer[LINE];
    snprintf(command, sizeof command, "cmd=put kvsname=%s key=tutti-%u-%d value=%.*s\n", session->space, generation,
             half, TUTTI_UNIQUE_ID_BYTES, text);
    return env_pmi_ask(session->fd, command, "put_result", answer);
}

static bool get_half(const struct session *session, unsigned generation, int half, char *out)
{
    char command[LINE], answer[LINE];
    snprintf(command, sizeof command, "cmd=get kvsname=%s key=tutti-%u-%d\n", session->space, generation, half);
    return env_pmi_ask(session->fd, command, "get_result", answer) &&
           field(answer, "value", out, TUTTI_UNIQUE_ID_BYTES + 1);
}

static tutti_result_t env_pmi_exchange(const struct session *session, struct env_identity *out, unsigned generation)
{
    char text[ENV_ID_TEXT] = "", answer[LINE];
    if (out->rank == 0) {
        tutti_result_t result = env_fresh_id(out);
        if (result != TUTTI_SUCCESS)
            return result;
        env_id_to_text(&out->id, text);
        if (!put_half(session, generation, 0, text) || !put_half(session, generation, 1, text + TUTTI_UNIQUE_ID_BYTES))
            return error_set(TUTTI_SYSTEM_ERROR, "PMI: the launcher did not take the unique id");
    }
    if (!env_pmi_ask(session->fd, "cmd=barrier_in\n", "barrier_out", answer))
        return error_set(TUTTI_REMOTE_ERROR, "PMI: the launcher's barrier failed: some rank left or never came");
    if (out->rank == 0)
        return TUTTI_SUCCESS;
    if (!get_half(session, generation, 0, text) || !get_half(session, generation, 1, text + TUTTI_UNIQUE_ID_BYTES) ||
        !env_id_from_text(text, &out->id))
        return error_set(TUTTI_REMOTE_ERROR,
                         "PMI: rank 0 published no unique id; set TUTTI_ID to host:port of rank 0 to do without PMI");
    return TUTTI_SUCCESS;
}

tutti_result_t env_pmi1_exchange(int fd, struct env_identity *out, unsigned generation, bool *met)
{
    static struct session session; /* one launcher a process */
    if (session.fd != fd)
        session = (struct session){.fd = fd};
    *met = false;
    if (session_open(&session) != TUTTI_SUCCESS) {
        log_info("%s; meeting another way", error_last());
        return TUTTI_SUCCESS;
    }
    *met = true;
    return env_pmi_exchange(&session, out, generation);
}

static int exit_fd = -1;
static pid_t exit_pid; /* a forked child that exits must not end our session */

/* Hydra takes a process that ends without this for a crash. */
static void finalize(void)
{
    static const char command[] = "cmd=finalize\n";
    char answer[LINE];
    if (getpid() == exit_pid && write_all(exit_fd, command, sizeof command - 1))
        env_pmi_read_line(exit_fd, answer);
}

tutti_result_t env_meet_pmi1(struct env_identity *out, unsigned generation, bool *met)
{
    int fd = -1;
    *met = false;
    tutti_result_t result = env_want("PMI_FD", 0, INT_MAX, &fd);
    if (result != TUTTI_SUCCESS || fd < 0 || dlsym(RTLD_DEFAULT, "MPI_Init"))
        return result;
    result = env_pmi1_exchange(fd, out, generation, met);
    if (*met && exit_fd < 0) {
        exit_fd = fd;
        exit_pid = getpid();
        atexit(finalize);
    }
    return result;
}
