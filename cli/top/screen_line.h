// Lines of `stoker top`, made of pieces that know how much they matter: what does not fit the terminal is left out,
// least important first.
#pragma once

#include <string>
#include <vector>

namespace stoker::cli {

enum class Tone { plain, title, dim, good, warn, bad };

struct Piece {
    std::string text;  // printable
    Tone tone = Tone::plain;
    int rank = 0;        // pieces of the highest rank are left out first; 0 always stays
    int least = 0;       // columns that it may be cut to before others are left out; 0: none is cut off
    bool whole = false;  // a number, which is left out if it would be cut
};

struct ScreenLine {
    std::vector<Piece> pieces;
    int rank = 0;  // likewise for whole lines

    ScreenLine& add(std::string text, Tone tone = Tone::plain, int piece_rank = 0) {
        pieces.push_back({std::move(text), tone, piece_rank});
        return *this;
    }
};

// Lines of at most `columns` columns, and at most `rows` of them; 0 rows: all.
std::vector<ScreenLine> fitted(std::vector<ScreenLine> lines, int columns, int rows);

std::string plain_text(const ScreenLine& line);

// A table with a fixed width for each column, so that its rows fit or lose the same columns.
class ScreenTable {
  public:
    enum class Align { left, right };
    struct Column {
        std::string title;
        int width = 0;
        Align align = Align::right;
        int rank = 0;
        bool flexible = false;  // texts may be wider than the column, up to the terminal's edge
    };
    struct Cell {
        std::string text;
        Tone tone = Tone::plain;
    };

    explicit ScreenTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
    ScreenLine header(int rank = 0) const;
    ScreenLine row(const std::vector<Cell>& cells, int rank = 0) const;  // a cell for each column

  private:
    std::vector<Column> columns_;
};

// A bar of `width` columns that is filled by `share`, in [0, 1]. `blocks`: with block characters, else in ASCII.
std::string share_bar(double share, int width, bool blocks);

}  // namespace stoker::cli
