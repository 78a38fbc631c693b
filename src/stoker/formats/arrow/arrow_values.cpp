// A struct's children begin where the struct's first value is, a list's values where its offsets say.
#include "stoker/formats/arrow/arrow_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

[[noreturn]] void damaged(std::string_view expected, std::string_view got) {
    throw DataError({}, {.where = "column", .expected = std::string(expected), .got = std::string(got)});
}

const std::byte* buffer(const ArrowArray& array, std::int64_t at) {
    if (at >= array.n_buffers || array.buffers[at] == nullptr) {
        damaged("values", "a column without memory");
    }
    return static_cast<const std::byte*>(array.buffers[at]);
}

template <typename Number>
Number load(const std::byte* from) {
    Number value{};
    std::memcpy(&value, from, sizeof value);
    return value;
}

bool bit_at(const std::byte* bits, std::int64_t at) {
    return ((static_cast<unsigned>(bits[at / 8]) >> (at % 8)) & 1U) != 0;
}

bool is_null_at(const ArrowArray& array, std::int64_t row) {
    if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) {
        return false;
    }
    return !bit_at(static_cast<const std::byte*>(array.buffers[0]), array.offset + row);
}

// Values [begin, begin + count) of an array.
struct Values {
    const ArrowType* type = nullptr;
    const ArrowArray* array = nullptr;
    std::int64_t begin = 0;
    std::int64_t count = 0;

    void check() const {
        if (begin < 0 || count < 0 || begin > array->length || count > array->length - begin) {
            damaged("values within the column", fmt::format("{} from {} on, of {}", count, begin, array->length));
        }
    }
    void refuse_nulls() const {
        for (std::int64_t i = 0; i < count && array->null_count != 0; ++i) {
            if (is_null_at(*array, begin + i)) {
                damaged("a value", "null");
            }
        }
    }
};

std::int64_t offset_at(const ArrowType& type, const ArrowArray& array, std::int64_t at) {
    const std::byte* offsets = buffer(array, 1);
    return type.wide ? load<std::int64_t>(offsets + at * 8) : load<std::int32_t>(offsets + at * 4);
}

// The place of the values of row `row` among those of all rows.
std::pair<std::int64_t, std::int64_t> offsets_of(const ArrowType& type, const ArrowArray& array, std::int64_t row) {
    const std::int64_t begin = offset_at(type, array, array.offset + row);
    const std::int64_t end = offset_at(type, array, array.offset + row + 1);
    if (begin < 0 || end < begin || end > offset_at(type, array, array.offset + array.length)) {
        damaged("offsets that grow", fmt::format("{} and {}", begin, end));
    }
    return {begin, end};
}

const ArrowArray& child_of(const ArrowArray& array, std::size_t at) {
    if (static_cast<std::int64_t>(at) >= array.n_children) {
        damaged("a nested column", "none");
    }
    return *array.children[at];
}

// The values of rows [begin, begin + count) of a column of lists; `length` becomes that of each.
Values inner(const Values& lists, std::int64_t& length) {
    const ArrowType& type = *lists.type;
    Values all{.type = &type.children.front(), .array = &child_of(*lists.array, 0)};
    if (type.kind == ArrowKind::fixed_list) {
        length = type.count;
        if (__builtin_mul_overflow(lists.array->offset + lists.begin, length, &all.begin) ||
            __builtin_mul_overflow(lists.count, length, &all.count)) {
            damaged("lists within the column", "more values than fit");
        }
    } else {
        length = 0;
        for (std::int64_t i = 0; i < lists.count; ++i) {
            const auto [begin, end] = offsets_of(type, *lists.array, lists.begin + i);
            if (i == 0) {
                all.begin = begin;
                length = end - begin;
            } else if (end - begin != length) {
                damaged("lists of one length", fmt::format("{} and {}", length, end - begin));
            }
            all.count = end - all.begin;
        }
    }
    all.check();
    return all;
}

// The field inside.front() of structs.
Values field(const Values& structs, std::span<const std::string> inside) {
    const auto& fields = structs.type->children;
    const auto found = inside.empty() ? fields.end() : std::ranges::find(fields, inside.front(), &ArrowType::name);
    if (found == fields.end()) {
        damaged("numbers, or lists of numbers", arrow_type_name(*structs.type));
    }
    Values values{.type = &*found,
                  .array = &child_of(*structs.array, static_cast<std::size_t>(found - fields.begin())),
                  .begin = structs.array->offset + structs.begin,
                  .count = structs.count};
    values.check();
    return values;
}

std::span<const std::byte> view_bytes(const ArrowArray& array, std::int64_t row) {
    constexpr std::int64_t kInline = 12;
    const std::byte* view = buffer(array, 1) + (array.offset + row) * 16;
    const auto size = load<std::int32_t>(view);
    if (size >= 0 && size <= kInline) {
        return {view + 4, static_cast<std::size_t>(size)};
    }
    const std::int64_t number = load<std::int32_t>(view + 8);
    const std::int64_t offset = load<std::int32_t>(view + 12);
    const std::int64_t pieces = array.n_buffers - 3;  // nulls, views, pieces ..., the pieces' sizes
    if (size < 0 || number < 0 || number >= pieces || offset < 0 ||
        offset + size > load<std::int64_t>(buffer(array, array.n_buffers - 1) + number * 8)) {
        damaged("a text within its piece", fmt::format("{} bytes at {}", size, offset));
    }
    return {buffer(array, 2 + number) + offset, static_cast<std::size_t>(size)};
}

std::int64_t index_at(const ArrayType& type, const std::byte* from) {
    ArrayView one{.name = "", .type = type, .shape = {}, .bytes = {from, static_cast<std::size_t>(type.item_size)}};
    return integer_at(one, 0);
}

// The entry of its dictionary that a value is.
std::int64_t entry_of(const ArrowCell& cell) {
    const ArrowArray& array = *cell.array;
    const ArrayType& index = cell.type->element;
    const std::int64_t at = index_at(index, buffer(array, 1) + (array.offset + cell.row) * index.item_size);
    if (array.dictionary == nullptr || at < 0 || at >= array.dictionary->length) {
        damaged("an entry of the dictionary", fmt::to_string(at));
    }
    return at;
}

double decimal_at(const ArrayType& type, const std::byte* from, int scale) {
    const __int128 value = type.item_size == 4   ? load<std::int32_t>(from)
                           : type.item_size == 8 ? load<std::int64_t>(from)
                                                 : load<__int128>(from);
    return static_cast<double>(static_cast<long double>(value) / std::pow(10.0L, scale));
}

// The bytes of numbers, in the column or in `storage`.
std::span<const std::byte> number_bytes(const Values& values, Buffer& storage) {
    if (values.count == 0) {
        return {};
    }
    const auto item = static_cast<std::int64_t>(values.type->element.item_size);
    const std::byte* from = buffer(*values.array, 1);
    const std::int64_t first = values.array->offset + values.begin;
    const auto count = static_cast<std::size_t>(values.count);
    if (values.type->kind == ArrowKind::number) {
        return {from + first * item, count * static_cast<std::size_t>(item)};
    }
    const bool boolean = values.type->kind == ArrowKind::boolean;
    storage.resize(count * (boolean ? 1 : sizeof(double)));
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t at = first + static_cast<std::int64_t>(i);
        if (boolean) {
            storage.data()[i] = static_cast<std::byte>(bit_at(from, at));
        } else {
            const double value = decimal_at(values.type->element, from + at * item, values.type->scale);
            std::memcpy(storage.data() + i * sizeof value, &value, sizeof value);
        }
    }
    return storage.bytes();
}

// The bytes of an array's buffers, as far as its values need them.
std::size_t bytes_of(const ArrowType& type, const ArrowArray& array) {
    const auto rows = static_cast<std::size_t>(array.length);
    std::size_t bytes = rows / 8;
    switch (type.kind) {
        case ArrowKind::number:
        case ArrowKind::decimal:
        case ArrowKind::dictionary:
            bytes += rows * static_cast<std::size_t>(type.element.item_size);
            break;
        case ArrowKind::fixed_bytes:
            bytes += rows * static_cast<std::size_t>(type.count);
            break;
        case ArrowKind::byte_view:
            bytes += rows * 16;
            break;
        case ArrowKind::bytes:
        case ArrowKind::list:
            bytes += rows * (type.wide ? 8 : 4);
            if (type.kind == ArrowKind::bytes && array.length > 0) {
                bytes += static_cast<std::size_t>(offset_at(type, array, array.offset + array.length));
            }
            break;
        default:
            break;
    }
    const std::size_t nested = std::min(static_cast<std::size_t>(array.n_children), type.children.size());
    for (std::size_t i = 0; i < nested; ++i) {
        bytes += bytes_of(type.children[i], *array.children[i]);
    }
    if (array.dictionary != nullptr) {
        bytes += bytes_of(type.children.front(), *array.dictionary);
    }
    return bytes;
}

}  // namespace

std::size_t arrow_bytes(const ArrowType& type, const ArrowArray& array) {
    return bytes_of(type, array);
}

bool ArrowCell::is_null() const {
    if (type->format == "n" || is_null_at(*array, row)) {
        return true;
    }
    return type->kind == ArrowKind::dictionary && is_null_at(*array->dictionary, entry_of(*this));
}

ArrowCell ArrowCell::child(std::size_t at) const {
    const ArrowArray& values = child_of(*array, at);
    const ArrowCell cell{.type = &type->children[at], .array = &values, .row = array->offset + row};
    Values{.type = cell.type, .array = &values, .begin = cell.row, .count = 1}.check();
    return cell;
}

std::span<const std::byte> ArrowCell::bytes() const {
    switch (type->kind) {
        case ArrowKind::bytes: {
            const auto [begin, end] = offsets_of(*type, *array, row);
            return begin == end ? std::span<const std::byte>{}
                                : std::span{buffer(*array, 2) + begin, static_cast<std::size_t>(end - begin)};
        }
        case ArrowKind::byte_view:
            return view_bytes(*array, row);
        case ArrowKind::fixed_bytes:
            return {buffer(*array, 1) + (array->offset + row) * type->count, static_cast<std::size_t>(type->count)};
        case ArrowKind::dictionary:
            return ArrowCell{.type = &type->children.front(), .array = array->dictionary, .row = entry_of(*this)}
                .bytes();
        default:
            damaged("text or bytes", arrow_type_name(*type));
    }
}

ArrayView ArrowCell::numbers(Buffer& storage, std::span<const std::string> inside) const {
    ArrayView view{.name = "", .type = {}, .shape = {}, .bytes = {}};
    Values values{.type = type, .array = array, .begin = row, .count = 1};
    values.check();
    values.refuse_nulls();
    while (values.type->is_list() || values.type->kind == ArrowKind::structure) {
        const ArrowType& list = *values.type;
        if (!list.is_list()) {
            values = field(values, inside);
            inside = inside.subspan(1);
            values.refuse_nulls();
            continue;
        }
        if (!list.order.empty() && &list != type) {
            damaged("tensors with permuted sides outside of lists", arrow_type_name(*type));
        }
        std::int64_t length = 0;
        values = inner(values, length);
        values.refuse_nulls();
        if (list.tensor.empty()) {
            view.shape.push_back(length);
        } else {
            view.shape.insert(view.shape.end(), list.tensor.begin(), list.tensor.end());
        }
    }
    view.type = number_type(*values.type);
    view.bytes = number_bytes(values, storage);
    if (!type->order.empty()) {
        Shape sides;
        for (const std::size_t side : type->order) {
            sides.push_back(view.shape[side]);
        }
        Buffer turned(view.bytes.size());
        permute_sides(view.bytes, view.shape, type->order, static_cast<std::size_t>(view.type.item_size),
                      turned.bytes());
        storage = std::move(turned);
        view.bytes = storage.bytes();
        view.shape = sides;
    }
    return view;
}

std::vector<ArrowCell> ArrowCell::items() const {
    if (!type->is_list()) {
        damaged("a list", arrow_type_name(*type));
    }
    std::int64_t length = 0;
    const Values values = inner({.type = type, .array = array, .begin = row, .count = 1}, length);
    std::vector<ArrowCell> cells;
    for (std::int64_t i = 0; i < values.count; ++i) {
        cells.push_back({.type = values.type, .array = values.array, .row = values.begin + i});
    }
    return cells;
}

bool has_numbers(const ArrowType& type) {
    return type.kind == ArrowKind::number || type.kind == ArrowKind::boolean || type.kind == ArrowKind::decimal ||
           (type.is_list() && has_numbers(type.children.front()));
}

ArrayType number_type(const ArrowType& type) {
    switch (type.kind) {
        case ArrowKind::number:
            return type.element;
        case ArrowKind::boolean:
            return {.kind = ArrayKind::boolean, .item_size = 1};
        case ArrowKind::decimal:
            return {.kind = ArrayKind::floating, .item_size = sizeof(double)};
        case ArrowKind::list:
        case ArrowKind::fixed_list:
            return number_type(type.children.front());
        default:
            damaged("numbers, or lists of numbers", arrow_type_name(type));
    }
}

void permute_sides(std::span<const std::byte> from, const Shape& sides, std::span<const std::size_t> order,
                   std::size_t item, std::span<std::byte> out) {
    const std::size_t rank = sides.size();
    std::vector<std::size_t> steps(rank, item);  // of the stored sides, in bytes
    for (std::size_t i = rank; i-- > 1;) {
        steps[i - 1] = steps[i] * static_cast<std::size_t>(sides[i]);
    }
    std::vector<std::int64_t> at(rank, 0);
    std::size_t place = 0;
    for (std::size_t to = 0; to < out.size(); to += item) {
        std::memcpy(out.data() + to, from.data() + place, item);
        for (std::size_t i = rank; i-- > 0;) {
            place += steps[order[i]];
            if (++at[i] < sides[order[i]]) {
                break;
            }
            place -= steps[order[i]] * static_cast<std::size_t>(at[i]);
            at[i] = 0;
        }
    }
}

}  // namespace stoker
