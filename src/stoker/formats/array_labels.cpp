// Elements of one-hot rows are compared as bits, so that no float has to be converted: 1, 0 and -0 have one encoding
// each.
#include "stoker/formats/array_labels.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/class_names.h"

namespace stoker {
namespace {

constexpr const char* kExpected = "integers of (N) or (N, 1), or one-hot rows (N, K)";

std::string describe(const ArrayView& array) {
    return fmt::format("{} of ({})", array_type_name(array.type), fmt::join(array.shape, ", "));
}

bool is_column(const ArrayView& array) {
    return array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1);
}

bool is_rows(const ArrayView& array) {
    return array.shape.size() == 2 && array.shape[1] > 1 && array.shape[1] <= kMaxNumberedClasses;
}

[[noreturn]] void refuse(const ArrayView& array, std::string expected, std::string got,
                         std::optional<std::int64_t> row = {}) {
    throw DataError(
        {.path = {}, .index = row},
        {.where = array.name.empty() ? "labels" : array.name, .expected = std::move(expected), .got = std::move(got)});
}

// The encodings of 1 and of -0 (0 for integers) in the array's type.
struct Bits {
    std::int64_t one = 1;
    std::int64_t minus_zero = 0;
};

Bits bits_of(const ArrayType& type) {
    if (type.kind != ArrayKind::floating) {
        return {};
    }
    const auto sign = static_cast<std::int64_t>(std::uint64_t{1} << (8 * type.item_size - 1));
    return {.one = type.item_size == 2   ? 0x3C00
                   : type.item_size == 4 ? 0x3F80'0000
                                         : 0x3FF0'0000'0000'0000,
            .minus_zero = sign};
}

std::vector<std::int64_t> one_hot(const ArrayView& array, std::int64_t first) {
    const std::int64_t rows = array.shape[0];
    const std::int64_t columns = array.shape[1];
    const Bits bits = bits_of(array.type);
    ArrayView raw = array;
    raw.type.kind = ArrayKind::unsigned_integer;
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows), -1);
    for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t ones = 0;
        for (std::int64_t column = 0; column < columns; ++column) {
            const std::int64_t value = integer_at(raw, array.fortran ? column * rows + row : row * columns + column);
            if (value == bits.one) {
                labels[static_cast<std::size_t>(row)] = column;
                ++ones;
            } else if (value != 0 && value != bits.minus_zero) {
                ones = columns + 1;
                break;
            }
        }
        if (ones != 1) {
            refuse(array, "one-hot rows: a single 1, otherwise zeros",
                   fmt::format("another row in {}", describe(array)), first + row);
        }
    }
    return labels;
}

}  // namespace

bool may_be_labels(const ArrayView& array, std::int64_t count) {
    return (is_column(array) ? array.type.kind != ArrayKind::floating : is_rows(array)) && array.shape[0] == count;
}

std::vector<std::int64_t> array_labels(const ArrayView& array, std::int64_t count, std::int64_t first) {
    if (!may_be_labels(array, count)) {
        const bool other_count = !array.shape.empty() && may_be_labels(array, array.shape[0]);
        refuse(array, other_count ? fmt::format("{} labels, one for each image", count) : kExpected, describe(array));
    }
    if (is_rows(array)) {
        return one_hot(array, first);
    }
    std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
    for (std::int64_t row = 0; row < count; ++row) {
        const std::int64_t label = integer_at(array, row);
        const bool wrapped = array.type.kind == ArrayKind::unsigned_integer && label < 0;
        if (wrapped || label < -1) {
            refuse(array, "labels of 0 or more, or -1 for none", wrapped ? "2^63 or more" : fmt::format("{}", label),
                   first + row);
        }
        labels[static_cast<std::size_t>(row)] = label;
    }
    return labels;
}

}  // namespace stoker
