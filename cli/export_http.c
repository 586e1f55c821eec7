/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP side of tutti export. libmicrohttpd is loaded when it is needed, so that the program starts without. */
#include "cli/cli.h"
#include "cli/export.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/load.h"
#include "base/net.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HTTP_LIBRARY     "libmicrohttpd.so.12"
#define HTTP_CONNECTIONS 16              /* at a time */
#define HTTP_TIMEOUT     10              /* seconds that a silent connection is kept */
#define LOOKS_NS         (90 * NS_PER_S) /* after a scrape, black boxes are looked at once a second for this time */

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
static uint64_t scraped; /* time of the last scrape; 0: none, or it failed */

static const char page[] =
    "Metrics of tutti for Prometheus are at /metrics; /healthz says whether this program can look.\n";
static const char type_openmetrics[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";
static const char type_text[] = "text/plain; version=0.0.4; charset=utf-8";

static struct {
    __typeof__(&MHD_start_daemon) start;
    __typeof__(&MHD_stop_daemon) stop;
    __typeof__(&MHD_get_daemon_info) info;
    __typeof__(&MHD_lookup_connection_value) header;
    __typeof__(&MHD_create_response_from_buffer) response;
    __typeof__(&MHD_add_response_header) add_header;
    __typeof__(&MHD_queue_response) queue;
    __typeof__(&MHD_destroy_response) destroy;
} http;

static bool load(void)
{
    static const struct load_symbol symbols[] = {
        {&http.start, "MHD_start_daemon"},
        {&http.stop, "MHD_stop_daemon"},
        {&http.info, "MHD_get_daemon_info"},
        {&http.header, "MHD_lookup_connection_value"},
        {&http.response, "MHD_create_response_from_buffer"},
        {&http.add_header, "MHD_add_response_header"},
        {&http.queue, "MHD_queue_response"},
        {&http.destroy, "MHD_destroy_response"},
    };
    return load_library(HTTP_LIBRARY, symbols, sizeof symbols / sizeof *symbols);
}

/* Answers with `body`, which malloc gave, and frees it. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type, char *body,
                              size_t length)
{
    struct MHD_Response *response = http.response(length, body, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(body);
        return MHD_NO;
    }
    http.add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        http.add_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = http.queue(connection, status, response);
    http.destroy(response);
    return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
    char *body = strdup(text);
    return body ? answer(connection, status, "text/plain; charset=utf-8", body, strlen(body)) : MHD_NO;
}

static enum MHD_Result answer_metrics(struct MHD_Connection *connection, struct exporter *exporter)
{
    char *body = NULL;
    size_t length = 0;
    const char *accept = http.header(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    bool open = accept && strstr(accept, "application/openmetrics-text");
    FILE *out = open_memstream(&body, &length);
    pthread_mutex_lock(&looking);
    bool fine = out && export_write(exporter, open ? EXPORT_OPENMETRICS : EXPORT_TEXT, out);
    scraped = fine ? clock_ns() : 0;
    pthread_mutex_unlock(&looking);
    if (out)
        fine = fclose(out) == 0 && fine;
    if (fine)
        return answer(connection, MHD_HTTP_OK, open ? type_openmetrics : type_text, body, length);
    free(body);
    return answer_text(connection, MHD_HTTP_INTERNAL_SERVER_ERROR,
                       "The black boxes cannot be read: see tutti export\n");
}

/* Healthy means that it can look for black boxes, whatever is in them. */
static enum MHD_Result answer_health(struct MHD_Connection *connection, const struct exporter *exporter)
{
    bool fine = access(exporter->view.dir, R_OK | X_OK) == 0;
    return answer_text(connection, fine ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                       fine ? "ok\n" : "The folder of the black boxes cannot be read\n");
}

/* One thread answers all requests; it shares the exporter with the thread that looks between scrapes. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state)
{
    static char begun;
    if (!*state) { /* the headers are here, the body is not */
        *state = &begun;
        return MHD_YES;
    }
    if (*upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET and HEAD\n");
    if (strcmp(url, "/metrics") == 0)
        return answer_metrics(connection, cls);
    if (strcmp(url, "/healthz") == 0)
        return answer_health(connection, cls);
    bool root = strcmp(url, "/") == 0;
    return answer_text(connection, root ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND,
                       root ? page : "There are only /metrics and /healthz\n");
}

static struct MHD_Daemon *start(struct exporter *exporter, const struct net_address *at)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | (at->any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    return http.start(flags, 0, NULL, NULL, on_request, exporter, MHD_OPTION_SOCK_ADDR, &at->any,
                      MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, HTTP_TIMEOUT,
                      MHD_OPTION_END);
}

/* Looks between the scrapes of a regular reader, if processes live. */
static void look_until(const sigset_t *ends, struct exporter *exporter)
{
    const struct timespec pause = {.tv_sec = 1};
    while (sigtimedwait(ends, NULL, &pause) < 0) {
        pthread_mutex_lock(&looking);
        if (scraped && exporter->count && clock_ns() < scraped + LOOKS_NS && !export_look(exporter))
            scraped = 0;
        pthread_mutex_unlock(&looking);
    }
}

int export_serve(struct exporter *exporter, const char *address)
{
    struct net_address at;
    char text[NET_TEXT];
    sigset_t ends;
    if (!load())
        return failure("export", "cannot load " HTTP_LIBRARY ": install libmicrohttpd12, or use --once");
    if (net_parse("--listen", address, &at) != TUTTI_SUCCESS)
        return failure("export", "%s", error_last());
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* set before there are threads that would take the signals */
    errno = 0;
    struct MHD_Daemon *daemon = start(exporter, &at);
    if (!daemon)
        return failure("export", "cannot serve at %s: %s", net_format(&at, text), strerror(errno));
    const union MHD_DaemonInfo *bound = http.info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (bound)
        net_set_port(&at, bound->port);
    printf("Metrics are served at http://%s/metrics\n", net_format(&at, text));
    int code = fflush(stdout) == 0 ? EXIT_OK : failure("export", "cannot write the output: %s", strerror(errno));
    if (code == EXIT_OK)
        look_until(&ends, exporter);
    http.stop(daemon);
    return code;
}
