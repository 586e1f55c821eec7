/* SPDX-License-Identifier: Apache-2.0 */
/* The way to the master: HTTP by libcurl, over one connection that stays open. */
#include "agent/agent.h"

#include "base/error.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 3000L
#define WHOLE_MS   10000L
#define RETRY_MOST 60  /* seconds that an answer may ask to wait */
#define SENTENCE   200 /* letters of a master's sentence */

struct sender {
    CURL *curl;
    struct curl_slist *headers;
    char base[1024], url[1040], error[CURL_ERROR_SIZE]; /* base: ends in a slash; url: of the latest post */
    uint8_t answer[ANSWERS_BYTES];
    size_t answered; /* bytes of the answer */
    const volatile bool *stop;
    unsigned retry;
};

static size_t on_answer(char *bytes, size_t size, size_t count, void *arg)
{
    struct sender *sender = arg;
    size_t room = sizeof sender->answer - sender->answered, taken = size * count < room ? size * count : room;
    memcpy(sender->answer + sender->answered, bytes, taken);
    sender->answered += taken;
    return size * count;
}

static int on_progress(void *arg, curl_off_t all_in, curl_off_t in, curl_off_t all_out, curl_off_t out)
{
    return *((struct sender *)arg)->stop;
}

/* Does only this host hear what is sent there? */
static bool is_private(const char *url)
{
    char *scheme = NULL, *host = NULL;
    CURLU *parts = curl_url();
    bool private = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                   curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                   curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                   (strcmp(scheme, "https") == 0 || strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
                    strcmp(host, "[::1]") == 0);
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
        return error_note(TUTTI_INVALID_USAGE, "%s: the token would travel in the clear: want https://, or --plain",
                          options->url);
    return TUTTI_SUCCESS;
}

/* A proxy of the environment is for the world outside: agent and master speak directly. */
static bool prepare(struct sender *sender, const struct sender_options *options)
{
    char header[TOKEN_MOST + 32];
    CURL *curl = sender->curl;
    snprintf(header, sizeof header, "Authorization: Bearer %s", options->token->text);
    size_t length = strlen(options->url);
    snprintf(sender->base, sizeof sender->base, "%s%s", options->url, options->url[length - 1] == '/' ? "" : "/");
    const char *const lines[] = {header, "Content-Type: application/x-protobuf", "Expect:"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct curl_slist *more = curl_slist_append(sender->headers, lines[i]);
        if (!more)
            return false;
        sender->headers = more;
    }
    return curl_easy_setopt(curl, CURLOPT_HTTPHEADER, sender->headers) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, options->wait_ms ? options->wait_ms : WHOLE_MS) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_POST, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEDATA, sender) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_XFERINFODATA, sender) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, sender->error) == CURLE_OK &&
           (!options->certificate || (curl_easy_setopt(curl, CURLOPT_SSLCERT, options->certificate) == CURLE_OK &&
                                      curl_easy_setopt(curl, CURLOPT_SSLKEY, options->key) == CURLE_OK)) &&
           (!options->ca || curl_easy_setopt(curl, CURLOPT_CAINFO, options->ca) == CURLE_OK);
}

struct sender *sender_open(const struct sender_options *options, const volatile bool *stop)
{
    if (check(options) != TUTTI_SUCCESS)
        return NULL;
    struct sender *sender = calloc(1, sizeof *sender);
    bool fine = sender && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK && (sender->curl = curl_easy_init()) &&
                prepare(sender, options);
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

/* ---- Posts ---- */

/* Cuts a time in milliseconds out of libcurl's sentence, which would make the same failure a new one each time. */
static void drop_time(char *text)
{
    char *begin = strstr(text, " after "), *end = begin;
    if (!begin)
        return;
    end += strlen(" after ");
    end += strspn(end, "0123456789");
    if (strncmp(end, " m", 2) != 0)
        return;
    end += 1 + strspn(end + 1, "milseconds");
    memmove(begin, end, strlen(end) + 1);
}

/* The HTTP status; 0 after error_note. */
static unsigned post(struct sender *sender, const char *page, const uint8_t *bytes, size_t size)
{
    long status = 0;
    curl_off_t retry = 0;
    snprintf(sender->url, sizeof sender->url, "%s%s", sender->base, page);
    *sender->error = 0;
    sender->answered = 0;
    curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDS, (const char *)bytes);
    curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
    CURLcode code = curl_easy_setopt(sender->curl, CURLOPT_URL, sender->url);
    if (code == CURLE_OK)
        code = curl_easy_perform(sender->curl);
    curl_easy_getinfo(sender->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(sender->curl, CURLINFO_RETRY_AFTER, &retry);
    sender->retry = code == CURLE_OK && retry > 0 && retry < RETRY_MOST ? (unsigned)retry : 0;
    if (code == CURLE_OK && status >= 100)
        return (unsigned)status;
    drop_time(sender->error);
    error_note(TUTTI_REMOTE_ERROR, "%s: %s", sender->url, *sender->error ? sender->error : curl_easy_strerror(code));
    return 0;
}

/* Makes one line of printable characters of an answer. */
static struct bundle_answer as_text(const struct sender *sender, unsigned status)
{
    struct bundle_answer answer = {.status = status};
    size_t length = sender->answered < SENTENCE ? sender->answered : SENTENCE;
    for (size_t i = 0; i < length; i++)
        answer.sentence[i] = (char)(sender->answer[i] < 32 || sender->answer[i] == 127 ? ' ' : sender->answer[i]);
    while (length && answer.sentence[length - 1] == ' ')
        answer.sentence[--length] = 0;
    return answer;
}

enum delivery sender_meaning(const struct sender *sender, const struct bundle_answer *answer)
{
    switch (answer->status) {
    case 200:
        return DELIVERED;
    case 202:
        return WANTS_LANES;
    case 428:
        return WANTS_ALL;
    default:
        error_note(TUTTI_REMOTE_ERROR, "%s: the master refuses (%u): %s", sender->url, answer->status,
                   answer->sentence);
        return NOT_DELIVERED;
    }
}

unsigned sender_retry(const struct sender *sender)
{
    return sender->retry;
}

bool sender_post_bundle(struct sender *sender, const uint8_t *bytes, size_t size, struct bundle_answer *answers,
                        size_t count, struct verdict_list *verdicts)
{
    unsigned status = post(sender, "bundle", bytes, size);
    const struct bundle_answer answer = as_text(sender, status);
    if (status == 200)
        return answers_read(sender->answer, sender->answered, answers, count, verdicts) == TUTTI_SUCCESS;
    if (status)
        sender_meaning(sender, &answer);
    return false;
}

bool sender_ask(struct sender *sender, const char *page, const uint8_t *bytes, size_t size, const uint8_t **answer,
                size_t *answered)
{
    unsigned status = post(sender, page, bytes, size);
    const struct bundle_answer text = as_text(sender, status);
    *answer = sender->answer;
    *answered = sender->answered;
    if (status && status != 200)
        error_note(TUTTI_REMOTE_ERROR, "%s: the master refuses (%u): %s", sender->url, status, text.sentence);
    return status == 200;
}
