#include "cli/top/full_screen.h"

#include <curses.h>
#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cli/terminal/table.h"
#include "stoker/base/error.h"
#include "stoker/base/utf8.h"

namespace stoker::cli {
namespace {

[[noreturn]] void refuse(const std::string& got) {
    throw InvalidArgument({.where = "stoker top",
                           .expected = "a terminal that can be drawn on",
                           .got = got,
                           .hint = "`stoker top --once` prints the same as text"});
}

// Other locales than UTF-8 would show each byte of a letter: signs that are as wide keep the columns.
std::string ascii_of(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = std::max<std::size_t>(utf8_sequence(text), 1);
        const std::string_view letter = text.substr(0, length);
        out += length == 1 ? std::string(letter) : letter == "…" ? "~" : std::string(display_width(letter), '?');
        text.remove_prefix(length);
    }
    return out;
}

// Colour pairs by tone; bold and dim also serve terminals without colours, and people who set NO_COLOR.
void start_colors() {
    const char* off = std::getenv("NO_COLOR");
    if (!has_colors() || (off != nullptr && *off != '\0')) {
        return;
    }
    start_color();
    use_default_colors();
    const auto pair = [](Tone tone, short color) { init_pair(static_cast<short>(tone), color, -1); };
    pair(Tone::good, COLOR_GREEN);
    pair(Tone::warn, COLOR_YELLOW);
    pair(Tone::bad, COLOR_RED);
}

attr_t attributes_of(Tone tone) {
    switch (tone) {
        case Tone::title:
            return A_BOLD;
        case Tone::dim:
            return A_DIM;
        case Tone::good:
            return COLOR_PAIR(static_cast<int>(tone));
        case Tone::warn:
        case Tone::bad:
            return A_BOLD | COLOR_PAIR(static_cast<int>(tone));
        case Tone::plain:
            break;
    }
    return A_NORMAL;
}

}  // namespace

bool shows_blocks() {
    std::setlocale(LC_CTYPE, "");
    return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

// newterm, because initscr ends the program if it does not know the terminal.
FullScreen::FullScreen() {
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
        refuse("none");
    }
    shows_blocks();
    unsetenv("LINES");  // a parent may have left these there; ncurses would believe them and not the terminal
    unsetenv("COLUMNS");
    screen_ = newterm(nullptr, stdout, stdin);
    if (screen_ == nullptr) {
        const char* kind = std::getenv("TERM");
        refuse(kind == nullptr || *kind == '\0' ? "TERM is not set" : "TERM=" + std::string(kind));
    }
    start_colors();
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);  // fails if the cursor cannot be hidden, which does no harm
}

FullScreen::~FullScreen() {
    endwin();
    delscreen(static_cast<SCREEN*>(screen_));
}

int FullScreen::columns() const {
    return COLS;
}

int FullScreen::rows() const {
    return LINES;
}

void FullScreen::draw(std::span<const ScreenLine> lines) {
    erase();
    const bool ascii = !shows_blocks();
    int row = 0;
    for (const ScreenLine& line : lines) {
        if (row >= LINES) {
            break;
        }
        move(row++, 0);
        for (const Piece& piece : line.pieces) {
            attrset(attributes_of(piece.tone));
            addstr(ascii ? ascii_of(piece.text).c_str() : piece.text.c_str());
        }
    }
    attrset(A_NORMAL);
    refresh();
}

std::optional<int> FullScreen::key(double seconds) {
    timeout(static_cast<int>(std::lround(1000 * std::max(seconds, 0.0))));
    const int key = getch();
    if (key == ERR) {
        return std::nullopt;
    }
    return key == KEY_RESIZE ? kResize : key;
}

}  // namespace stoker::cli
