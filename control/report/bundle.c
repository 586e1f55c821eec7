/* SPDX-License-Identifier: Apache-2.0 */
#include "report/bundle.h"

#include "base/error.h"
#include "report/report.pb-c.h"
#include "report/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- Bundles ---- */

/* Messages with the caller's data: only these arrays are freed. */
struct drafts {
    Tutti__Relayed *reports;
    Tutti__Relayed **places;
    char *(*via)[BUNDLE_HOPS];
};

static void draft(struct drafts *drafts, size_t at, struct relayed *relayed)
{
    Tutti__Relayed *out = drafts->places[at] = &drafts->reports[at];
    *out = (Tutti__Relayed)TUTTI__RELAYED__INIT;
    out->report = (ProtobufCBinaryData){relayed->size, (uint8_t *)relayed->bytes};
    out->from = relayed->from;
    out->via = drafts->via[at];
    out->n_via = relayed->hops;
    for (size_t i = 0; i < relayed->hops; i++)
        out->via[i] = relayed->via[i];
}

uint8_t *bundle_write(const struct bundle *bundle, size_t *size)
{
    Tutti__Bundle message = TUTTI__BUNDLE__INIT;
    size_t most = bundle->count + 1;
    struct drafts drafts = {calloc(most, sizeof *drafts.reports), calloc(most, sizeof *drafts.places),
                            calloc(most, sizeof *drafts.via)};
    uint8_t *bytes = NULL;
    if (drafts.reports && drafts.places && drafts.via) {
        for (size_t i = 0; i < bundle->count; i++)
            draft(&drafts, i, &bundle->reports[i]);
        message.version = REPORT_VERSION;
        message.reports = drafts.places;
        message.n_reports = bundle->count;
        message.complaint = (char *)bundle->complaint;
        *size = tutti__bundle__get_packed_size(&message);
        bytes = malloc(*size + 1);
    }
    if (bytes)
        tutti__bundle__pack(&message, bytes);
    free(drafts.reports);
    free(drafts.places);
    free(drafts.via);
    return bytes;
}

static bool copy_relayed(struct relayed *out, const Tutti__Relayed *relayed)
{
    out->bytes = relayed->report.data ? relayed->report.data : (const uint8_t *)"";
    out->size = relayed->report.len;
    report_copy_text(out->from, sizeof out->from, relayed->from);
    out->hops = relayed->n_via;
    for (size_t i = 0; i < relayed->n_via && i < BUNDLE_HOPS; i++) {
        if (!report_host_fits(relayed->via[i]))
            return false;
        report_copy_text(out->via[i], sizeof out->via[i], relayed->via[i]);
    }
    return relayed->n_via <= BUNDLE_HOPS;
}

static tutti_result_t copy_bundle(struct bundle *out, const Tutti__Bundle *bundle)
{
    if (bundle->version != REPORT_VERSION)
        return error_note(TUTTI_INVALID_USAGE,
                          "a bundle of version %u, want %u: all agents and the master must be of one tutti",
                          bundle->version, REPORT_VERSION);
    if (bundle->n_reports > BUNDLE_REPORTS)
        return error_note(TUTTI_INVALID_USAGE, "a bundle of more than %u reports", BUNDLE_REPORTS);
    out->reports = calloc(bundle->n_reports + 1, sizeof *out->reports);
    if (!out->reports)
        return error_note(TUTTI_SYSTEM_ERROR, "reading a bundle: no memory");
    report_copy_text(out->complaint, sizeof out->complaint, bundle->complaint);
    for (size_t i = 0; i < bundle->n_reports; i++)
        if (!copy_relayed(&out->reports[out->count++], bundle->reports[i]))
            return error_note(TUTTI_INVALID_USAGE,
                              "a bundle with a report that came over more than %u agents, or over one without a name: "
                              "do agents report "
                              "in a circle?",
                              BUNDLE_HOPS);
    return TUTTI_SUCCESS;
}

tutti_result_t bundle_read(const void *bytes, size_t size, struct bundle *out)
{
    size_t budget = 2 * BUNDLE_BYTES;
    ProtobufCAllocator allocator = report_allocator(&budget);
    *out = (struct bundle){0};
    if (size > BUNDLE_BYTES)
        return error_note(TUTTI_INVALID_USAGE, "a bundle of more than %u MiB", BUNDLE_BYTES >> 20);
    Tutti__Bundle *message = tutti__bundle__unpack(&allocator, size, bytes);
    if (!message)
        return error_note(TUTTI_INVALID_USAGE, "no bundle: it is cut short, too large, or something else");
    out->message = message;
    tutti_result_t result = copy_bundle(out, message);
    if (result != TUTTI_SUCCESS)
        bundle_free(out);
    return result;
}

void bundle_free(struct bundle *bundle)
{
    size_t budget = 0;
    ProtobufCAllocator allocator = report_allocator(&budget);
    if (bundle->message)
        tutti__bundle__free_unpacked(bundle->message, &allocator);
    free(bundle->reports);
    *bundle = (struct bundle){0};
}

/* ---- Answers ---- */

static void draft_answers(Tutti__Answers *message, Tutti__Answer *drafts, Tutti__Answer **places,
                          const struct bundle_answer *answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        drafts[i] = (Tutti__Answer)TUTTI__ANSWER__INIT;
        drafts[i].status = answers[i].status;
        drafts[i].sentence = (char *)answers[i].sentence;
        places[i] = &drafts[i];
    }
    message->answers = places;
    message->n_answers = count;
}

static void draft_news(Tutti__Answers *message, Tutti__News drafts[VERDICTS_MOST], Tutti__News *places[VERDICTS_MOST],
                       const struct verdict_list *verdicts)
{
    for (uint32_t i = 0; i < verdicts->count; i++) {
        const struct verdict_news *news = &verdicts->news[i];
        drafts[i] = (Tutti__News)TUTTI__NEWS__INIT;
        drafts[i].number = news->number;
        drafts[i].verdict = news->verdict;
        drafts[i].rank = news->rank;
        drafts[i].process = news->process;
        drafts[i].over = news->over;
        drafts[i].text = (char *)news->text;
        places[i] = &drafts[i];
    }
    message->master = verdicts->master;
    message->verdicts = places;
    message->n_verdicts = verdicts->count;
}

uint8_t *answers_write(const struct bundle_answer *answers, size_t count, const struct verdict_list *verdicts,
                       size_t *size)
{
    Tutti__Answers message = TUTTI__ANSWERS__INIT;
    Tutti__Answer *drafts = calloc(count + 1, sizeof *drafts), **places = calloc(count + 1, sizeof(Tutti__Answer *));
    Tutti__News news[VERDICTS_MOST], *of_news[VERDICTS_MOST];
    uint8_t *bytes = NULL;
    if (drafts && places) {
        draft_answers(&message, drafts, places, answers, count);
        draft_news(&message, news, of_news, verdicts);
        *size = tutti__answers__get_packed_size(&message);
        bytes = malloc(*size + 1);
    }
    if (bytes)
        tutti__answers__pack(&message, bytes);
    free(drafts);
    free(places);
    return bytes;
}

static bool copy_news(struct verdict_list *out, const Tutti__Answers *message)
{
    *out = (struct verdict_list){.magic = VERDICTS_MAGIC, .version = VERDICTS_VERSION, .master = message->master};
    for (size_t i = 0; i < message->n_verdicts && i < VERDICTS_MOST; i++) {
        const Tutti__News *news = message->verdicts[i];
        struct verdict_news *one = &out->news[out->count++];
        *one = (struct verdict_news){.number = news->number,
                                     .verdict = news->verdict,
                                     .rank = news->rank,
                                     .process = news->process,
                                     .over = news->over};
        report_copy_text(one->text, sizeof one->text, news->text);
    }
    return message->n_verdicts <= VERDICTS_MOST && verdicts_check(out);
}

tutti_result_t answers_read(const void *bytes, size_t size, struct bundle_answer *answers, size_t count,
                            struct verdict_list *verdicts)
{
    size_t budget = 4 * ANSWERS_BYTES;
    ProtobufCAllocator allocator = report_allocator(&budget);
    Tutti__Answers *message = size <= ANSWERS_BYTES ? tutti__answers__unpack(&allocator, size, bytes) : NULL;
    bool fine = message && message->n_answers == count && copy_news(verdicts, message);
    for (size_t i = 0; fine && i < count; i++) {
        answers[i].status = message->answers[i]->status;
        report_copy_text(answers[i].sentence, sizeof answers[i].sentence, message->answers[i]->sentence);
        fine = answers[i].status >= 200 && answers[i].status < 600;
    }
    if (message)
        tutti__answers__free_unpacked(message, &allocator);
    return fine ? TUTTI_SUCCESS : error_note(TUTTI_INVALID_USAGE, "what is answered to a bundle makes no sense");
}
