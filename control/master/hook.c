/* SPDX-License-Identifier: Apache-2.0 */
#include "master/hook.h"

#include "base/clock.h"
#include "base/error.h"
#include "verdict/verdict.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS     50
#define POST_MS     10000L
#define ENVIRONMENT 8 /* variables that a command gets besides our own */

struct task {
    uint64_t number;
    int64_t row;
    char *json, *environment[ENVIRONMENT];
    struct task *next;
};

struct hook {
    struct hook_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct task *first, **last;
    size_t count;
    atomic_bool ends;
};

static void free_task(struct task *task)
{
    for (size_t i = 0; task && i < ENVIRONMENT; i++)
        free(task->environment[i]);
    if (task)
        free(task->json);
    free(task);
}

/* ---- A command ---- */

/* The verdict as a file without a name. -1: it cannot be made. */
static int file_of(const char *text)
{
    int fd = memfd_create("verdict", MFD_CLOEXEC);
    size_t length = strlen(text);
    if (fd < 0 || (write(fd, text, length) == (ssize_t)length && lseek(fd, 0, SEEK_SET) == 0))
        return fd;
    close(fd);
    return -1;
}

/* Starts the command in a process group of its own, with signals as a shell expects them. */
static int spawn(pid_t *pid, const char *command, int in, char **environment)
{
    char *argv[] = {"sh", "-c", (char *)command, NULL};
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    int error = posix_spawn(pid, "/bin/sh", &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static void await(struct hook *hook, pid_t pid, char *outcome)
{
    int status = 0;
    uint64_t deadline = clock_deadline_ms(HOOK_SECONDS * 1000);
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && !clock_passed(deadline) && !atomic_load(&hook->ends))
        poll(NULL, 0, LOOK_MS);
    if (ended == 0) {
        kill(-pid, SIGKILL);
        waitpid(pid, &status, 0);
        snprintf(outcome, HOOK_OUTCOME,
                 clock_passed(deadline) ? "killed after %d seconds" : "killed, as the master ends", HOOK_SECONDS);
    } else if (WIFEXITED(status)) {
        snprintf(outcome, HOOK_OUTCOME, "exit status %d", WEXITSTATUS(status));
    } else {
        snprintf(outcome, HOOK_OUTCOME, "ended by signal %d", WTERMSIG(status));
    }
}

static void run_command(struct hook *hook, const struct task *task, char *outcome)
{
    size_t own = 0, count = 0;
    while (environ[own])
        own++;
    char **environment = calloc(own + ENVIRONMENT + 1, sizeof *environment);
    int in = file_of(task->json), error = ENOMEM;
    pid_t pid;
    for (size_t i = 0; environment && i < own; i++)
        environment[count++] = environ[i];
    for (size_t i = 0; environment && i < ENVIRONMENT && task->environment[i]; i++)
        environment[count++] = task->environment[i];
    if (environment && in >= 0)
        error = spawn(&pid, hook->options.command, in, environment);
    if (error)
        snprintf(outcome, HOOK_OUTCOME, "cannot be started: %s", strerror(error));
    else
        await(hook, pid, outcome);
    if (in >= 0)
        close(in);
    free(environment);
}

/* ---- A web hook ---- */

static size_t ignore(char *bytes, size_t size, size_t count, void *context)
{
    return size * count;
}

static int stops(void *context, curl_off_t all_in, curl_off_t in, curl_off_t all_out, curl_off_t out)
{
    return atomic_load(&((struct hook *)context)->ends);
}

static void post(struct hook *hook, const struct task *task, char *outcome)
{
    long status = 0;
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (curl && headers) {
        curl_easy_setopt(curl, CURLOPT_URL, hook->options.url);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, task->json);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, POST_MS);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, stops);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, hook);
        code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    }
    if (code == CURLE_OK)
        snprintf(outcome, HOOK_OUTCOME, "answered %ld", status);
    else
        snprintf(outcome, HOOK_OUTCOME, "not delivered: %s", curl_easy_strerror(code));
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
}

/* ---- The thread ---- */

static void carry_out(struct hook *hook, const struct task *task)
{
    char outcome[HOOK_OUTCOME];
    const struct hook_options *options = &hook->options;
    if (options->command && options->act)
        run_command(hook, task, outcome);
    else if (options->command)
        snprintf(outcome, sizeof outcome, "dry run, --act would run: %.100s", options->command);
    if (options->command)
        options->outcome(options->context, task->number, task->row, outcome);
    if (options->url && options->act)
        post(hook, task, outcome);
    else if (options->url)
        snprintf(outcome, sizeof outcome, "dry run, --act would post to: %.100s", options->url);
    if (options->url)
        options->outcome(options->context, task->number, task->row, outcome);
}

static struct task *next(struct hook *hook)
{
    pthread_mutex_lock(&hook->lock);
    while (!hook->first && !atomic_load(&hook->ends))
        pthread_cond_wait(&hook->more, &hook->lock);
    struct task *task = atomic_load(&hook->ends) ? NULL : hook->first;
    if (task) {
        hook->first = task->next;
        hook->last = hook->first ? hook->last : &hook->first;
        hook->count--;
    }
    pthread_mutex_unlock(&hook->lock);
    return task;
}

static void *work(void *argument)
{
    struct hook *hook = argument;
    for (struct task *task; (task = next(hook)); free_task(task))
        carry_out(hook, task);
    return NULL;
}

struct hook *hook_open(const struct hook_options *options)
{
    struct hook *hook = calloc(1, sizeof *hook);
    if (hook) {
        hook->options = *options;
        hook->last = &hook->first;
        pthread_mutex_init(&hook->lock, NULL);
        pthread_cond_init(&hook->more, NULL);
    }
    if (hook && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK &&
        pthread_create(&hook->thread, NULL, work, hook) == 0)
        return hook;
    free(hook);
    error_note(TUTTI_SYSTEM_ERROR, "the thread of the hook cannot be started");
    return NULL;
}

void hook_close(struct hook *hook)
{
    if (!hook)
        return;
    pthread_mutex_lock(&hook->lock);
    atomic_store(&hook->ends, true);
    pthread_cond_signal(&hook->more);
    pthread_mutex_unlock(&hook->lock);
    pthread_join(hook->thread, NULL);
    while (hook->first) {
        struct task *task = hook->first;
        hook->first = task->next;
        free_task(task);
    }
    pthread_mutex_destroy(&hook->lock);
    pthread_cond_destroy(&hook->more);
    curl_global_cleanup();
    free(hook);
}

/* ---- Verdicts ---- */

static bool add_text(struct task *task, size_t at, const char *name, const char *value)
{
    if (asprintf(&task->environment[at], "TUTTI_VERDICT%s=%s", name, value) >= 0)
        return true;
    task->environment[at] = NULL;
    return false;
}

static bool add_number(struct task *task, size_t at, const char *name, int64_t value, bool known)
{
    char text[24] = "";
    if (known)
        snprintf(text, sizeof text, "%lld", (long long)value);
    return add_text(task, at, name, text);
}

static struct task *task_of(const struct verdict *verdict)
{
    const struct finding *finding = &verdict->finding;
    struct task *task = calloc(1, sizeof *task);
    json_t *json = verdict_json(finding);
    if (task) {
        task->number = verdict->number;
        task->row = verdict->row;
        task->json = json ? json_dumps(json, JSON_COMPACT) : NULL;
    }
    json_decref(json);
    if (task && task->json && add_text(task, 0, "", finding->sentence) &&
        add_text(task, 1, "_KIND", finding_row(finding->kind)->name) &&
        add_text(task, 2, "_CONFIDENCE", confidence_name(finding->confidence)) &&
        add_text(task, 3, "_HOST", finding->culprit.host) &&
        add_number(task, 4, "_PID", finding->culprit.pid, finding->culprit.pid) &&
        add_number(task, 5, "_RANK", finding->culprit.world_rank, finding->culprit.world_rank >= 0))
        return task;
    free_task(task);
    return NULL;
}

void hook_push(struct hook *hook, const struct verdict *verdict)
{
    struct task *task = task_of(verdict);
    pthread_mutex_lock(&hook->lock);
    bool room = task && hook->count < HOOK_QUEUE;
    if (room) {
        *hook->last = task;
        hook->last = &task->next;
        hook->count++;
        pthread_cond_signal(&hook->more);
    }
    pthread_mutex_unlock(&hook->lock);
    if (room)
        return;
    hook->options.outcome(hook->options.context, verdict->number, verdict->row,
                          task ? "left out: too many wait" : "left out: no memory");
    free_task(task);
}
