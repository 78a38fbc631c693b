// A field's type and shape are checked when the data set is opened, and again for each sample, because each may differ.
#include "stoker/formats/field_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

std::string shape_text(const Shape& shape) {
    return fmt::format("({})", fmt::join(shape, ", "));
}

// True for a shape that a sample of the field may have.
bool fits(const Field& field, const Shape& shape) {
    const std::size_t begin = field.any_length() ? 1 : 0;
    return shape.size() == field.shape.size() &&
           std::equal(shape.begin() + static_cast<std::ptrdiff_t>(begin), shape.end(),
                      field.shape.begin() + static_cast<std::ptrdiff_t>(begin));
}

[[noreturn]] void refuse(const Field& field, std::string_view type, const Shape& shape) {
    throw DataError(
        {}, {.where = field.name,
             .expected = fmt::format("{} of {} for {}", dtype_name(field.dtype), shape_text(field.shape), field.name),
             .got = fmt::format("{} of {}", type, shape_text(shape))});
}

Shape any_length(Shape shape) {
    shape.front() = -1;
    return shape;
}

bool is_integers(FieldKind kind) {
    return kind == FieldKind::label || kind == FieldKind::tokens;
}

bool has_word(std::string_view name, std::initializer_list<std::string_view> words) {
    const std::string lower = lower_case(name);
    return std::ranges::any_of(words, [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

}  // namespace

std::vector<std::int64_t> probed_samples(std::int64_t count) {
    std::vector<std::int64_t> samples;
    const std::int64_t probes = std::min(count, kProbedSamples);
    for (std::int64_t i = 0; i < probes; ++i) {
        samples.push_back(i * count / probes);
    }
    return samples;
}

void merge_shape(Shape& common, const Shape& other, const std::string& where) {
    const bool same_rest = common.size() == other.size() &&
                           (common.empty() || std::equal(common.begin() + 1, common.end(), other.begin() + 1));
    if (!same_rest) {
        throw Unsupported({.where = where,
                           .expected = "samples that differ in their first side only",
                           .got = fmt::format("{} and {}", shape_text(common), shape_text(other))});
    }
    if (!common.empty() && common.front() != other.front()) {
        common.front() = -1;
    }
}

Field common_field(std::span<const std::int64_t> samples, const std::function<Field(std::int64_t)>& describe,
                   const std::string& where) {
    const auto is_float = [](const Field& one) { return one.dtype == DType::float64 && one.shape.empty(); };
    std::optional<Field> field;
    std::exception_ptr bad;
    for (const std::int64_t sample : samples) {
        try {
            const Field found = describe(sample);
            field = field.value_or(found);
            if (found.kind != field->kind) {  // text among numbers also makes a bad sample
                continue;
            }
            merge_shape(field->shape, found.shape, where);
            if (field->kind == FieldKind::value && field->dtype == DType::int64 && is_float(found)) {
                field->dtype = DType::float64;
            }
        } catch (const DataError&) {  // a bad sample, unless all of them are
            bad = bad == nullptr ? std::current_exception() : bad;
        }
    }
    if (!field) {
        std::rethrow_exception(bad);
    }
    return *field;
}

Field field_of_array(const FieldRequest& request, const ArrayView& array, bool ragged, const std::string& where) {
    const std::optional<DType> dtype = dtype_of_array(array.type);
    if (!dtype || (array.fortran && array.shape.size() > 1 && !has_pixels(request.kind.value_or(FieldKind::value)))) {
        throw Unsupported({.where = where,
                           .expected = "uint8, int16 to int64, uint16 or a float, in C order",
                           .got = fmt::format("{} of {}{}", array_type_name(array.type), shape_text(array.shape),
                                              array.fortran ? " in Fortran order" : "")});
    }
    Field field = array_field(request, *dtype, array.shape, where);
    const bool free = ragged || request.any_length || field.kind == FieldKind::boxes || field.kind == FieldKind::bytes;
    if (free && !field.shape.empty()) {
        field.shape.front() = -1;
    }
    return field;
}

void set_array(const Field& field, const ArrayView& array, FieldValue& value) {
    if (has_pixels(field.kind)) {
        const ArrayType type = array.type.kind == ArrayKind::boolean ? ArrayType{} : array.type;
        set_pixels(image_array(field.kind, type, array.shape), array.fortran, array.bytes, value);
        return;
    }
    const bool ordered = !array.fortran || array.shape.size() < 2;
    if (dtype_of_array(array.type) != field.dtype || !fits(field, array.shape) || !ordered) {
        refuse(field, array_type_name(array.type) + (ordered ? "" : " in Fortran order"), array.shape);
    }
    value.set_elements(array.bytes);
}

Field field_of_encoded(const FieldRequest& request, const std::string& where) {
    const FieldKind kind = request.kind.value_or(FieldKind::image);
    if (kind == FieldKind::bytes) {
        return {.name = request.name, .kind = kind, .dtype = DType::uint8, .shape = {-1}};
    }
    if (!has_pixels(kind)) {
        throw Unsupported({.where = where,
                           .expected = fmt::format("numbers for a field that is {}", field_kind_name(kind)),
                           .got = "bytes of an encoded image"});
    }
    return {.name = request.name, .kind = kind, .dtype = DType::uint8};
}

// ---- Numbers ----

void FieldNumbers::add(std::int64_t number) {
    reals.push_back(static_cast<double>(number));
    if (whole) {
        integers.push_back(number);
    }
}

void FieldNumbers::add(double number) {
    reals.push_back(number);
    whole = false;
}

FieldNumbers parse_field_number(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n";
    constexpr std::size_t kLongest = 400;  // digits of a double in decimal notation
    const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
    const std::string_view number = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
    const char* end = number.data() + number.size();
    FieldNumbers found;
    std::int64_t integer = 0;
    double real = 0;
    if (const auto whole = std::from_chars(number.data(), end, integer); whole.ec == std::errc{} && whole.ptr == end) {
        found.add(integer);
        return found;
    }
    const auto parsed = std::from_chars(number.data(), end, real);
    if (number.size() > kLongest || parsed.ec != std::errc{} || parsed.ptr != end) {
        throw DataError(
            {}, {.where = "field", .expected = "a number", .got = describe_bytes(std::as_bytes(std::span(text)))});
    }
    found.add(real);
    return found;
}

Field field_of_numbers(const FieldRequest& request, const Shape& shape, bool ragged, const std::string& where) {
    const FieldKind kind = request.kind.value_or(FieldKind::value);
    const DType dtype = kind == FieldKind::boxes   ? DType::float32
                        : is_integers(kind)        ? DType::int64
                        : kind == FieldKind::value ? DType::float64
                                                   : DType::uint8;
    // A list without boxes has only one side.
    const Shape item = kind == FieldKind::boxes && shape == Shape{0} ? Shape{0, 4} : shape;
    if (kind != FieldKind::value && !is_integers(kind) && kind != FieldKind::boxes) {
        throw Unsupported({.where = where,
                           .expected = fmt::format("pixels or bytes for a field that is {}", field_kind_name(kind)),
                           .got = fmt::format("numbers of {}", shape_text(shape))});
    }
    Field field = array_field({.name = request.name, .from = request.from, .kind = kind}, dtype, item, where);
    if ((ragged || request.any_length || kind == FieldKind::boxes) && !field.shape.empty()) {
        field.shape = any_length(field.shape);
    }
    return field;
}

void set_numbers(const Field& field, const FieldNumbers& numbers, FieldValue& value) {
    const bool no_boxes = field.kind == FieldKind::boxes && numbers.shape == Shape{0};
    const bool whole = field.dtype != DType::int64 || numbers.whole;
    if ((!fits(field, numbers.shape) && !no_boxes) || !whole) {
        refuse(field, numbers.whole ? "integers" : "floats", numbers.shape);
    }
    switch (field.dtype) {
        case DType::int64:
            value.copy_elements(numbers.integers);
            return;
        case DType::float32:
            value.copy_elements(std::vector<float>(numbers.reals.begin(), numbers.reals.end()));
            return;
        case DType::float64:
            value.copy_elements(numbers.reals);
            return;
        default:
            refuse(field, numbers.whole ? "integers" : "floats", numbers.shape);
    }
}

// ---- Guesses ----

FieldKind guessed_image_kind(std::string_view name) {
    return has_word(name, {"mask", "seg"}) ? FieldKind::mask : FieldKind::image;
}

FieldKind guessed_kind(std::string_view name, DType dtype, const Shape& shape) {
    const bool integers = is_integer(dtype);
    const auto is_channels = [](std::int64_t side) { return side >= 1 && side <= 4; };
    if (dtype == DType::uint8 && shape.size() == 2) {
        return guessed_image_kind(name) == FieldKind::mask ? FieldKind::mask : FieldKind::value;
    }
    if (dtype == DType::uint8 && shape.size() == 3 && (is_channels(shape.back()) || is_channels(shape.front()))) {
        return FieldKind::image;
    }
    if (dtype == DType::float32 && shape.size() == 2 && shape.back() == 4 && has_word(name, {"box"})) {
        return FieldKind::boxes;
    }
    if (integers && shape.size() <= 1 && has_word(name, {"token", "input_ids"})) {
        return FieldKind::tokens;
    }
    return integers && has_word(name, {"label", "class", "cls", "target"}) ? FieldKind::label : FieldKind::value;
}

}  // namespace stoker
