/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program hears by its descriptor: a connection that is cut and comes back, a peer that is late, a process that
 * is killed. A forked child hears nothing.
 */
#include "family.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *over;

struct ear {
    tutti_events_t events;
    int fd;
    bool right;
};

/* Waits for an event of this kind by the descriptor alone. */
static bool hear(struct ear *ear, int kind, tutti_event_t *event)
{
    for (int i = 0; i < 64; i++) {
        struct pollfd ready = {.fd = ear->fd, .events = POLLIN};
        event->size = sizeof *event;
        tutti_result_t result =
            poll(&ready, 1, 20000) == 1 ? tutti_events_next(ear->events, event) : TUTTI_RESULT_COUNT;
        if (result != TUTTI_SUCCESS && result != TUTTI_IN_PROGRESS) /* the latter: a file beside the black boxes */
            break;
        if (result == TUTTI_SUCCESS && event->kind == kind)
            return true;
    }
    fprintf(stderr, "  no event of kind %d came\n", kind);
    return false;
}

static void expect(struct ear *ear, bool right, const char *what, const tutti_event_t *event)
{
    if (!right)
        fprintf(stderr, "  %s: rank %d, lane %d, process %u, missed %u, \"%s\"\n", what, event->rank, event->lane,
                event->process, event->missed, event->text);
    ear->right &= right;
}

/* All connections of this process to peers. */
static void cut(void)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.ss_family != AF_UNIX)
            shutdown(fd, SHUT_RDWR);
    }
}

static void swap(int peer, tutti_comm_t comm)
{
    static unsigned char out[1 << 16], in[1 << 16];
    tutti_group_start();
    tutti_send(out, sizeof out, TUTTI_UINT8, peer, comm, NULL);
    tutti_recv(in, sizeof in, TUTTI_UINT8, peer, comm, NULL);
    tutti_group_end();
    tutti_comm_synchronize(comm);
}

static void hear_of_lanes(struct ear *ear, const struct family *family, tutti_comm_t comm)
{
    tutti_event_t event = {0};
    swap(1, comm);
    cut();
    bool down = hear(ear, TUTTI_EVENT_LANE_DOWN, &event);
    bool mine = event.process == (uint32_t)family->pid[1] || event.process == (uint32_t)family->pid[2];
    expect(ear, down && event.rank == -1 && event.lane >= 0 && mine && strstr(event.text, "is down: "), "down", &event);
    bool back = hear(ear, TUTTI_EVENT_LANE_BACK, &event);
    expect(ear, back && event.lane >= 0 && strstr(event.text, "works again"), "back", &event);
    swap(1, comm);
}

static void hear_of_waiting(struct ear *ear, struct family *family, tutti_comm_t comm)
{
    tutti_event_t event = {0};
    unsigned char byte;
    tutti_recv(&byte, 1, TUTTI_UINT8, 1, comm, NULL);
    bool heard = hear(ear, TUTTI_EVENT_WAITING, &event);
    atomic_store(&family->stop, true);
    tutti_comm_synchronize(comm);
    expect(ear,
           heard && event.rank == 1 && event.process == (uint32_t)family->pid[1] && strstr(event.text, "for rank 1"),
           "waiting", &event);
}

static void child_hears_nothing(struct ear *ear)
{
    tutti_event_t event = {.size = sizeof event};
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        bool refused = tutti_events_next(ear->events, &event) == TUTTI_INVALID_USAGE;
        tutti_events_close(ear->events);
        _exit(!refused);
    }
    waitpid(child, &status, 0);
    expect(ear, status == 0, "the child's", &event);
}

static void hear_of_loss(struct ear *ear, const struct family *family, tutti_comm_t comm)
{
    tutti_event_t event = {0};
    uint32_t victim = (uint32_t)family->pid[2]; /* forgotten when it has ended */
    kill((pid_t)victim, SIGKILL);
    bool lost = hear(ear, TUTTI_EVENT_LOST, &event);
    expect(ear, lost && event.rank == 2 && event.process == victim && strstr(event.text, "rank 2 ("), "lost", &event);
    tutti_barrier(comm, NULL);
    tutti_comm_synchronize(comm);
    bool heard = hear(ear, TUTTI_EVENT_FAILED, &event);
    expect(ear,
           heard && event.rank == 2 && event.process == victim && strstr(event.text, "lost rank 2") && event.time_ns,
           "failed", &event);
}

static void listen_to_all(struct family *family, tutti_comm_t comm)
{
    struct ear ear = {.right = true};
    tutti_event_t event = {.size = sizeof event};
    if (tutti_events_open(&ear.events, &ear.fd) != TUTTI_SUCCESS)
        return;
    expect(&ear, tutti_events_next(ear.events, &event) == TUTTI_IN_PROGRESS, "none", &event);
    swap(2, comm); /* a process that no lane leads to is not missed */
    if (strcmp(over, "tcp") == 0)
        hear_of_lanes(&ear, family, comm);
    hear_of_waiting(&ear, family, comm);
    child_hears_nothing(&ear);
    hear_of_loss(&ear, family, comm);
    tutti_events_close(ear.events);
    family->report[0].rounds = ear.right;
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    unsigned char byte = 1;
    float one = 1, sum;
    tutti_allreduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL);
    tutti_comm_synchronize(comm);
    if (rank == 0)
        listen_to_all(family, comm);
    if (rank == 1) {
        for (int i = 0; i < 2 && strcmp(over, "tcp") == 0; i++)
            swap(0, comm);
        while (!atomic_load(&family->stop)) /* until rank 0 has heard that it is late */
            family_nap(1);
        tutti_send(&byte, 1, TUTTI_UINT8, 0, comm, NULL);
        tutti_comm_synchronize(comm);
    }
    if (rank == 2) {
        swap(0, comm);
        family_nap(60000);
    }
    tutti_barrier(comm, NULL);
    tutti_comm_synchronize(comm);
    tutti_comm_destroy(comm);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    over = argv[1];
    setenv("TUTTI_TRANSPORT", over, 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_EVENT_WAIT", "100ms", 1);
    struct family *family = family_start(3, 2, 0, 1, work);
    bool right = family_wait(family, 60) && family->report[0].rounds == 1;
    printf("events over %s: %s\n", over, right ? "right" : "WRONG");
    family_free(family);
    return !right;
}
