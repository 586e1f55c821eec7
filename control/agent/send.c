/* SPDX-License-Identifier: Apache-2.0 */
/* The way to the master: HTTP by libcurl, over one connection that is kept. */
#include "agent/agent.h"

#include "base/error.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 3000L
#define WHOLE_MS   10000L
#define ANSWER     200 /* letters of what a master says */

struct sender {
    CURL *curl;
    struct curl_slist *headers;
    char url[1024], answer[ANSWER + 1], error[CURL_ERROR_SIZE];
    const volatile bool *stop;
};

static size_t on_answer(char *bytes, size_t size, size_t count, void *arg)
{
    struct sender *sender = arg;
    size_t used = strlen(sender->answer);
    for (size_t i = 0; i < size * count && used < ANSWER; i++)
        sender->answer[used++] = (unsigned char)bytes[i] < 32 || bytes[i] == 127 ? ' ' : bytes[i];
    while (used && sender->answer[used - 1] == ' ')
        used--;
    sender->answer[used] = 0;
    return size * count;
}

static int on_progress(void *arg, curl_off_t all_in, curl_off_t in, curl_off_t all_out, curl_off_t out)
{
    return *((struct sender *)arg)->stop;
}

/* Does nobody but this host hear what is sent there? */
static bool is_private(const char *url)
{
    char *scheme = NULL, *host = NULL;
    CURLU *parts = curl_url();
    bool private = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                   curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK && curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                   (strcmp(scheme, "https") == 0 || strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0);
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parts);
    return private;
}

static tutti_result_t check(const struct sender_options *options)
{
    bool http = strncmp(options->url, "http://", 7) == 0 || strncmp(options->url, "https://", 8) == 0;
    if (!http || strlen(options->url) > 900)
        return error_note(TUTTI_INVALID_USAGE, "%s: want https://HOST:PORT, or http://", options->url);
    if (!options->plain && !is_private(options->url))
        return error_note(TUTTI_INVALID_USAGE, "%s: the token would travel in the clear: want https://, or --plain", options->url);
    return TUTTI_SUCCESS;
}

/* A proxy of the environment is for the world outside: agent and master speak directly. */
static bool prepare(struct sender *sender, const struct sender_options *options)
{
    char header[TOKEN_MOST + 32];
    CURL *curl = sender->curl;
    snprintf(header, sizeof header, "Authorization: Bearer %s", options->token->text);
    size_t length = strlen(options->url);
    snprintf(sender->url, sizeof sender->url, "%s%sreport", options->url, options->url[length - 1] == '/' ? "" : "/");
    const char *const lines[] = {header, "Content-Type: application/x-protobuf", "Expect:"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct curl_slist *more = curl_slist_append(sender->headers, lines[i]);
        if (!more)
            return false;
        sender->headers = more;
    }
    return curl_easy_setopt(curl, CURLOPT_URL, sender->url) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_HTTPHEADER, sender->headers) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK && curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, WHOLE_MS) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_POST, 1L) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEDATA, sender) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK && curl_easy_setopt(curl, CURLOPT_XFERINFODATA, sender) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, sender->error) == CURLE_OK &&
           (!options->ca || curl_easy_setopt(curl, CURLOPT_CAINFO, options->ca) == CURLE_OK);
}

struct sender *sender_open(const struct sender_options *options, const volatile bool *stop)
{
    if (check(options) != TUTTI_SUCCESS)
        return NULL;
    struct sender *sender = calloc(1, sizeof *sender);
    bool fine = sender && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK && (sender->curl = curl_easy_init()) && prepare(sender, options);
    if (!fine) {
        sender_close(sender);
        error_note(TUTTI_SYSTEM_ERROR, "libcurl cannot be made ready: no memory, or a version too old");
        return NULL;
    }
    sender->stop = stop;
    return sender;
}

void sender_close(struct sender *sender)
{
    if (!sender)
        return;
    curl_easy_cleanup(sender->curl);
    curl_slist_free_all(sender->headers);
    curl_global_cleanup();
    free(sender);
}

enum delivery sender_post(struct sender *sender, const uint8_t *bytes, size_t size)
{
    long status = 0;
    *sender->answer = *sender->error = 0;
    curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDS, (const char *)bytes);
    curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
    CURLcode code = curl_easy_perform(sender->curl);
    curl_easy_getinfo(sender->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK)
        error_note(TUTTI_REMOTE_ERROR, "%s: %s", sender->url, *sender->error ? sender->error : curl_easy_strerror(code));
    else if (status != 200 && status != 428)
        error_note(TUTTI_REMOTE_ERROR, "%s: the master refuses (%ld): %s", sender->url, status, sender->answer);
    return code != CURLE_OK ? NOT_DELIVERED : status == 200 ? DELIVERED : status == 428 ? WANTS_ALL : NOT_DELIVERED;
}
