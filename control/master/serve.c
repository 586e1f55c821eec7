/* SPDX-License-Identifier: Apache-2.0 */
#include "master/serve.h"

#include "base/error.h"
#include "report/report.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CONNECTIONS 8192 /* at a time: of agents, and of those who read */
#define FROM_ONE    256  /* of these, from one address */
#define SILENCE     10   /* seconds that a silent connection is kept */
#define UPLOADS     (256u << 20) /* bytes of all reports that are coming in */

struct server {
    const struct serve_options *options;
    struct MHD_Daemon *daemon;
    size_t uploads;
};

struct request {
    bool is_report;
    unsigned refusal; /* HTTP status; 0: so far so good */
    char *body;
    size_t used, room;
};

/* ---- Answers ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type, char *body)
{
    struct MHD_Response *response = body ? MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) {
        free(body);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned status, const char *sentence)
{
    char *body = NULL;
    if (asprintf(&body, "%s\n", sentence) < 0)
        return MHD_NO;
    return answer(connection, status, "text/plain; charset=utf-8", body);
}

static enum MHD_Result refuse(struct server *server, struct MHD_Connection *connection, unsigned status, const char *sentence)
{
    server->options->on_refusal(server->options->context);
    return say(connection, status, sentence);
}

/* ---- Who may speak ---- */

/* Takes as long for a token that is almost right. */
static bool is_token(const char *given, const struct token *token)
{
    size_t length = strlen(token->text);
    unsigned differs = strlen(given) != length;
    for (size_t i = 0; i < length && given[i]; i++)
        differs |= (unsigned char)given[i] ^ (unsigned char)token->text[i];
    return !differs;
}

static bool may_speak(const struct server *server, struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    return given && strncasecmp(given, scheme, sizeof scheme - 1) == 0 && is_token(given + sizeof scheme - 1, server->options->token);
}

/* What the head of a request says is enough to refuse it, before its body has come. */
static enum MHD_Result begin(struct server *server, struct MHD_Connection *connection, const char *url, const char *method, void **state)
{
    bool post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    struct request *request = calloc(1, sizeof *request);
    *state = request;
    if (!request)
        return MHD_NO;
    if (!may_speak(server, connection))
        return refuse(server, connection, MHD_HTTP_UNAUTHORIZED, "This wants the token of the job: Authorization: Bearer TOKEN");
    if (!post && !get)
        return refuse(server, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET, HEAD and POST");
    if (post && strcmp(url, "/report") != 0)
        return refuse(server, connection, MHD_HTTP_NOT_FOUND, "Reports go to /report");
    if (length && strtoull(length, NULL, 10) > REPORT_BYTES)
        return refuse(server, connection, MHD_HTTP_CONTENT_TOO_LARGE, "A report has 32 MiB at most");
    request->is_report = post;
    return MHD_YES;
}

/* ---- Bodies ---- */

static bool grow(struct server *server, struct request *request, size_t need)
{
    size_t room = request->room ? request->room : 1 << 14;
    while (room < need)
        room *= 2;
    char *more = room == request->room ? request->body : NULL;
    if (!more && server->uploads + room - request->room <= UPLOADS)
        more = realloc(request->body, room);
    if (!more)
        return false;
    server->uploads += room - request->room;
    request->body = more;
    request->room = room;
    return true;
}

/* What is too much is read and thrown away, so that the answer arrives. */
static void take(struct server *server, struct request *request, const char *bytes, size_t size)
{
    if (request->refusal || !request->is_report)
        return;
    if (size > REPORT_BYTES - request->used)
        request->refusal = MHD_HTTP_CONTENT_TOO_LARGE;
    else if (!grow(server, request, request->used + size))
        request->refusal = MHD_HTTP_SERVICE_UNAVAILABLE;
    else {
        memcpy(request->body + request->used, bytes, size);
        request->used += size;
    }
}

static enum MHD_Result finish_report(struct server *server, struct MHD_Connection *connection, const struct request *request)
{
    char sentence[SERVE_SENTENCE] = "";
    if (request->refusal == MHD_HTTP_CONTENT_TOO_LARGE)
        return refuse(server, connection, request->refusal, "A report has 32 MiB at most");
    if (request->refusal)
        return refuse(server, connection, request->refusal, "Too many reports at once");
    unsigned status = server->options->on_report(server->options->context, request->used ? request->body : "", request->used, sentence);
    return say(connection, status, sentence);
}

static enum MHD_Result finish(struct server *server, struct MHD_Connection *connection, const char *url, const struct request *request)
{
    const char *type = "";
    if (request->is_report)
        return finish_report(server, connection, request);
    char *body = server->options->on_page(server->options->context, url, &type);
    if (body)
        return answer(connection, MHD_HTTP_OK, type, body);
    return say(connection, type ? MHD_HTTP_INTERNAL_SERVER_ERROR : MHD_HTTP_NOT_FOUND,
               type ? "This cannot be made now" : "There are /, /verdicts, /history and /metrics");
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **state)
{
    struct server *server = context;
    if (!*state)
        return begin(server, connection, url, method, state);
    if (!*upload_size)
        return finish(server, connection, url, *state);
    take(server, *state, upload, *upload_size);
    *upload_size = 0;
    return MHD_YES;
}

static void on_end(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    struct server *server = context;
    struct request *request = *state;
    if (!request)
        return;
    server->uploads -= request->room;
    free(request->body);
    free(request);
    *state = NULL;
}

/* ---- The server ---- */

/* As many connections as this process may have, at most. */
static unsigned connections(void)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 256;
    limit.rlim_cur = limit.rlim_max < 2 * CONNECTIONS ? limit.rlim_max : 2 * CONNECTIONS;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > CONNECTIONS + 64 ? CONNECTIONS : (unsigned)limit.rlim_cur / 2 + 1;
}

static struct MHD_Daemon *start(struct server *server)
{
    const struct serve_options *options = server->options;
    bool tls = options->certificate;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | (tls ? MHD_USE_TLS : 0) | (options->at->any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    struct MHD_OptionItem pem[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, options->certificate}, {MHD_OPTION_HTTPS_MEM_KEY, 0, options->key}, {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR, &options->at->any, MHD_OPTION_CONNECTION_LIMIT,
                            connections(), MHD_OPTION_PER_IP_CONNECTION_LIMIT, FROM_ONE, MHD_OPTION_CONNECTION_TIMEOUT, SILENCE,
                            MHD_OPTION_NOTIFY_COMPLETED, on_end, server, MHD_OPTION_ARRAY, tls ? pem : none, MHD_OPTION_END);
}

struct server *serve_open(const struct serve_options *options)
{
    char text[NET_TEXT];
    struct server *server = calloc(1, sizeof *server);
    if (!server) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory");
        return NULL;
    }
    server->options = options;
    errno = 0;
    server->daemon = start(server);
    if (!server->daemon) {
        error_note(TUTTI_SYSTEM_ERROR, "cannot serve at %s: %s", net_format(options->at, text),
                   errno ? strerror(errno) : options->certificate ? "the certificate and the key are none, or do not fit" : "libmicrohttpd does not start");
        free(server);
        return NULL;
    }
    const union MHD_DaemonInfo *bound = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (bound)
        net_set_port(options->at, bound->port);
    return server;
}

void serve_close(struct server *server)
{
    if (server)
        MHD_stop_daemon(server->daemon);
    free(server);
}
