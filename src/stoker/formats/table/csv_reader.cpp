// A quote has a meaning only at the start of a cell, as in Python's csv. Text behind a closing quote is refused,
// because it means that a quote within the cell was not doubled.
#include "stoker/formats/table/csv_reader.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

bool is_line_end(char c) {
    return c == '\n' || c == '\r';
}

}  // namespace

CsvReader::CsvReader(std::string_view text, std::string path) : text_(text), path_(std::move(path)) {
    if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv)) {
        refuse(1, "text in UTF-8", "UTF-16");
    }
    if (text.starts_with("\xef\xbb\xbf"sv)) {
        text_.remove_prefix(3);
    }
}

void CsvReader::refuse(std::int64_t line, std::string expected, std::string got, std::string hint) const {
    throw DataError({.path = fmt::format("{}:{}", path_, line)},
                    {.where = "csv", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

bool CsvReader::next(std::vector<std::string_view>& cells) {
    cells.clear();
    unescaped_.clear();
    while (at_ < text_.size() && is_line_end(text_[at_])) {
        skip_line_end();
    }
    row_line_ = line_;
    if (at_ == text_.size()) {
        return false;
    }
    while (true) {
        if (cells.size() == kMaxCells) {
            refuse(row_line_, fmt::format("at most {} cells", kMaxCells), "more");
        }
        cells.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
        if (at_ == text_.size()) {
            return true;
        }
        if (is_line_end(text_[at_])) {
            skip_line_end();
            return true;
        }
        ++at_;  // a comma, and behind it a cell, which may be empty
    }
}

// CRLF is one line end.
void CsvReader::skip_line_end() {
    at_ += text_.substr(at_).starts_with("\r\n"sv) ? 2 : 1;
    ++line_;
}

bool CsvReader::at_end_of_cell() const {
    return at_ == text_.size() || text_[at_] == ',' || is_line_end(text_[at_]);
}

std::string_view CsvReader::plain() {
    const std::size_t begin = at_;
    while (!at_end_of_cell()) {
        ++at_;
    }
    return text_.substr(begin, at_ - begin);
}

std::string_view CsvReader::quoted() {
    std::string* joined = nullptr;  // for a cell with doubled quotes
    std::size_t begin = ++at_;
    while (true) {
        const std::size_t quote = text_.find('"', at_);
        if (quote == std::string_view::npos) {
            refuse(row_line_, "a closing quote", "the end of the file");
        }
        line_ += std::ranges::count(text_.substr(at_, quote - at_), '\n');
        at_ = quote + 1;
        if (at_end_of_cell()) {
            const std::string_view last = text_.substr(begin, quote - begin);
            return joined == nullptr ? last : std::string_view(joined->append(last));
        }
        if (text_[at_] != '"') {
            refuse(line_, "a comma or the end of the line behind a closing quote",
                   fmt::format("{:?}", text_.substr(at_, 1)));
        }
        joined = joined == nullptr ? &unescaped_.emplace_back() : joined;
        joined->append(text_.substr(begin, at_ - begin));  // with one of the two quotes
        begin = ++at_;
    }
}

}  // namespace stoker
