/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits: tables for people, and the same as JSON. */
#include "limits.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>

namespace
{

struct Part {
    std::string name;
    double began, seconds;
    std::vector<Table> tables;
    std::vector<std::string> notes, complaints;
};

std::list<Part> parts;
std::mutex lock; /* complaints come from threads, too */

std::string quoted(const std::string &value)
{
    std::string out = "\"";
    for (char c : value) {
        if (c == '"' || c == '\\')
            out += '\\';
        out += (unsigned char)c < ' ' ? ' ' : c;
    }
    return out + '"';
}

/* A number stays as it is; other text is quoted. */
std::string cell(const std::string &value)
{
    bool plain = !value.empty() && value.find_first_not_of("0123456789.") == std::string::npos && value[0] != '.' &&
                 value.back() != '.';
    bool number = plain && std::count(value.begin(), value.end(), '.') < 2 &&
                  (value[0] != '0' || value.size() == 1 || value[1] == '.');
    return number ? value : quoted(value);
}

std::string list(const std::vector<std::string> &values, std::string (*one)(const std::string &))
{
    std::string out;
    for (const std::string &value : values)
        out += (out.empty() ? "" : ", ") + one(value);
    return "[" + out + "]";
}

std::string table_json(const Table &table)
{
    std::string rows;
    for (const auto &row : table.rows)
        rows += (rows.empty() ? "" : ",\n    ") + list(row, cell);
    return "{\"title\": " + quoted(table.title) + ", \"heads\": " + list(table.heads, quoted) + ", \"rows\": [\n    " +
           rows + "]}";
}

std::string part_json(const Part &part)
{
    std::string tables;
    for (const Table &table : part.tables)
        tables += (tables.empty() ? "" : ",\n   ") + table_json(table);
    return "{\"part\": " + quoted(part.name) + text(", \"seconds\": %.2f", part.seconds) +
           ", \"notes\": " + list(part.notes, quoted) + ", \"complaints\": " + list(part.complaints, quoted) +
           ", \"tables\": [\n   " + tables + "]}";
}

/* Letters, not bytes: all is plain ASCII here. */
void print_row(const std::vector<std::string> &row, const std::vector<size_t> &wide)
{
    for (size_t i = 0; i < row.size(); i++)
        printf(i ? "  %*s" : "  %-*s", (int)wide[i], row[i].c_str());
    printf("\n");
}

Part &current()
{
    if (parts.empty())
        report_part("start");
    return parts.back();
}

} // namespace

std::string text(const char *format, ...)
{
    char buffer[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    return buffer;
}

void report_part(const std::string &name)
{
    parts.push_back({name, now_us(), 0, {}, {}, {}});
}

void report_table(const Table &table)
{
    std::vector<size_t> wide;
    for (size_t i = 0; i < table.heads.size(); i++) {
        wide.push_back(table.heads[i].size());
        for (const auto &row : table.rows)
            wide[i] = std::max(wide[i], i < row.size() ? row[i].size() : 0);
    }
    printf("\n%s\n", table.title.c_str());
    print_row(table.heads, wide);
    for (const auto &row : table.rows)
        print_row(row, wide);
    fflush(stdout);
    current().tables.push_back(table);
    current().seconds = (now_us() - current().began) * 1e-6;
}

void report_note(const std::string &note)
{
    printf("%s\n", note.c_str());
    fflush(stdout);
    current().notes.push_back(note);
}

void complain(const std::string &sentence)
{
    std::lock_guard<std::mutex> held(lock);
    printf("FAILED: %s\n", sentence.c_str());
    fflush(stdout);
    current().complaints.push_back(sentence);
}

int report_complaints()
{
    size_t count = 0;
    for (const Part &part : parts)
        count += part.complaints.size();
    return (int)count;
}

/* To a new file that takes the old one's place: a reader never sees half of it. */
bool report_save(const std::string &path, bool complete)
{
    std::string inside, fresh = path + ".new";
    if (path.empty())
        return true;
    if (!parts.empty())
        parts.back().seconds = (now_us() - parts.back().began) * 1e-6;
    for (const Part &part : parts)
        inside += (inside.empty() ? "" : ",\n  ") + part_json(part);
    FILE *file = fopen(fresh.c_str(), "w");
    if (!file)
        return false;
    fprintf(file, "{\"gpus\": %d, \"name\": %s, \"driver\": %d, \"complete\": %s, \"parts\": [\n  %s]}\n", gpu_count(),
            quoted(machine.name).c_str(), machine.driver, complete ? "true" : "false", inside.c_str());
    bool good = !ferror(file);
    good = !fclose(file) && good;
    return good && !rename(fresh.c_str(), path.c_str());
}
