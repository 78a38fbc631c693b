#include "stoker/diagnose/report/operator_table.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stoker {
namespace {

void add(OperatorRow& sum, const OperatorRow& row) {
    sum.count += row.count;
    sum.self_us += row.self_us;
    sum.total_us += row.total_us;
    sum.device_us += row.device_us;
    sum.self_bytes += row.self_bytes;
    sum.flops += row.flops;
}

}  // namespace

OperatorTable operator_table(const std::vector<OperatorRow>& rows, OperatorKey key, std::size_t most) {
    std::map<std::tuple<std::string, std::string, std::string>, OperatorRow> sums;
    for (const OperatorRow& row : rows) {
        const std::string shapes = key == OperatorKey::shapes ? row.shapes : "";
        const std::string place = key == OperatorKey::place ? row.place : "";
        OperatorRow& sum = sums[{row.name, shapes, place}];
        sum.name = row.name;
        sum.shapes = shapes;
        sum.place = place;
        add(sum, row);
    }
    OperatorTable table;
    table.rows.reserve(sums.size());
    for (auto& [_, sum] : sums) {
        table.rows.push_back(std::move(sum));
    }
    std::ranges::stable_sort(table.rows, [](const OperatorRow& a, const OperatorRow& b) {
        return a.self_us + a.device_us > b.self_us + b.device_us;
    });
    for (std::size_t i = most; i < table.rows.size(); ++i) {
        add(table.rest, table.rows[i]);
        ++table.rest_rows;
    }
    table.rows.resize(std::min(most, table.rows.size()));
    return table;
}

std::vector<OperatorRow> operator_rows(const Report& report) {
    if (!report.operators.empty()) {
        return report.operators;
    }
    std::vector<OperatorRow> rows;
    for (const RankRecords& rank : report.records.ranks) {
        if (!rank.profile || rank.profile->operators.empty()) {
            continue;
        }
        for (const OperatorEntry& entry : rank.profile->operators) {
            rows.push_back({.name = entry.name,
                            .shapes = entry.shapes,
                            .place = entry.place,
                            .count = entry.count,
                            .self_us = entry.self_us,
                            .device_us = entry.device_us});
        }
        break;
    }
    return rows;
}

}  // namespace stoker
