// A table of text for a terminal. Each column is as wide as its widest cell; names are aligned left, numbers right.
// Titles and cells are made printable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::cli {

class Table {
  public:
    enum class Align { left, right };

    void column(const std::string& title, Align align = Align::right);
    void row(std::vector<std::string> cells);  // one per column
    // Leaves columns out until a line has at most `width` columns: those of `titles` that there are, in that order.
    void fit(std::size_t width, std::span<const std::string_view> titles);
    std::string text() const;

  private:
    std::vector<std::size_t> widths() const;

    struct Column {
        std::string title;
        Align align;
    };
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

// `text` made printable. Text wider than `max_width` columns is shortened in the middle.
std::string for_terminal(std::string_view text, std::size_t max_width);

// The same for texts that are compared: their common beginning and end are left out first, and texts that would read
// alike although they differ are not shortened.
std::vector<std::string> for_comparison(std::span<const std::string> texts, std::size_t max_width);

// The columns that `text`, made printable, takes in a terminal.
std::size_t display_width(std::string_view text);

// The beginning of `text`, made printable, in at most `max_width` columns.
std::string cut_to_width(std::string_view text, std::size_t max_width);

}  // namespace stoker::cli
