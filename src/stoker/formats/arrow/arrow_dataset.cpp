#include "stoker/formats/arrow/arrow_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/sample_files.h"

namespace stoker {
namespace {

constexpr std::int32_t kBadLabel = std::numeric_limits<std::int32_t>::min();
constexpr std::size_t kMostTextClasses = std::size_t{1} << 20;
constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;  // of their names

ArrowPath below(const ArrowPath& path, const char* name) {
    ArrowPath longer = path;
    longer.emplace_back(name);
    return longer;
}

[[noreturn]] void refuse(std::string_view column, std::string expected, std::string got) {
    throw DataError(
        {}, {.where = fmt::format("column {}", column), .expected = std::move(expected), .got = std::move(got)});
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Number>
Number load(const std::byte* from) {
    Number value{};
    std::memcpy(&value, from, sizeof value);
    return value;
}

double float_at(const ArrayView& number) {
    return number.type.item_size == sizeof(double)  ? load<double>(number.bytes.data())
           : number.type.item_size == sizeof(float) ? static_cast<double>(load<float>(number.bytes.data()))
                                                    : 0.5;  // labels are not float16
}

std::int64_t whole_at(const ArrayView& number, std::string_view column) {
    const double value = float_at(number);
    if (value != std::floor(value) || std::abs(value) > 1e9) {
        refuse(column, "a whole number", fmt::to_string(value));
    }
    return static_cast<std::int64_t>(value);
}

// Boxes of float64, and tokens or labels of any integer, are stored as their kinds' types.
FieldNumbers numbers_of(const ArrayView& array, std::string_view column) {
    FieldNumbers numbers{.shape = array.shape};
    const auto item = static_cast<std::size_t>(array.type.item_size);
    for (std::size_t at = 0; at < array.bytes.size(); at += item) {
        if (array.type.kind != ArrayKind::floating) {
            numbers.add(integer_at(array, static_cast<std::int64_t>(at / item)));
        } else if (item == sizeof(double)) {
            numbers.add(load<double>(array.bytes.data() + at));
        } else if (item == sizeof(float)) {
            numbers.add(static_cast<double>(load<float>(array.bytes.data() + at)));
        } else {
            refuse(column, "float32 or float64", array_type_name(array.type));
        }
    }
    return numbers;
}

}  // namespace

ArrowDataset::ArrowDataset(std::unique_ptr<ArrowRows> rows, std::string path, std::string folder,
                           const FieldNames& names, std::string_view format)
    : rows_(std::move(rows)), path_(std::move(path)), format_(format), clips_(names.clips) {
    if (!folder.empty()) {
        folder_.emplace(folder);
    }
    columns_ =
        arrow_columns(rows_->type(), with_place({.path = path_}, [&] { return read_hub_features(rows_->features()); }));
    if (rows_->size() == 0) {
        throw DataError({.path = path_}, {.where = "rows", .expected = "at least one", .got = "none"});
    }
    const ArrowRoles roles = choose_roles(
        columns_, names, [&](const ArrowColumn& column) { return holds_images(column); },
        [&](const ArrowColumn& column) { return holds_labels(column); }, path_);
    if (roles.image != nullptr) {
        image_name_ = roles.image->name;
        check_image(*roles.image);
        image_ = add_source(*roles.image);
        if (roles.image->type.has_bytes() && roles.image->type.text) {  // names of files
            image_->file = std::exchange(image_->values, nullptr);
        }
    }
    if (roles.label != nullptr) {
        label_name_ = roles.label->name;
        read_labels(*roles.label);
    }
    for (const FieldRequest& request : names.more) {
        const ArrowColumn* column = find_column(columns_, request.source());
        column = column == nullptr ? find_column(columns_, request.name) : column;
        if (column == nullptr) {
            throw DataError({.path = path_}, {.where = "columns",
                                              .expected = fmt::format("a column named {}", request.source()),
                                              .got = describe_columns(columns_)});
        }
        sources_.push_back(add_source(*column));
        fields_.push_back(describe(request, sources_.back()));
    }
    if (image_) {
        used_.push_back(image_->values == nullptr ? image_->file : image_->values);
    }
    for (const Source& source : sources_) {
        used_.push_back(source.values);
    }
    parts_ = rows_->parts(used_);
}

ArrowDataset::Source ArrowDataset::add_source(const ArrowColumn& column) const {
    Source source{.column = column};
    const bool lists = column.type.is_list();
    source.values = rows_->add(column.media && !lists ? below(column.path, "bytes") : column.path);
    if (column.media && !lists) {
        source.file = rows_->add(below(column.path, "path"));
    }
    return source;
}

// True if the first value that is not null is a file that Stoker decodes, or the name of one in the folder.
bool ArrowDataset::holds_images(const ArrowColumn& column) const {
    const bool names = column.type.text && column.may_be_path() && folder_;
    if (!column.type.has_bytes() || column.in_list || column.media || (column.type.text && !names)) {
        return false;
    }
    bool holds = false;
    probe(column, [&](std::int64_t row, const ArrowSource* source) {
        Buffer storage;
        const auto bytes = rows_->bytes(source, row, storage);
        holds = bytes && (names ? is_image_name(text_of(*bytes))
                                : is_encoded_image(*bytes) || is_video(*bytes) || is_sound(*bytes) || is_npy(*bytes));
        return bytes.has_value();
    });
    return holds;
}

// Whole numbers, nulls and NaN, as pandas makes of a column of integers with missing ones.
bool ArrowDataset::holds_labels(const ArrowColumn& column) const {
    bool holds = true;
    probe(column, [&](std::int64_t row, const ArrowSource* source) {
        const ArrowHeld held = rows_->value(source, row);
        Buffer storage;
        if (!held.cell.is_null()) {
            const double number = float_at(held.cell.numbers(storage));
            holds = holds && (std::isnan(number) || (number == std::floor(number) && std::abs(number) < 1e9));
        }
        return !holds;
    });
    return holds;
}

// Calls look(row, source) until it returns true. Values that cannot be read are bad samples.
template <typename Look>
void ArrowDataset::probe(const ArrowColumn& column, Look look) const {
    const ArrowSource* source = rows_->add(column.path);
    for (const std::int64_t row : probed_samples(size())) {
        try {
            if (look(row, source)) {
                return;
            }
        } catch (const DataError&) {  // a bad sample
        }
    }
}

void ArrowDataset::check_image(const ArrowColumn& column) const {
    const bool pixels = column.has_pixels() || column.type.tensor.size() >= 2;
    const std::optional<DType> dtype = pixels ? dtype_of_array(number_type(column.type)) : std::nullopt;
    if (column.media || (column.type.has_bytes() && !column.in_list) || (dtype && is_image_dtype(*dtype))) {
        return;
    }
    throw Unsupported(
        {.where = fmt::format("{}:{}", path_, column.name),
         .expected = "files, names of files, or lists of lists of uint8, uint16, int16 or floats, for images",
         .got = arrow_type_name(column.type)});
}

// ---- Labels ----

void ArrowDataset::read_labels(const ArrowColumn& column) {
    label_ = rows_->add(column.path);
    text_labels_ = column.type.has_bytes();
    classes_ = column.feature.names;
    labels_.resize(static_cast<std::size_t>(size()));
    if (text_labels_) {
        read_text_labels();
        return;
    }
    std::int64_t largest = -1;
    for (std::int64_t i = 0; i < size(); ++i) {
        std::int32_t& label = labels_[static_cast<std::size_t>(i)];
        try {
            label = static_cast<std::int32_t>(read_number(i));
        } catch (const DataError&) {  // thrown again when the sample is read
            label = kBadLabel;
        }
        largest = std::max<std::int64_t>(largest, label);
    }
    if (classes_.empty()) {
        classes_ = largest < kMaxNumberedClasses ? numbered_classes(largest + 1) : std::vector<std::string>();
    }
}

// -1 for null.
std::int64_t ArrowDataset::read_number(std::int64_t index) const {
    const ArrowHeld held = rows_->value(label_, index);
    if (held.cell.is_null()) {
        return -1;
    }
    Buffer storage;
    const ArrayView number = held.cell.numbers(storage);
    if (!number.shape.empty()) {
        refuse(label_name_, "a number", "a list");
    }
    if (number.type.is_float() && std::isnan(float_at(number))) {
        return -1;
    }
    const std::int64_t label = number.type.is_float() ? whole_at(number, label_name_) : integer_at(number, 0);
    const auto most =
        classes_.empty() ? std::int64_t{std::numeric_limits<std::int32_t>::max()} : std::ssize(classes_) - 1;
    if (label < -1 || label > most) {
        refuse(label_name_, fmt::format("a class from 0 to {}, or -1 for none", most), fmt::to_string(label));
    }
    return label;
}

// Classes are the distinct texts, sorted bytewise.
void ArrowDataset::read_text_labels() {
    std::map<std::string, std::int32_t, std::less<>> numbers;  // first in the order of appearance
    Buffer storage;
    std::size_t bytes = 0;
    for (std::int64_t i = 0; i < size(); ++i) {
        std::int32_t& label = labels_[static_cast<std::size_t>(i)];
        try {
            const auto text = rows_->bytes(label_, i, storage);
            label = -1;
            if (text) {
                const auto next = static_cast<std::int32_t>(numbers.size());
                auto found = numbers.find(text_of(*text));
                if (found == numbers.end()) {
                    bytes += text->size();
                    found = numbers.emplace(text_of(*text), next).first;
                }
                label = found->second;
            }
        } catch (const DataError&) {
            label = kBadLabel;
        }
        if (numbers.size() > kMostTextClasses || bytes > kMostTextBytes) {
            throw Unsupported(
                {.where = path_,
                 .expected = fmt::format("at most {} classes in the column {}", kMostTextClasses, label_name_),
                 .got = "more different texts",
                 .hint = "name another column with data.fields.label (--label-field)"});
        }
    }
    std::vector<std::int32_t> sorted(numbers.size());
    for (const auto& [name, number] : numbers) {
        sorted[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(classes_.size());
        classes_.push_back(name);
    }
    for (std::int32_t& label : labels_) {
        label = label < 0 ? label : sorted[static_cast<std::size_t>(label)];
    }
}

std::optional<std::int64_t> ArrowDataset::label(std::int64_t index) const {
    if (label_ == nullptr) {
        return -1;
    }
    const std::int32_t label = labels_[static_cast<std::size_t>(index)];
    return label == kBadLabel ? std::nullopt : std::optional<std::int64_t>(label);
}

// ---- Values ----

void ArrowDataset::read(std::int64_t index, Sample& sample) const {
    check_index(index);
    try {
        sample.label = -1;
        if (const auto known = label(index)) {
            sample.label = *known;
        } else if (text_labels_) {
            Buffer storage;
            rows_->bytes(label_, index, storage);  // throws what it threw when the data set was opened
            refuse(label_name_, "a text", "one that could not be read before");
        } else {
            sample.label = read_number(index);
        }
        if (image_) {
            static const Field kImage{.name = "image", .kind = FieldKind::image, .dtype = DType::uint8};
            read_source(*image_, index, kImage, sample);
        } else {
            sample.set_raw({}, 0, 0, 0);
        }
        for (std::size_t at = 0; at < sources_.size(); ++at) {
            read_source(sources_[at], index, fields_[at], sample.field(at));
        }
    } catch (const DataError& error) {
        throw error.located({.path = path_, .key = key(index)});
    }
}

void ArrowDataset::read_source(const Source& source, std::int64_t index, const Field& field, FieldValue& value) const {
    const ArrowColumn& column = source.column;
    const bool one_file = source.file != nullptr || column.type.has_bytes();
    if (one_file && has_pixels(field.kind)) {
        read_file(source, index, value);
        return;
    }
    if (one_file) {
        const auto bytes = rows_->bytes(source.values, index, value.storage);
        if (!bytes) {
            refuse(column.name, "a value", "null");
        }
        value.set_raw(*bytes, 0, 0, 0);
        return;
    }
    const ArrowHeld held = rows_->value(source.values, index);
    if (held.cell.is_null()) {
        refuse(column.name, "a value", "null");
    }
    if (column.media) {
        set_frames(held, value);
        return;
    }
    Buffer numbers;
    ArrayView array = held.cell.numbers(numbers, held.inside);
    if (!array.shape.empty() && array.shape.front() == 0 && field.any_length()) {  // nothing says the other sides
        array.shape = field.shape;
        array.shape.front() = 0;
    }
    const bool floats = array.type.is_float();
    if (field.kind == FieldKind::boxes || (field.dtype == DType::int64 && !floats && array.type.item_size != 8)) {
        set_numbers(field, numbers_of(array, column.name), value);
        return;
    }
    // The column's memory may be freed before the sample is used.
    value.storage.resize(array.bytes.size());
    std::ranges::copy(array.bytes, value.storage.data());
    ArrayView copied = array;
    copied.bytes = value.storage.bytes();
    if (field.kind == FieldKind::image && clips_) {
        set_pixels(image_array(copied.type, copied.shape, true), false, copied.bytes, value);
        return;
    }
    set_array(field, copied, value);
}

void ArrowDataset::read_file(const Source& source, std::int64_t index, FieldValue& value) const {
    const auto bytes = source.values == nullptr ? std::nullopt : rows_->bytes(source.values, index, value.storage);
    std::optional<std::string_view> name;
    Buffer text;
    if (!bytes && source.file != nullptr) {
        if (const auto found = rows_->bytes(source.file, index, text)) {
            name = text_of(*found);
        }
    }
    set_file(bytes, name, value);
}

// The file's bytes; without them, the file of this name, if it is there.
void ArrowDataset::set_file(std::optional<std::span<const std::byte>> bytes, std::optional<std::string_view> name,
                            FieldValue& value) const {
    if (bytes) {
        set_encoded(*bytes, value, clips_);
        return;
    }
    if (!name || name->empty() || !folder_) {
        refuse(image_name_, "the bytes of a file",
               name && !name->empty() ? fmt::format("only its name, {}", *name) : "null");
    }
    if (!name->starts_with('/') && !stays_within_folder(*name)) {
        refuse(image_name_, "a file in the folder of the data, or an absolute name", std::string(*name));
    }
    folder_->read_file(*name, value.storage);
    set_encoded(value.storage.bytes(), value, clips_);
}

// A clip is a list of files.
void ArrowDataset::set_frames(const ArrowHeld& list, FieldValue& value) const {
    const std::vector<ArrowCell> files = list.cell.items();
    for (const std::int64_t number : value.begin_clip(std::ssize(files))) {
        const ArrowCell& file = files[static_cast<std::size_t>(number)];
        FieldValue& frame = value.frames.emplace_back();
        const ArrowPath bytes_path = {"bytes"};
        const ArrowPath name_path = {"path"};
        const ArrowCell bytes = value_at(file, bytes_path).cell;
        const ArrowCell name = value_at(file, name_path).cell;
        std::optional<std::span<const std::byte>> stored;
        if (!bytes.is_null()) {
            const auto found = bytes.bytes();
            frame.storage.resize(found.size());
            std::ranges::copy(found, frame.storage.data());
            stored = frame.storage.bytes();
        }
        set_file(stored, name.is_null() ? std::nullopt : std::optional(text_of(name.bytes())), frame);
    }
}

// ---- Fields ----

Field ArrowDataset::describe(const FieldRequest& request, const Source& source) const {
    const ArrowColumn& column = source.column;
    const std::string where = fmt::format("{}:{}", path_, column.name);
    if (column.media) {
        if (column.type.is_list()) {
            throw Unsupported(
                {.where = where, .expected = "one file a row in a further field", .got = "a list of files"});
        }
        return field_of_encoded(request, where);
    }
    if (column.type.has_bytes()) {
        const bool pixels = has_pixels(request.kind.value_or(FieldKind::bytes));
        FieldRequest as_bytes = request;
        as_bytes.kind = request.kind.value_or(FieldKind::bytes);
        if (!pixels && as_bytes.kind != FieldKind::bytes) {
            throw Unsupported(
                {.where = where,
                 .expected = fmt::format("numbers for a field that is {}", field_kind_name(*as_bytes.kind)),
                 .got = arrow_type_name(column.type)});
        }
        return field_of_encoded(as_bytes, where);
    }
    if (const ArrowType* inner = type_at(rows_->type(), column.path); inner == nullptr || !has_numbers(*inner)) {
        throw Unsupported({.where = where,
                           .expected = "files, text, numbers, or lists of numbers",
                           .got = arrow_type_name(column.type)});
    }
    return common_field(
        probed_samples(size()), [&](std::int64_t index) { return describe_at(request, source, index); }, where);
}

Field ArrowDataset::describe_at(const FieldRequest& request, const Source& source, std::int64_t index) const {
    const std::string where = fmt::format("{}:{}", path_, source.column.name);
    const ArrowHeld held = rows_->value(source.values, index);
    if (held.cell.is_null()) {
        refuse(source.column.name, "a value", "null");
    }
    Buffer storage;
    ArrayView array = held.cell.numbers(storage, held.inside);
    const FieldKind kind = request.kind.value_or(FieldKind::value);
    if (array.shape.size() > 1 && array.shape.front() == 0) {
        if (kind != FieldKind::boxes) {
            refuse(source.column.name, "values, which say the sides of lists", "an empty list");
        }
        array.shape = {0, 4};
    }
    const bool integers = kind == FieldKind::label || kind == FieldKind::tokens;
    if (kind == FieldKind::boxes || (integers && array.type.item_size != 8)) {
        return field_of_numbers(request, array.shape, false, where);
    }
    return field_of_array(request, array, false, where);
}

std::vector<Field> ArrowDataset::stored_fields() const {
    std::vector<Field> stored;
    for (const ArrowColumn& column : columns_) {
        if (column.name == image_name_ || column.name == label_name_) {
            continue;
        }
        try {
            const Source source = add_source(column);
            Field field = describe({.name = column.name}, source);
            if (field.kind == FieldKind::value) {
                field.kind = guessed_kind(field.name, field.dtype, field.shape);
            } else if (has_pixels(field.kind)) {
                field.kind = guessed_image_kind(field.name);
            }
            field.classes = column.feature.names;
            stored.push_back(std::move(field));
        } catch (const Unsupported&) {  // no field can have it
        } catch (const DataError&) {    // all of its values are bad
        }
    }
    return stored;
}

}  // namespace stoker
