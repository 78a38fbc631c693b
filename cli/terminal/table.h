// A table of text for a terminal: columns as wide as their widest cell, names to the left and numbers to the right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker::cli {

class Table {
  public:
    enum class Align { left, right };

    void column(std::string title, Align align = Align::right);
    void row(std::vector<std::string> cells);  // as many as there are columns
    std::string text() const;

  private:
    struct Column {
        std::string title;
        Align align;
    };
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

// How many places of a terminal `text` takes: two for letters of East Asia, none for accents that combine.
std::size_t places(std::string_view text);

// `text` for a terminal: what is no UTF-8 or would move the cursor is shown as '?'; of more than `most` places the
// middle is left out.
std::string for_terminal(std::string_view text, std::size_t most);

}  // namespace stoker::cli
