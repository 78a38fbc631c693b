#include "cli/top/screen_line.h"

#include <algorithm>
#include <cmath>

#include "cli/terminal/table.h"

namespace stoker::cli {
namespace {

// With pieces that may be cut as narrow as they may become.
int width_of(const ScreenLine& line) {
    std::size_t width = 0;
    for (const Piece& piece : line.pieces) {
        const std::size_t whole = display_width(piece.text);
        width += piece.least > 0 ? std::min(whole, static_cast<std::size_t>(piece.least)) : whole;
    }
    return static_cast<int>(width);
}

// The last one of the highest rank above 0; the end if there is none.
template <typename Part>
auto least_important(std::vector<Part>& parts) {
    auto found = parts.end();
    for (auto part = parts.begin(); part != parts.end(); ++part) {
        if (part->rank > 0 && (found == parts.end() || part->rank >= found->rank)) {
            found = part;
        }
    }
    return found;
}

void fit_line(ScreenLine& line, int columns) {
    while (width_of(line) > columns) {
        const auto found = least_important(line.pieces);
        if (found == line.pieces.end()) {
            break;
        }
        line.pieces.erase(found);
    }
    int room = columns;
    for (Piece& piece : line.pieces) {
        const bool fits = static_cast<int>(display_width(piece.text)) <= room;
        piece.text = piece.whole && !fits ? "" : cut_to_width(piece.text, static_cast<std::size_t>(std::max(room, 0)));
        room -= static_cast<int>(display_width(piece.text));
    }
}

std::string padded(const std::string& text, const ScreenTable::Column& column) {
    const auto width = static_cast<std::size_t>(column.width);
    const std::string fill(width - std::min(width, display_width(text)), ' ');
    return column.align == ScreenTable::Align::left ? text + fill : fill + text;
}

}  // namespace

std::vector<ScreenLine> fitted(std::vector<ScreenLine> lines, int columns, int rows) {
    while (rows > 0 && static_cast<int>(lines.size()) > rows) {
        const auto found = least_important(lines);
        lines.erase(found == lines.end() ? lines.end() - 1 : found);
    }
    for (ScreenLine& line : lines) {
        fit_line(line, columns);
    }
    return lines;
}

std::string plain_text(const ScreenLine& line) {
    std::string text;
    for (const Piece& piece : line.pieces) {
        text += piece.text;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
}

ScreenLine ScreenTable::header(int rank) const {
    ScreenLine line{.pieces = {}, .rank = rank};
    for (const Column& column : columns_) {
        line.add(padded(column.title, column), line.pieces.empty() ? Tone::title : Tone::dim, column.rank);
        line.pieces.back().whole = column.align == Align::right;
    }
    return line;
}

ScreenLine ScreenTable::row(const std::vector<Cell>& cells, int rank) const {
    ScreenLine line{.pieces = {}, .rank = rank};
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        line.add(padded(cells.at(i).text, columns_[i]), cells[i].tone, columns_[i].rank);
        line.pieces.back().least = columns_[i].flexible ? columns_[i].width : 0;
        line.pieces.back().whole = columns_[i].align == Align::right;
    }
    return line;
}

std::string share_bar(double share, int width, bool blocks) {
    const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width));
    std::string bar;
    for (int i = 0; i < width; ++i) {
        bar += i < filled ? (blocks ? "█" : "#") : (blocks ? "░" : ".");
    }
    return bar;
}

}  // namespace stoker::cli
