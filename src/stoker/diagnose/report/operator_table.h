// The operator table summed by name, by shapes or by place of call, cut to the rows that matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/diagnose/report/html_report.h"

namespace stoker {

enum class OperatorKey : std::uint8_t { name, shapes, place };

struct OperatorTable {
    std::vector<OperatorRow> rows = {};  // by self time on host and device
    OperatorRow rest = {};               // the sum of all others
    std::size_t rest_rows = 0;
};

// Rows of the same name, of the same name and shapes, or of the same name and place are one row. Columns that differ
// within it are empty. At most `most` rows.
OperatorTable operator_table(const std::vector<OperatorRow>& rows, OperatorKey key, std::size_t most);

// The rows of `report`, or else those of the first profile in its records.
std::vector<OperatorRow> operator_rows(const Report& report);

}  // namespace stoker
