#include "engine/commands/confusion.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>

#include "cli/terminal/table.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kMostInTable = 20;  // classes
constexpr std::size_t kWidest = 80;       // columns of the table before class names become numbers
constexpr std::size_t kNameWidth = 24;

struct Matrix {
    explicit Matrix(const Evaluation& evaluation)
        : counts(evaluation.confusion),
          size(static_cast<std::size_t>(std::llround(std::sqrt(evaluation.confusion.size())))) {}

    // The samples of class `label`, by prediction.
    std::span<const std::int64_t> row(std::size_t label) const { return counts.subspan(label * size, size); }
    std::int64_t samples(std::size_t label) const {
        return std::accumulate(row(label).begin(), row(label).end(), std::int64_t{0});
    }
    std::optional<double> accuracy(std::size_t label) const {
        const std::int64_t all = samples(label);
        return all == 0 ? std::nullopt
                        : std::optional(static_cast<double>(row(label)[label]) / static_cast<double>(all));
    }

    std::span<const std::int64_t> counts;
    std::size_t size;
};

struct Pair {
    std::int64_t count;
    std::size_t label, predicted;
    std::int64_t of;  // samples of `label`
};

// The largest entries off the diagonal.
std::vector<Pair> most_confused(const Matrix& matrix, std::size_t most) {
    std::vector<Pair> pairs;
    for (std::size_t label = 0; label < matrix.size; ++label) {
        for (std::size_t predicted = 0; predicted < matrix.size; ++predicted) {
            if (const std::int64_t count = matrix.row(label)[predicted]; predicted != label && count > 0) {
                pairs.push_back({count, label, predicted, matrix.samples(label)});
            }
        }
    }
    std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::count);
    pairs.resize(std::min(pairs.size(), most));
    return pairs;
}

std::string percent(const std::optional<double>& share) {
    return share ? fmt::format("{:.1f} %", 100 * *share) : "-";
}

std::vector<std::string> names_of(const Matrix& matrix, const std::vector<std::string>& classes) {
    std::vector<std::string> names;
    for (std::size_t label = 0; label < matrix.size; ++label) {
        names.push_back(label < classes.size() ? for_terminal(classes[label], kNameWidth) : fmt::to_string(label));
    }
    return names;
}

// A row for each class, a column for each prediction; `numbered`: the columns are named by the numbers of the classes.
std::string matrix_table(const Matrix& matrix, const std::vector<std::string>& names, bool numbered) {
    Table table;
    if (numbered) {
        table.column("");
    }
    table.column("class \\ predicted", Table::Align::left);
    for (std::size_t i = 0; i < matrix.size; ++i) {
        table.column(numbered ? fmt::to_string(i) : names[i]);
    }
    table.column("samples");
    table.column("accuracy");
    for (std::size_t label = 0; label < matrix.size; ++label) {
        std::vector<std::string> cells;
        if (numbered) {
            cells.push_back(fmt::to_string(label));
        }
        cells.push_back(names[label]);
        for (const std::int64_t count : matrix.row(label)) {
            cells.push_back(fmt::to_string(count));
        }
        cells.push_back(fmt::to_string(matrix.samples(label)));
        cells.push_back(percent(matrix.accuracy(label)));
        table.row(std::move(cells));
    }
    return table.text();
}

std::string small_text(const Matrix& matrix, const std::vector<std::string>& names) {
    std::string text = matrix_table(matrix, names, false);
    if (display_width(std::string_view(text).substr(0, text.find('\n'))) > kWidest) {
        text = matrix_table(matrix, names, true);
    }
    std::vector<std::string> pairs;
    for (const Pair& pair : most_confused(matrix, 3)) {
        pairs.push_back(fmt::format("\"{}\" predicted as \"{}\" ({} of {})", names[pair.label], names[pair.predicted],
                                    pair.count, pair.of));
    }
    return "\n" + text + (pairs.empty() ? "" : fmt::format("\nmost confused: {}\n", fmt::join(pairs, ", ")));
}

std::string large_text(const Matrix& matrix, const std::vector<std::string>& names) {
    constexpr std::size_t kListed = 10;
    std::vector<std::size_t> order(matrix.size);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [&](std::size_t label) { return matrix.samples(label) == 0; });
    std::ranges::stable_sort(order, {}, [&](std::size_t label) { return *matrix.accuracy(label); });
    order.resize(std::min(order.size(), kListed));
    Table worst;
    worst.column("least accurate", Table::Align::left);
    worst.column("samples");
    worst.column("accuracy");
    for (const std::size_t label : order) {
        worst.row({names[label], fmt::to_string(matrix.samples(label)), percent(matrix.accuracy(label))});
    }
    Table pairs;
    pairs.column("most confused", Table::Align::left);
    pairs.column("predicted as", Table::Align::left);
    pairs.column("count");
    pairs.column("of");
    for (const Pair& pair : most_confused(matrix, kListed)) {
        pairs.row({names[pair.label], names[pair.predicted], fmt::to_string(pair.count), fmt::to_string(pair.of)});
    }
    return fmt::format("\n{}\n{}", worst.text(), pairs.text());
}

}  // namespace

std::string confusion_text(const Evaluation& evaluation, const std::vector<std::string>& classes) {
    const Matrix matrix(evaluation);
    const std::vector<std::string> names = names_of(matrix, classes);
    return matrix.size == 0 ? "" : matrix.size <= kMostInTable ? small_text(matrix, names) : large_text(matrix, names);
}

nlohmann::ordered_json confusion_json(const Evaluation& evaluation) {
    const Matrix matrix(evaluation);
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (std::size_t label = 0; label < matrix.size; ++label) {
        rows.push_back(std::vector<std::int64_t>(matrix.row(label).begin(), matrix.row(label).end()));
    }
    return rows;
}

nlohmann::ordered_json class_accuracy_json(const Evaluation& evaluation) {
    const Matrix matrix(evaluation);
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (std::size_t label = 0; label < matrix.size; ++label) {
        const std::optional<double> accuracy = matrix.accuracy(label);
        all.push_back(accuracy ? nlohmann::ordered_json(*accuracy) : nlohmann::ordered_json(nullptr));
    }
    return all;
}

}  // namespace stoker::cli
