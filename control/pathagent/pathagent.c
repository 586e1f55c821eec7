/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/pathagent.h"
#include "pathagent/masters.h"
#include "pathagent/probing.h"
#include "pathagent/table.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS    1024
#define BURST      64 /* packets of one process before it is the next one's turn */
#define GATHER_MS  2  /* that a question waits for more lanes, */
#define GATHER_ALL 20 /* ms in all */
#define PAUSE_MS   500
#define PAUSE_MOST 5000 /* between two tries where no master answers */
#define IDLE_MS    5000 /* between two looks while there is no lane */

static volatile bool ended;

static void on_signal(int number)
{
    ended = true;
}

struct pathagent {
    const struct pathagent_options *options;
    struct lane_table *table;
    struct probing *probing; /* NULL: this host does not probe */
    struct masters *masters;
    int listening;
    struct pollfd client[CLIENTS + 1]; /* the last one listens */
    int32_t clients;                   /* places in use, and free ones between them (fd -1) */
    uint64_t next, away;               /* when to ask again; until when there is no master */
    uint64_t news;                     /* since when there is some; 0: none */
    uint32_t pause;                    /* ms */
    bool heard;
    char said[300];
};

/* ---- processes ---- */

static void on_tell(void *context, int32_t client, const struct wire_lease_answer *answer)
{
    struct pathagent *agent = context;
    /* A process that does not read what it asked for goes without. */
    (void)!send(agent->client[client].fd, answer, sizeof *answer, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void part(struct pathagent *agent, int32_t client)
{
    close(agent->client[client].fd);
    agent->client[client].fd = -1;
    table_leave(agent->table, client);
}

static void meet(struct pathagent *agent)
{
    int fd = accept4(agent->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int32_t i = 0;
    while (i < agent->clients && agent->client[i].fd >= 0)
        i++;
    if (fd < 0 || i == CLIENTS) {
        if (fd >= 0)
            close(fd);
        return;
    }
    agent->client[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    agent->clients += i == agent->clients;
}

/* What makes no sense ends the connection: the process goes on without. */
static void hear(struct pathagent *agent, int32_t client)
{
    struct wire_lease_ask ask;
    ssize_t got = -1;
    for (int i = 0; i < BURST; i++) {
        got = recv(agent->client[client].fd, &ask, sizeof ask, MSG_DONTWAIT | MSG_TRUNC);
        if (got != sizeof ask)
            break;
        if (!table_ask(agent->table, client, &ask)) {
            part(agent, client);
            return;
        }
    }
    if (got >= 0 ? got != sizeof ask : errno != EAGAIN && errno != EINTR)
        part(agent, client);
}

/* ---- the master ---- */

static void complain(struct pathagent *agent)
{
    if (strncmp(agent->said, error_last(), sizeof agent->said - 1) != 0)
        fprintf(stderr, "tutti pathagent: %s\n", error_last());
    snprintf(agent->said, sizeof agent->said, "%s", error_last());
}

static void complain_of_probes(struct pathagent *agent)
{
    char sentence[160];
    if (agent->probing && probing_complaint(agent->probing, sentence))
        fprintf(stderr, "tutti pathagent: %s\n", sentence);
}

static void say_heard(struct pathagent *agent)
{
    if (!agent->heard || *agent->said) {
        printf("%s %s: %d lanes\n", agent->heard ? "Asking again" : "Asking", masters_url(agent->masters),
               table_lanes(agent->table));
        fflush(stdout);
    }
    agent->heard = true;
    *agent->said = 0;
    agent->pause = PAUSE_MS;
}

static void ask(struct pathagent *agent)
{
    Tutti__PathAsk question = TUTTI__PATH_ASK__INIT;
    Tutti__PathAnswer *answer = NULL;
    const uint8_t *answered = NULL;
    uint32_t come = 0;
    size_t size = 0, got = 0;
    if (agent->probing)
        probing_ask(agent->probing, &question);
    uint8_t *bytes = table_question(agent->table, &question, &size);
    bool good = bytes && masters_ask(agent->masters, bytes, size, &answered, &got) &&
                path_answer_read(answered, got, &answer) == TUTTI_SUCCESS &&
                table_answer(agent->table, answer) == TUTTI_SUCCESS;
    if (good && agent->probing)
        probing_answer(agent->probing, answer);
    come = good ? answer->come_ms : 0;
    path_answer_free(answer);
    free(bytes);
    complain_of_probes(agent);
    uint64_t now = clock_ns();
    if (good) {
        say_heard(agent);
        agent->next = now + come * NS_PER_MS;
        agent->away = 0;
        return;
    }
    complain(agent);
    table_fail(agent->table);
    agent->away = agent->next = now + agent->pause * NS_PER_MS;
    agent->pause = agent->pause * 2 > PAUSE_MOST ? PAUSE_MOST : agent->pause * 2;
}

/* ---- the loop ---- */

static int wait_ms(const struct pathagent *agent)
{
    if (table_has_news(agent->table) && !agent->away)
        return GATHER_MS;
    if (!table_lanes(agent->table) && !table_has_news(agent->table) && !agent->probing)
        return IDLE_MS;
    return clock_left_ms(agent->next);
}

/* Nothing more came for a moment, or for long something has. */
static bool is_gathered(struct pathagent *agent, bool more)
{
    uint64_t now = clock_ns();
    if (!table_has_news(agent->table)) {
        agent->news = 0;
        return false;
    }
    agent->news = agent->news ? agent->news : now;
    if (more && now - agent->news < GATHER_ALL * NS_PER_MS)
        return false;
    agent->news = 0;
    return true;
}

static void loop(struct pathagent *agent)
{
    while (!ended) {
        agent->client[agent->clients] = (struct pollfd){.fd = agent->listening, .events = POLLIN};
        int ready = poll(agent->client, (nfds_t)agent->clients + 1, wait_ms(agent)), clients = agent->clients;
        bool knock = ready > 0 && agent->client[clients].revents;
        for (int32_t i = 0; ready > 0 && i < clients; i++)
            if (agent->client[i].fd >= 0 && agent->client[i].revents)
                hear(agent, i);
        if (knock)
            meet(agent);
        bool due = clock_passed(agent->next);
        if (agent->away && !due) {
            table_fail(agent->table);
            continue;
        }
        if (!ended && (is_gathered(agent, ready > 0) || (due && (agent->probing || table_lanes(agent->table)))))
            ask(agent);
    }
}

/* ---- beginning and end ---- */

/* A socket that nobody listens at is one of an agent that was killed. */
static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path) {
        error_note(TUTTI_INVALID_USAGE, "--socket %s: more than %zu characters", path, sizeof at.sun_path - 1);
        return -1;
    }
    memcpy(at.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
        error_note(TUTTI_INVALID_USAGE, "another agent listens at %s", path);
        close(fd);
        return -1;
    }
    struct stat found;
    if (fd >= 0 && errno == ECONNREFUSED && lstat(path, &found) == 0 && S_ISSOCK(found.st_mode))
        unlink(path);
    bool good = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && chmod(path, 0666) == 0 &&
                listen(fd, CLIENTS) == 0;
    if (good)
        return fd;
    error_note(TUTTI_SYSTEM_ERROR, "listening at %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static void close_all(struct pathagent *agent)
{
    for (int32_t i = 0; i < agent->clients; i++)
        if (agent->client[i].fd >= 0)
            part(agent, i);
    if (agent->listening >= 0) {
        close(agent->listening);
        unlink(agent->options->socket);
    }
    masters_close(agent->masters);
    probing_close(agent->probing);
    table_close(agent->table);
    free(agent);
}

bool pathagent_run(const struct pathagent_options *options)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct pathagent *agent = calloc(1, sizeof *agent);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (!agent) {
        fprintf(stderr, "tutti pathagent: no memory\n");
        return false;
    }
    *agent = (struct pathagent){.options = options, .listening = -1, .pause = PAUSE_MS};
    agent->table = table_open(on_tell, agent);
    agent->masters = agent->table ? masters_open(&options->sender, &ended) : NULL;
    agent->probing = agent->masters && options->probes ? probing_open(&options->prober) : NULL;
    bool probes = agent->masters && (agent->probing || !options->probes);
    agent->listening = probes ? listen_at(options->socket) : -1;
    bool fine = agent->listening >= 0;
    if (fine) {
        printf("Processes ask at %s\n", options->socket);
        fflush(stdout);
        loop(agent);
    } else {
        fprintf(stderr, "tutti pathagent: %s\n", error_last());
    }
    close_all(agent);
    return fine;
}

bool pathagent_tell(const struct pathagent_options *options, const char *uplink, unsigned percent)
{
    Tutti__PathLink link = TUTTI__PATH_LINK__INIT, *links[] = {&link};
    Tutti__PathAsk ask = TUTTI__PATH_ASK__INIT;
    const uint8_t *answer;
    size_t size = 0, got;
    ask.version = PATH_VERSION;
    link.uplink = (char *)uplink;
    link.percent = percent;
    ask.links = links;
    ask.n_links = uplink ? 1 : 0;
    ask.look = !uplink;
    struct masters *masters = masters_open(&options->sender, &ended);
    uint8_t *bytes = masters ? path_pack(&ask.base, &size) : NULL;
    bool good = bytes && masters_ask(masters, bytes, size, &answer, &got);
    if (masters && !bytes)
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
    free(bytes);
    masters_close(masters);
    return good;
}
