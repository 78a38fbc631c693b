// Floats are written with as many digits as restore them.
#include "stoker/pack/unpack_fields.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_set>

#include "stoker/base/error.h"
#include "stoker/base/utf8.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/table/table_column.h"
#include "stoker/pack/packed_fields.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostColumns = 4096;  // of one field

bool fits_a_table(const Field& field) {
    if (UnpackFields::is_file(field)) {
        return true;
    }
    const bool half = field.dtype == DType::float16 || field.dtype == DType::bfloat16;
    const bool listed = field.shape.size() <= 1 && !field.any_length() && element_count(field.shape) <= kMostColumns;
    return listed && !half && field.kind != FieldKind::bytes && field.kind != FieldKind::boxes;
}

// As RFC 4180 has it.
std::string csv_cell(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos && !text.starts_with(' ') && !text.ends_with(' ')) {
        return text;
    }
    std::string quoted = "\"";
    for (const char c : text) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + '"';
}

// Whether the reader of tables, which takes numbers for float32 or int64, reads this one as a value.
template <typename Number>
bool is_read_back(Number number) {
    if constexpr (std::is_floating_point_v<Number>) {
        return std::abs(number) <= std::numeric_limits<float>::max();  // not for NaN
    } else {
        return std::int64_t{number} != std::numeric_limits<std::int64_t>::min();
    }
}

template <typename Number>
void add_cells(const Field& field, std::span<const std::byte> bytes, std::vector<std::string>& cells) {
    for (std::size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
        Number number{};
        std::memcpy(&number, bytes.data() + at, sizeof number);
        if (!is_read_back(number)) {
            throw DataError({}, {.where = field.name,
                                 .expected = "numbers that a table can have",
                                 .got = fmt::format("{}", number),
                                 .hint = "`stoker pack` to x.tar or x.npz keeps them"});
        }
        cells.push_back(fmt::format("{}", number));
    }
}

void add_line(std::string& text, const std::vector<std::string>& cells) {
    std::vector<std::string> quoted;
    std::ranges::transform(cells, std::back_inserter(quoted), csv_cell);
    text += fmt::format("{}\n", fmt::join(quoted, ","));
}

// Whether keys would be equal without their extensions: a folder may have a.jpg and a.png.
bool has_twins(const Dataset& dataset) {
    std::unordered_set<std::string> stems;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        if (!stems.insert(fs::path(dataset.key(i)).replace_extension().string()).second) {
            return true;
        }
    }
    return false;
}

}  // namespace

UnpackFields::UnpackFields(const Dataset& dataset)
    : fields_(dataset.fields().begin(), dataset.fields().end()),
      classes_(dataset.classes().begin(), dataset.classes().end()) {
    check_field_names(fields_, dataset.path());
    std::set<std::string> names = {"path", "label"};
    for (const Field& field : fields_) {
        if (!fits_a_table(field)) {
            throw InvalidArgument({.where = dataset.path(),
                                   .expected = "images, masks, numbers, and lists of numbers of one length",
                                   .got = describe_fields(std::span(&field, 1)),
                                   .hint = "`stoker pack` to x.tar keeps it as a file next to each image"});
        }
        files_ = files_ || is_file(field);
        const bool one = is_file(field) || field.shape.empty();
        for (std::int64_t i = 0; i < (one ? 1 : field.shape[0]); ++i) {
            columns_.push_back(one ? field.name : fmt::format("{}_{}", field.name, i));
            if (!names.insert(columns_.back()).second || columns_.back() == "images") {
                throw InvalidArgument({.where = dataset.path(),
                                       .expected = "columns of different names",
                                       .got = fmt::format("\"{}\"", columns_.back()),
                                       .hint = "--field NEW_NAME=NAME gives a field another name"});
            }
        }
    }
    twins_ = files_ && has_twins(dataset);
}

fs::path UnpackFields::image_path(const fs::path& name) const {
    return files_ ? fs::path("images") / name : name;
}

fs::path UnpackFields::file_path(const Field& field, const fs::path& name, const std::string& extension) const {
    fs::path path = fs::path(field.name) / name;
    if (!twins_) {
        path.replace_extension(extension);
    } else if (path.extension() != extension) {
        path += extension;
    }
    return path;
}

std::vector<std::string> UnpackFields::cells(const Field& field, const FieldValue& value) {
    if (value.bytes.size() != field.item_bytes()) {
        throw DataError({}, {.where = field.name,
                             .expected = fmt::format("{} bytes for {}", field.item_bytes(), field.name),
                             .got = fmt::format("{}", value.bytes.size())});
    }
    std::vector<std::string> cells;
    switch (field.dtype) {
        case DType::uint8:
            add_cells<std::uint8_t>(field, value.bytes, cells);
            break;
        case DType::uint16:
            add_cells<std::uint16_t>(field, value.bytes, cells);
            break;
        case DType::int16:
            add_cells<std::int16_t>(field, value.bytes, cells);
            break;
        case DType::int32:
            add_cells<std::int32_t>(field, value.bytes, cells);
            break;
        case DType::int64:
            add_cells<std::int64_t>(field, value.bytes, cells);
            break;
        case DType::float32:
            add_cells<float>(field, value.bytes, cells);
            break;
        default:
            add_cells<double>(field, value.bytes, cells);
    }
    return cells;
}

void UnpackFields::add(const fs::path& image, std::int64_t label, std::vector<std::string> cells) {
    rows_.push_back({.image = image.string(), .label = label, .cells = std::move(cells)});
}

// A reader numbers the names that it finds, sorted bytewise, and takes numbers for indices.
bool UnpackFields::names_give_indices() const {
    std::set<std::int64_t> found;
    for (const Row& row : rows_) {
        found.insert(row.label);
    }
    const bool all = std::ssize(found) == std::ssize(classes_) && !found.empty() && *found.begin() == 0 &&
                     *found.rbegin() + 1 == std::ssize(classes_);
    const bool numbers = std::ranges::all_of(classes_, [](const std::string& name) { return is_table_number(name); });
    const bool text =
        std::ranges::all_of(classes_, [](const std::string& name) { return is_utf8(name) && !name.empty(); });
    return all && !numbers && text && std::ranges::adjacent_find(classes_, std::greater_equal<>()) == classes_.end();
}

std::string UnpackFields::table() const {
    const bool labelled = std::ranges::any_of(rows_, [](const Row& row) { return row.label >= 0; });
    const bool named = names_give_indices();
    std::vector<std::string> cells = {"path"};
    const auto add_all = [&](const std::string& label, const std::vector<std::string>& others) {
        if (labelled) {
            cells.push_back(label);
        }
        cells.insert(cells.end(), others.begin(), others.end());
    };
    add_all("label", columns_);
    std::string text;
    add_line(text, cells);
    for (const Row& row : rows_) {
        cells = {row.image};
        add_all(named ? classes_[static_cast<std::size_t>(row.label)] : fmt::to_string(row.label), row.cells);
        add_line(text, cells);
    }
    return text;
}

std::string UnpackFields::class_names() const {
    const auto numbered = numbered_classes(std::ssize(classes_));
    const bool known = classes_ != numbered &&
                       std::ranges::all_of(rows_, [&](const Row& row) { return row.label < std::ssize(classes_); }) &&
                       std::ranges::none_of(classes_, [](const std::string& name) {
                           return name.empty() || name.find_first_of("\r\n") != std::string::npos;
                       });
    return known && !names_give_indices() ? fmt::format("{}\n", fmt::join(classes_, "\n")) : "";
}

}  // namespace stoker
