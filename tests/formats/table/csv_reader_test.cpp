// Rows as RFC 4180 and Python's csv have them, and the line of each error.
#include "stoker/formats/table/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "formats/table/csv_rows.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using namespace stoker::testing;

std::string error_of(std::string_view text) {
    try {
        rows_of(text);
    } catch (const DataError& error) {
        return error.what();
    }
    return "read";
}

TEST(CsvReader, CellsAndRows) {
    EXPECT_EQ(rows_of("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
    EXPECT_EQ(rows_of("a,b\n1,2"), (Rows{{"a", "b"}, {"1", "2"}}));
    EXPECT_EQ(rows_of("a,b\r\n1,2\r\n"), (Rows{{"a", "b"}, {"1", "2"}}));
    EXPECT_EQ(rows_of("a,b\r1,2\r"), (Rows{{"a", "b"}, {"1", "2"}}));
    EXPECT_EQ(rows_of("\xef\xbb\xbf"
                      "a\n\xc3\xa9\n"),
              (Rows{{"a"}, {"\xc3\xa9"}}));
    EXPECT_EQ(rows_of(" a , b\n"), (Rows{{" a ", " b"}}));
    EXPECT_EQ(rows_of(""), Rows{});
    EXPECT_EQ(rows_of("\n\r\n\n"), Rows{});
    EXPECT_EQ(rows_of("\n\na\n\nb\n\n"), (Rows{{"a"}, {"b"}}));
}

TEST(CsvReader, EmptyCells) {
    EXPECT_EQ(rows_of(",\n"), (Rows{{"", ""}}));
    EXPECT_EQ(rows_of("a,"), (Rows{{"a", ""}}));
    EXPECT_EQ(rows_of(",,b\n\"\",\n"), (Rows{{"", "", "b"}, {"", ""}}));
    EXPECT_EQ(rows_of("\"\"\n"), (Rows{{""}}));
}

TEST(CsvReader, Quotes) {
    EXPECT_EQ(rows_of("\"a,b\",c\n"), (Rows{{"a,b", "c"}}));
    EXPECT_EQ(rows_of("\"a\nb\r\nc\",d\n"), (Rows{{"a\nb\r\nc", "d"}}));
    EXPECT_EQ(rows_of(R"("say ""hi""","""",a"b")"
                      "\n"),
              (Rows{{"say \"hi\"", "\"", "a\"b\""}}));
    EXPECT_EQ(rows_of(R"("a""b","c""d")"), (Rows{{"a\"b", "c\"d"}}));  // two cells with doubled quotes in a row
}

TEST(CsvReader, LinesOfRows) {
    CsvReader reader("a\n\n\"b\nc\"\nd\n", "x.csv");
    std::vector<std::string_view> cells;
    std::vector<std::int64_t> lines;
    while (reader.next(cells)) {
        lines.push_back(reader.line());
    }
    EXPECT_THAT(lines, ElementsAre(1, 3, 5));
}

TEST(CsvReader, ErrorsNameTheLine) {
    EXPECT_THAT(error_of("a\n\"b"), HasSubstr("[x.csv:2] expected a closing quote, got the end of the file"));
    EXPECT_THAT(error_of("a\n\"b\"\"\n"), HasSubstr("[x.csv:2] expected a closing quote"));
    EXPECT_THAT(error_of("a\n\"b\nc\" d\n"),
                HasSubstr("[x.csv:3] expected a comma or the end of the line behind a closing quote, got \" \""));
    EXPECT_THAT(error_of("\xff\xfe"
                         "a\0"sv),
                HasSubstr("expected text in UTF-8, got UTF-16"));
    EXPECT_THAT(error_of(std::string(CsvReader::kMaxCells, ',')), HasSubstr("at most 65536 cells"));
    EXPECT_EQ(error_of(std::string(CsvReader::kMaxCells - 1, ',')), "read");
}

}  // namespace
}  // namespace stoker
