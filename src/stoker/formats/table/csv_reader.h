// Reads the rows of a CSV text (RFC 4180): cells in quotes may hold commas, line ends and doubled quotes; lines end
// with LF, CRLF or CR. The text is not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

class CsvReader {
  public:
    static constexpr std::size_t kMaxCells = std::size_t{1} << 16;  // of a row

    // `text` must outlive the reader; errors name `path` and the line, "x.csv:3". A byte order mark of UTF-8 is
    // skipped. Throws DataError for UTF-16.
    CsvReader(std::string_view text, std::string path);

    // The next row's cells, which are valid until the next call. Empty lines are skipped. False at the end. Throws
    // DataError with the line.
    bool next(std::vector<std::string_view>& cells);

    // The line in which the last row begins, from 1.
    std::int64_t line() const { return row_line_; }

    // Throws DataError with the line.
    [[noreturn]] void refuse(std::int64_t line, std::string expected, std::string got, std::string hint = "") const;

  private:
    std::string_view plain();
    std::string_view quoted();
    bool at_end_of_cell() const;
    void skip_line_end();

    std::string_view text_;
    std::string path_;
    std::size_t at_ = 0;
    std::int64_t line_ = 1;  // of at_
    std::int64_t row_line_ = 0;
    std::deque<std::string> unescaped_;  // the row's cells with doubled quotes
};

}  // namespace stoker
