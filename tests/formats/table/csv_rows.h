// All rows of a CSV text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/table/csv_reader.h"

namespace stoker::testing {

using Rows = std::vector<std::vector<std::string>>;

inline Rows rows_of(std::string_view text) {
    CsvReader reader(text, "x.csv");
    Rows rows;
    for (std::vector<std::string_view> cells; reader.next(cells);) {
        rows.emplace_back(cells.begin(), cells.end());
    }
    return rows;
}

}  // namespace stoker::testing
