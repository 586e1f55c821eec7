/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/serve.h"

#include "base/error.h"
#include "report/bundle.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CONNECTIONS 8192 /* connections at a time: of agents, and of readers */
#define FROM_ONE    256  /* of these, from one address */
#define SILENCE     10   /* seconds that a silent connection is kept */

struct server {
    const struct serve_options *options;
    struct MHD_Daemon *daemon;
    size_t uploads;
    pthread_mutex_t lock; /* answers that exist */
};

struct serve_request {
    struct server *server;
    struct MHD_Connection *connection;
    char from[INET6_ADDRSTRLEN];
    bool is_post, is_bundle;
    unsigned token;   /* that came with it */
    unsigned refusal; /* HTTP status; 0: fine so far */
    char *body;
    size_t used, room;
    bool handed, answered, suspended; /* to on_post; by serve_answer; the time limit */
    unsigned status, retry;
    char *answer;
    size_t answer_size;
};

/* ---- Answers ---- */

/* Headers for browsers: a page's parts come from here only, no other page may hold or read it, and types are not
 * guessed. */
static const char *const guards[][2] = {
    {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
                                "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type, char *body,
                              size_t size, unsigned retry)
{
    char seconds[16];
    struct MHD_Response *response = body ? MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) {
        free(body);
        return MHD_NO;
    }
    snprintf(seconds, sizeof seconds, "%u", retry);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        MHD_add_response_header(response, guards[i][0], guards[i][1]);
    if (status == MHD_HTTP_UNAUTHORIZED) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"tutti\", charset=\"UTF-8\"");
    }
    if (retry)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result say(struct serve_request *request, unsigned status, const char *sentence)
{
    char *body = NULL;
    int length = asprintf(&body, "%s\n", sentence);
    return length < 0 ? MHD_NO
                      : answer(request->connection, status, "text/plain; charset=utf-8", body, (size_t)length, 0);
}

static enum MHD_Result refuse(struct serve_request *request, unsigned status, const char *sentence)
{
    const struct serve_options *options = request->server->options;
    options->on_refusal(options->context, request->from, sentence);
    return say(request, status, sentence);
}

void serve_answer(struct serve_request *request, unsigned status, const void *body, size_t size, unsigned retry)
{
    struct server *server = request->server;
    char *copy = malloc(size + 1);
    if (copy)
        memcpy(copy, body, size);
    pthread_mutex_lock(&server->lock);
    request->status = status;
    request->retry = retry;
    request->answer = copy;
    request->answer_size = size;
    request->answered = true;
    if (request->suspended)
        MHD_resume_connection(request->connection);
    pthread_mutex_unlock(&server->lock);
}

void serve_say(struct serve_request *request, unsigned status, const char *sentence, unsigned retry)
{
    char line[SERVE_SENTENCE + 2];
    int length = snprintf(line, sizeof line, "%.*s\n", SERVE_SENTENCE, sentence);
    serve_answer(request, status, line, (size_t)length, retry);
}

/* ---- Permission ---- */

static const char too_large[] = "A report has 32 MiB at most, and a bundle 33 MiB";

static const char *why_too_large(const struct serve_request *request)
{
    return request->server->options->post ? "The question is too long" : too_large;
}

static size_t body_limit(const struct serve_request *request)
{
    if (request->server->options->post)
        return request->server->options->most;
    return request->is_bundle ? BUNDLE_BYTES : REPORT_BYTES;
}

/* Compares in the same time, also if a token is almost right. */
static bool is_token(const char *given, const struct token *token)
{
    size_t length = strlen(token->text);
    unsigned differs = strlen(given) != length;
    for (size_t i = 0; i < length && given[i]; i++)
        differs |= (unsigned char)given[i] ^ (unsigned char)token->text[i];
    return !differs;
}

/* All are compared, for the same reason. */
static bool find_token(const struct serve_options *options, const char *given, unsigned *which)
{
    bool found = false;
    for (unsigned i = 0; i < (options->tokens ? options->tokens : 1); i++)
        if (is_token(given, &options->token[i])) {
            *which = i;
            found = true;
        }
    return found;
}

/* A browser asks its user for a name, which may be any, and a password. */
static bool knows_password(const struct server *server, struct MHD_Connection *connection, unsigned *which)
{
    char *password = NULL, *name = MHD_basic_auth_get_username_password(connection, &password);
    bool knows = password && find_token(server->options, password, which);
    MHD_free(name);
    MHD_free(password);
    return knows;
}

/* Passwords are good for reading only: browsers send them also where another page has made them ask. */
static bool may_speak(const struct server *server, struct MHD_Connection *connection, bool reads, unsigned *which)
{
    static const char scheme[] = "Bearer ";
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (given && strncasecmp(given, scheme, sizeof scheme - 1) == 0)
        return find_token(server->options, given + sizeof scheme - 1, which);
    return given && reads && knows_password(server, connection, which);
}

static const char *why_not(unsigned status)
{
    if (status & (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNER_NOT_CA))
        return "The certificate was made by an authority that is not known here: --client-ca says which is";
    if (status & GNUTLS_CERT_EXPIRED)
        return "The certificate has expired";
    if (status & GNUTLS_CERT_NOT_ACTIVATED)
        return "The certificate is not valid yet: is the clock right?";
    return "The certificate does not hold";
}

/* NULL: the certificate holds, or none is asked for. The handshake goes on without one, so that the answer can say what
 * is missing. */
static const char *judge_certificate(const struct server *server, struct MHD_Connection *connection)
{
    unsigned status = 0;
    if (!server->options->door->client_ca)
        return NULL;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    int code = info ? gnutls_certificate_verify_peers2(info->tls_session, &status) : GNUTLS_E_INTERNAL_ERROR;
    if (code == GNUTLS_E_NO_CERTIFICATE_FOUND)
        return "This wants a certificate of the one that comes, besides the token: --certificate and --key of tutti "
               "agent";
    return code < 0 || status ? why_not(code < 0 ? 0 : status) : NULL;
}

static void name_sender(struct serve_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    const void *bytes = NULL;
    if (address && address->sa_family == AF_INET)
        bytes = &((const struct sockaddr_in *)address)->sin_addr;
    if (address && address->sa_family == AF_INET6)
        bytes = &((const struct sockaddr_in6 *)address)->sin6_addr;
    if (!bytes || !inet_ntop(address->sa_family, bytes, request->from, sizeof request->from))
        snprintf(request->from, sizeof request->from, "nowhere");
}

static bool takes_post(const struct serve_options *options, const char *url)
{
    if (options->post)
        return strcmp(url, options->post) == 0;
    return strcmp(url, "/report") == 0 || strcmp(url, "/bundle") == 0;
}

/* Refuses a request, if its head is reason enough, before its body has come. */
static enum MHD_Result begin(struct server *server, struct MHD_Connection *connection, const char *url,
                             const char *method, void **state)
{
    bool post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    struct serve_request *request = calloc(1, sizeof *request);
    *state = request;
    if (!request)
        return MHD_NO;
    *request = (struct serve_request){
        .server = server, .connection = connection, .is_post = post, .is_bundle = strcmp(url, "/bundle") == 0};
    name_sender(request);
    const char *doubt = judge_certificate(server, connection);
    if (doubt)
        return refuse(request, MHD_HTTP_FORBIDDEN, doubt);
    if (!may_speak(server, connection, get, &request->token))
        return refuse(request, MHD_HTTP_UNAUTHORIZED,
                      server->options->post ? "This wants the token of a tenant: Authorization: Bearer TOKEN"
                                            : "This wants the token of the job: Authorization: Bearer TOKEN");
    if (!post && !get)
        return refuse(request, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET, HEAD and POST");
    if (post && !takes_post(server->options, url))
        return refuse(request, MHD_HTTP_NOT_FOUND,
                      server->options->post ? "Nothing is taken there" : "Reports go to /report, several to /bundle");
    if (length && strtoull(length, NULL, 10) > body_limit(request))
        return refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, why_too_large(request));
    return MHD_YES;
}

/* ---- Bodies ---- */

static bool grow(struct server *server, struct serve_request *request, size_t need)
{
    size_t room = request->room ? request->room : 1 << 14;
    while (room < need)
        room *= 2;
    char *more = room == request->room ? request->body : NULL;
    if (!more && server->uploads + room - request->room <= server->options->uploads)
        more = realloc(request->body, room);
    if (!more)
        return false;
    server->uploads += room - request->room;
    request->body = more;
    request->room = room;
    return true;
}

/* Reads and drops a body that is too large, so that the answer arrives. */
static void take(struct server *server, struct serve_request *request, const char *bytes, size_t size)
{
    if (request->refusal || !request->is_post)
        return;
    if (size > body_limit(request) - request->used)
        request->refusal = MHD_HTTP_CONTENT_TOO_LARGE;
    else if (!grow(server, request, request->used + size))
        request->refusal = MHD_HTTP_SERVICE_UNAVAILABLE;
    else {
        memcpy(request->body + request->used, bytes, size);
        request->used += size;
    }
}

/* Hands a request to on_post, once. A later answer finds the connection suspended; an earlier one is found here. */
static enum MHD_Result hand_over(struct server *server, struct serve_request *request)
{
    const struct serve_post post = {.from = request->from,
                                    .bundle = request->is_bundle,
                                    .token = request->token,
                                    .bytes = request->used ? request->body : "",
                                    .size = request->used};
    if (!request->handed) {
        request->handed = true;
        server->options->on_post(server->options->context, request, &post);
    }
    pthread_mutex_lock(&server->lock);
    request->suspended = !request->answered;
    if (request->suspended)
        MHD_suspend_connection(request->connection);
    pthread_mutex_unlock(&server->lock);
    if (request->suspended)
        return MHD_YES;
    char *body = request->answer;
    request->answer = NULL;
    return answer(request->connection, request->status, "text/plain; charset=utf-8", body, request->answer_size,
                  request->retry);
}

static enum MHD_Result finish_post(struct server *server, struct serve_request *request)
{
    if (request->refusal == MHD_HTTP_CONTENT_TOO_LARGE)
        return refuse(request, request->refusal, why_too_large(request));
    if (request->refusal)
        return refuse(request, request->refusal, "Too many reports at once");
    return hand_over(server, request);
}

static enum MHD_Result finish(struct server *server, const char *url, struct serve_request *request)
{
    const struct serve_options *options = server->options;
    const char *type = NULL;
    if (request->is_post)
        return finish_post(server, request);
    char *body = options->on_page ? options->on_page(options->context, url, &type) : NULL;
    if (body)
        return answer(request->connection, MHD_HTTP_OK, type, body, strlen(body), 0);
    return say(request, type ? MHD_HTTP_INTERNAL_SERVER_ERROR : MHD_HTTP_NOT_FOUND,
               type ? "This cannot be made now" : options->pages);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct server *server = context;
    if (!*state)
        return begin(server, connection, url, method, state);
    if (!*upload_size)
        return finish(server, url, *state);
    take(server, *state, upload, *upload_size);
    *upload_size = 0;
    return MHD_YES;
}

static void on_end(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    struct server *server = context;
    struct serve_request *request = *state;
    if (!request)
        return;
    server->uploads -= request->room;
    free(request->body);
    free(request->answer);
    free(request);
    *state = NULL;
}

/* ---- The server ---- */

/* The connections that this process may have at most. */
static unsigned connections(void)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 256;
    limit.rlim_cur = limit.rlim_max < 2 * CONNECTIONS ? limit.rlim_max : 2 * CONNECTIONS;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > CONNECTIONS + 64 ? CONNECTIONS : (unsigned)limit.rlim_cur / 2 + 1;
}

/* Checks the authorities: libmicrohttpd accepts anything, and then knows none. */
static bool holds_certificates(char *pem)
{
    gnutls_x509_crt_t *certificates;
    unsigned count;
    const gnutls_datum_t text = {(unsigned char *)pem, (unsigned)strlen(pem)};
    if (gnutls_x509_crt_list_import2(&certificates, &count, &text, GNUTLS_X509_FMT_PEM, 0) < 0)
        return false;
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(certificates[i]);
    gnutls_free(certificates);
    return count > 0;
}

static struct MHD_Daemon *start(struct server *server)
{
    const struct serve_options *options = server->options;
    const struct serve_door *door = options->door;
    bool tls = door->certificate;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0) |
                     (door->at.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    struct MHD_OptionItem pem[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, door->certificate},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, door->key},
                                   {door->client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, door->client_ca},
                                   {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR, &door->at.any,
                            MHD_OPTION_CONNECTION_LIMIT, connections(), MHD_OPTION_PER_IP_CONNECTION_LIMIT, FROM_ONE,
                            MHD_OPTION_CONNECTION_TIMEOUT, SILENCE, MHD_OPTION_NOTIFY_COMPLETED, on_end, server,
                            MHD_OPTION_ARRAY, tls ? pem : none, MHD_OPTION_END);
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
    pthread_mutex_init(&server->lock, NULL);
    errno = 0;
    if (!options->door->client_ca || holds_certificates(options->door->client_ca))
        server->daemon = start(server);
    if (!server->daemon) {
        error_note(TUTTI_SYSTEM_ERROR, "cannot serve at %s: %s", net_format(&options->door->at, text),
                   errno                        ? strerror(errno)
                   : options->door->certificate ? "the certificates and the key are none, or do not fit"
                                                : "libmicrohttpd does not start");
        serve_close(server);
        return NULL;
    }
    const union MHD_DaemonInfo *bound = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (bound)
        net_set_port(&options->door->at, bound->port);
    return server;
}

void serve_close(struct server *server)
{
    if (!server)
        return;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
