#include "stoker/formats/table/table_column.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <type_traits>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/utf8.h"
#include "stoker/formats/checked_growth.h"
#include "stoker/formats/class_names.h"

namespace stoker {
namespace {

constexpr std::size_t kBytesOfText = 128;  // of a short text in a hash table

[[noreturn]] void refuse(std::string expected, std::string_view cell, std::string hint = "") {
    constexpr std::size_t kShown = 40;
    throw DataError(
        {}, {.where = "cell",
             .expected = std::move(expected),
             .got = cell.empty() ? "an empty cell"
                                 : fmt::format("\"{}\"{}", cell.substr(0, kShown), cell.size() > kShown ? "..." : ""),
             .hint = std::move(hint)});
}

std::string_view without_blanks(std::string_view cell) {
    const std::size_t begin = cell.find_first_not_of(" \t");
    return begin == std::string_view::npos ? "" : cell.substr(begin, cell.find_last_not_of(" \t") + 1 - begin);
}

// Reads any text that Python's float() reads, except for "nan", which counts as an empty cell, and infinities.
std::optional<double> parse_float(std::string_view text) {
    text.remove_prefix(text.starts_with('+') ? 1 : 0);
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc{} && stop == end && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool is_empty(std::string_view text) {
    return text.empty() || (text.size() == 3 && lower_case(text) == "nan");
}

std::optional<bool> truth_of(std::string_view text) {
    const std::string word = text.size() <= 5 ? lower_case(text) : "";
    return word == "true" || word == "false" ? std::optional(word == "true") : std::nullopt;
}

// Of "3" and "3.0".
std::optional<std::int64_t> parse_integer(std::string_view text) {
    constexpr double kExact = 9007199254740992;  // 2^53: a double has all integers up to this
    if (const auto integer = parse_number<std::int64_t>(text)) {
        return integer;
    }
    const auto number = parse_float(text);
    return number && std::trunc(*number) == *number && std::abs(*number) <= kExact
               ? std::optional(static_cast<std::int64_t>(*number))
               : std::nullopt;
}

template <typename Number>
class NumberColumn final : public TableColumn {
  public:
    void add(std::span<const std::string_view> cells) override {
        width_ = cells.size();
        for (const std::string_view cell : cells) {
            push_checked(values_, parse(without_blanks(cell)));
        }
    }

    void read(std::int64_t row, FieldValue& value) const override {
        const auto cells = std::span(values_).subspan(static_cast<std::size_t>(row) * width_, width_);
        if (std::ranges::any_of(cells, is_missing)) {
            refuse("a number", "");
        }
        value.set_elements(cells);
    }

    DType dtype() const override { return dtype_of<Number>::value; }

  private:
    static constexpr bool kFloat = std::is_floating_point_v<Number>;
    static constexpr Number kEmpty =
        kFloat ? std::numeric_limits<Number>::quiet_NaN() : std::numeric_limits<Number>::min();

    static bool is_missing(Number number) {
        if constexpr (kFloat) {
            return std::isnan(number);
        } else {
            return number == kEmpty;
        }
    }

    static Number parse(std::string_view text) {
        if (is_empty(text)) {
            return kEmpty;
        }
        if constexpr (kFloat) {
            if (const auto number = parse_float(text);
                number && std::abs(*number) <= std::numeric_limits<Number>::max()) {
                return static_cast<Number>(*number);
            }
        } else if (const auto number = parse_integer(text); number && *number != kEmpty) {
            return *number;
        }
        if (const auto truth = truth_of(text)) {
            return static_cast<Number>(*truth ? 1 : 0);
        }
        refuse(kFloat ? "a number" : "an integer", text);
    }

    std::size_t width_ = 1;
    std::vector<Number> values_;  // (rows, width_)
};

}  // namespace

bool is_table_number(std::string_view cell) {
    const std::string_view text = without_blanks(cell);
    return is_empty(text) || truth_of(text) || parse_float(text);
}

std::unique_ptr<TableColumn> make_number_column(bool integers) {
    if (integers) {
        return std::make_unique<NumberColumn<std::int64_t>>();
    }
    return std::make_unique<NumberColumn<float>>();
}

void ClassColumn::add(std::span<const std::string_view> cells) {
    const std::string_view text = cells.front();
    if (without_blanks(text).empty()) {
        push_checked(labels_, kEmpty);
        return;
    }
    auto found = codes_.find(text);
    if (found == codes_.end()) {
        if (!is_utf8(text)) {
            refuse("a class name in UTF-8", text);
        }
        if (std::has_single_bit(codes_.size())) {  // it may have to double its memory
            require_memory(2 * codes_.size() * kBytesOfText, "");
        }
        found = codes_.emplace(text, std::ssize(codes_)).first;
    }
    push_checked(labels_, found->second);
}

void ClassColumn::finish() {
    std::vector<std::string> texts(codes_.size());
    for (const auto& [text, code] : codes_) {
        texts[static_cast<std::size_t>(code)] = text;
    }
    codes_.clear();
    const auto integer = [](const std::string& text) { return parse_integer(without_blanks(text)); };
    const auto fraction = [&](const std::string& text) { return parse_float(without_blanks(text)) && !integer(text); };
    std::vector<std::int64_t> labels(texts.size());  // of each code
    // "nan" among numbers is an empty cell, as pandas writes it; among names it is one.
    const auto number_or_empty = [](const std::string& text) {
        return parse_float(without_blanks(text)).has_value() || is_empty(without_blanks(text));
    };
    if (std::ranges::all_of(texts, number_or_empty) &&
        !(texts.size() == 1 && is_empty(without_blanks(texts.front())))) {
        if (const auto found = std::ranges::find_if(texts, fraction); found != texts.end()) {
            refuse("class names, or class indices as integers", *found,
                   "numbers to predict are a further field, of the kind \"value\"");
        }
        std::ranges::transform(texts, labels.begin(),
                               [&](const std::string& text) { return integer(text).value_or(-1); });
        if (const auto found = std::ranges::find_if(labels, [](std::int64_t label) { return label < -1; });
            found != labels.end()) {
            refuse("class indices from 0 on, or -1 for no label",
                   texts[static_cast<std::size_t>(found - labels.begin())]);
        }
        classes_ = numbered_classes_of(labels);
        numbered_ = true;
    } else {
        classes_ = texts;
        std::ranges::sort(classes_);
        std::ranges::transform(texts, labels.begin(), [&](const std::string& text) {
            return std::ranges::lower_bound(classes_, text) - classes_.begin();
        });
    }
    for (std::int64_t& label : labels_) {
        const bool empty =
            label == kEmpty || (numbered_ && is_empty(without_blanks(texts[static_cast<std::size_t>(label)])));
        label = empty ? kEmpty : labels[static_cast<std::size_t>(label)];
    }
}

std::optional<std::int64_t> ClassColumn::at(std::int64_t row) const {
    const std::int64_t label = labels_[static_cast<std::size_t>(row)];
    return label == kEmpty ? std::nullopt : std::optional(label);
}

void ClassColumn::read(std::int64_t row, FieldValue& value) const {
    const auto label = at(row);
    if (!label) {
        refuse("a class", "");
    }
    value.copy_elements(std::array{*label});
}

}  // namespace stoker
