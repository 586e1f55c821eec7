/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of tutti top, by ncurses, which is loaded when it is needed, so that the program starts without. */
#include "cli/cli.h"
#include "cli/top.h"

#include "base/clock.h"
#include "base/load.h"

#include <ctype.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCREEN_LIBRARY "libncurses.so.6"
#define LEAST_WIDTH    20
#define LEAST_HEIGHT   6

static struct {
    __typeof__(&newterm) newterm;
    __typeof__(&endwin) endwin;
    __typeof__(&tigetstr) tigetstr;
    __typeof__(&newwin) newwin;
    __typeof__(&cbreak) cbreak;
    __typeof__(&noecho) noecho;
    __typeof__(&nonl) nonl;
    __typeof__(&keypad) keypad;
    __typeof__(&wtimeout) wtimeout;
    __typeof__(&curs_set) curs_set;
    __typeof__(&has_colors) has_colors;
    __typeof__(&start_color) start_color;
    __typeof__(&use_default_colors) use_default_colors;
    __typeof__(&init_pair) init_pair;
    __typeof__(&wattr_set) wattr_set;
    __typeof__(&wmove) wmove;
    __typeof__(&waddnstr) waddnstr;
    __typeof__(&werase) werase;
    __typeof__(&wclrtoeol) wclrtoeol;
    __typeof__(&wrefresh) wrefresh;
    __typeof__(&wgetch) wgetch;
    __typeof__(&getmaxx) width;
    __typeof__(&getmaxy) height;
} nc;

static bool load(void)
{
    static const struct load_symbol symbols[] = {
        {&nc.newterm, "newterm"},
        {&nc.tigetstr, "tigetstr"},
        {&nc.endwin, "endwin"},
        {&nc.newwin, "newwin"},
        {&nc.cbreak, "cbreak"},
        {&nc.noecho, "noecho"},
        {&nc.nonl, "nonl"},
        {&nc.keypad, "keypad"},
        {&nc.wtimeout, "wtimeout"},
        {&nc.curs_set, "curs_set"},
        {&nc.has_colors, "has_colors"},
        {&nc.start_color, "start_color"},
        {&nc.use_default_colors, "use_default_colors"},
        {&nc.init_pair, "init_pair"},
        {&nc.wattr_set, "wattr_set"},
        {&nc.wmove, "wmove"},
        {&nc.waddnstr, "waddnstr"},
        {&nc.werase, "werase"},
        {&nc.wclrtoeol, "wclrtoeol"},
        {&nc.wrefresh, "wrefresh"},
        {&nc.wgetch, "wgetch"},
        {&nc.width, "getmaxx"},
        {&nc.height, "getmaxy"},
    };
    return load_library(SCREEN_LIBRARY, symbols, sizeof symbols / sizeof *symbols);
}

/* ---- state ---- */

struct screen {
    const struct view_options *options;
    struct top_view *view;
    WINDOW *window;
    bool colours, typing, help, done, failed;
    struct top_look before, now;
    size_t skip, processes, shown;
};

static volatile sig_atomic_t ended;

static void end(int number)
{
    (void)number;
    ended = 1;
}

/* ---- drawing ---- */

static const struct {
    attr_t attributes;
    short colour; /* -1: the terminal's own */
} styles[TOP_STYLES] = {
    [TOP_PLAIN] = {A_NORMAL, -1},    [TOP_TITLE] = {A_BOLD, -1},   [TOP_WELL] = {A_NORMAL, COLOR_GREEN},
    [TOP_BAD] = {A_BOLD, COLOR_RED}, [TOP_HEAD] = {A_REVERSE, -1}, [TOP_WAITS] = {A_NORMAL, COLOR_YELLOW},
    [TOP_DIM] = {A_DIM, -1},
};

static void start_colours(struct screen *screen)
{
    screen->colours = nc.has_colors() && nc.start_color() == OK && nc.use_default_colors() == OK;
    for (short style = 0; screen->colours && style < TOP_STYLES; style++)
        nc.init_pair((short)(style + 1), styles[style].colour, -1);
}

/* Cuts a line to the window: the last cell cannot be written without scrolling some terminals. */
static void draw_line(const struct screen *screen, int y, enum top_style style, const char *text)
{
    int width = nc.width(screen->window);
    nc.wattr_set(screen->window, styles[style].attributes, screen->colours ? (short)(style + 1) : 0, NULL);
    nc.wmove(screen->window, y, 0);
    nc.waddnstr(screen->window, text, width - 1);
    int length = (int)strlen(text);
    for (int x = length; style == TOP_HEAD && x < width - 1; x++)
        nc.waddnstr(screen->window, " ", 1);
}

static void draw_keys(const struct screen *screen, int y)
{
    char text[256];
    const struct top_view *view = screen->view;
    if (screen->typing)
        snprintf(text, sizeof text, "filter: %s_", view->filter);
    else if (screen->help)
        snprintf(text, sizeof text, "up, down, page up, page down: other processes; Enter ends a filter; any key");
    else
        snprintf(text, sizeof text, "q quit  s sort: %s  / filter%s%s  space %s  h more%s", top_order_name(view->order),
                 *view->filter ? ": " : "", view->filter, view->paused ? "PAUSED" : "pause",
                 screen->shown < screen->processes ? "  (not all shown)" : "");
    draw_line(screen, y, screen->typing ? TOP_TITLE : TOP_DIM, text);
}

static void draw(struct screen *screen)
{
    struct top_window size = {nc.width(screen->window), nc.height(screen->window), screen->skip};
    nc.werase(screen->window);
    if (size.width < LEAST_WIDTH || size.height < LEAST_HEIGHT) {
        draw_line(screen, 0, TOP_BAD, "too small");
    } else {
        struct top_frame frame = top_frame(&screen->before, &screen->now, screen->view, &size);
        for (int y = 0; y < size.height - 1 && (size_t)y < frame.count; y++)
            draw_line(screen, y, frame.lines[y].style, frame.lines[y].text);
        screen->processes = frame.processes;
        screen->shown = frame.shown;
        top_frame_free(&frame);
        draw_keys(screen, size.height - 1);
    }
    nc.wrefresh(screen->window);
}

/* ---- keys ---- */

static void type(struct screen *screen, int key)
{
    char *filter = screen->view->filter;
    size_t length = strlen(filter);
    if (key == '\n' || key == '\r' || key == KEY_ENTER || key == 27) {
        screen->typing = false;
        filter[key == 27 ? 0 : length] = 0;
    } else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && length) {
        filter[length - 1] = 0;
    } else if (key < 256 && isprint(key) && length + 1 < sizeof screen->view->filter) {
        filter[length] = (char)key;
        filter[length + 1] = 0;
    }
}

static void scroll_by(struct screen *screen, long lines)
{
    long most = (long)screen->processes - (long)screen->shown, to = (long)screen->skip + lines;
    screen->skip = (size_t)(to < 0 ? 0 : to > most ? most > 0 ? most : 0 : to);
}

static void press(struct screen *screen, int key)
{
    long page = screen->shown > 1 ? (long)screen->shown - 1 : 1;
    bool helped = screen->help;
    if (screen->typing) {
        type(screen, key);
        return;
    }
    screen->help = false;
    if (key == 'q' || key == 'Q')
        screen->done = true;
    else if (key == 's')
        screen->view->order = (screen->view->order + 1) % TOP_ORDERS;
    else if (key == '/' || key == 'f')
        screen->typing = true;
    else if (key == ' ')
        screen->view->paused = !screen->view->paused;
    else if (key == 'h' || key == '?')
        screen->help = !helped;
    else if (key == 27)
        *screen->view->filter = 0;
    else if (key == KEY_UP || key == KEY_DOWN)
        scroll_by(screen, key == KEY_UP ? -1 : 1);
    else if (key == KEY_PPAGE || key == KEY_NPAGE)
        scroll_by(screen, key == KEY_PPAGE ? -page : page);
    else if (key == 12) /* ^L: draws all anew */
        nc.wclrtoeol(screen->window);
}

/* Waits for a key or until it is time for the next look. A terminal that is closed ends it. */
static void listen_until(struct screen *screen, uint64_t deadline)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    int got = poll(&input, 1, clock_left_ms(deadline));
    if (got > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL)))
        screen->done = screen->failed = true;
    for (int key; !screen->done && (key = nc.wgetch(screen->window)) != ERR;)
        if (key != KEY_RESIZE)
            press(screen, key);
}

/* ---- the loop ---- */

static bool look_again(struct screen *screen)
{
    struct top_look next;
    if (!top_look(screen->options, &screen->now, &next))
        return false;
    top_forget(&screen->before);
    screen->before = screen->now;
    screen->now = next;
    return true;
}

static void watch(struct screen *screen, int interval_ms)
{
    while (!screen->done && !ended) {
        uint64_t deadline = clock_deadline_ms((uint64_t)interval_ms);
        if (!screen->view->paused && !look_again(screen)) {
            screen->failed = true;
            return;
        }
        do {
            draw(screen);
            listen_until(screen, deadline);
        } while (!screen->done && !ended && !clock_passed(deadline));
    }
}

static bool open_screen(struct screen *screen)
{
    if (!nc.newterm(NULL, stdout, stdin))
        return false;
    char move[] = "cup", *moves = nc.tigetstr(move);
    bool able = moves && moves != (char *)-1;
    screen->window = able ? nc.newwin(0, 0, 0, 0) : NULL;
    if (!screen->window) {
        nc.endwin();
        return false;
    }
    nc.cbreak();
    nc.noecho();
    nc.nonl();
    nc.keypad(screen->window, true);
    nc.wtimeout(screen->window, 0);
    nc.curs_set(0);
    start_colours(screen);
    return true;
}

int top_screen(const struct view_options *options, struct top_view *view, int interval_ms)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct screen screen = {.options = options, .view = view};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return failure("top", "input or output is no terminal: --once prints what there is");
    if (!load())
        return failure("top", "cannot load %s: --once prints what there is", SCREEN_LIBRARY);
    if (!top_look(options, &screen.before, &screen.now))
        return EXIT_FAILED;
    if (!open_screen(&screen)) {
        top_forget(&screen.now);
        return failure("top", "the terminal \"%s\" is not known, or cannot place text: set TERM, or use --once",
                       getenv("TERM") ? getenv("TERM") : "");
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &(struct sigaction){.sa_handler = end}, NULL);
    watch(&screen, interval_ms);
    nc.endwin();
    top_forget(&screen.before);
    top_forget(&screen.now);
    return screen.failed ? EXIT_FAILED : EXIT_OK;
}
