// Values are copied: the record may be in memory that the sample's image replaces, and unescaped bytes in the reader's.
#include "stoker/formats/lmdb/lmdb_fields.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/parse_number.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

using Kind = PickleValue::Kind;

constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  // along one side

std::optional<DType> dtype_named(std::string_view name) {
    for (const DType dtype : {DType::uint8, DType::uint16, DType::int16, DType::int32, DType::int64, DType::float16,
                              DType::float32, DType::float64}) {
        if (dtype_name(dtype) == name) {
            return dtype;
        }
    }
    return std::nullopt;
}

bool is_list(const PickleValue& value) {
    return value.kind() == Kind::list || value.kind() == Kind::tuple;
}

bool is_bytes(const PickleValue& value) {
    return value.kind() == Kind::bytes || value.kind() == Kind::text;
}

void add_number(FieldNumbers& numbers, const PickleValue& value) {
    if (value.kind() == Kind::real) {
        numbers.add(value.real());
    } else {
        numbers.add(value.integer());
    }
}

FieldNumbers numbers_of(const PickleValue& value) {
    FieldNumbers numbers;
    if (!is_list(value)) {
        add_number(numbers, value);
        return numbers;
    }
    const bool rows = value.size() > 0 && is_list(value[0]);
    numbers.shape = {static_cast<std::int64_t>(value.size())};
    if (rows) {
        numbers.shape.push_back(static_cast<std::int64_t>(value[0].size()));
    }
    value.count_copied(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
        const PickleValue entry = value[i];
        if (!rows) {
            add_number(numbers, entry);
            continue;
        }
        if (!is_list(entry) || static_cast<std::int64_t>(entry.size()) != numbers.shape[1]) {
            throw DataError({}, {.where = "record", .expected = "lists of one length", .got = entry.describe()});
        }
        entry.count_copied(entry.size());
        for (std::size_t j = 0; j < entry.size(); ++j) {
            add_number(numbers, entry[j]);
        }
    }
    return numbers;
}

std::span<const std::byte> bytes_of(const PickleValue& value) {
    return value.kind() == Kind::bytes ? value.bytes() : as_bytes(value.text());
}

Field describe_bytes_field(const FieldRequest& request, std::span<const std::byte> bytes, const std::string& where) {
    FieldRequest known = request;
    if (!known.kind) {
        known.kind = is_encoded_image(bytes) ? FieldKind::image : FieldKind::bytes;
    }
    return field_of_encoded(known, where);
}

void set_value(const Field& field, const PickleValue& entry, FieldValue& value) {
    if (entry.kind() == Kind::array) {
        const ArrayView array = entry.array();
        if (has_pixels(field.kind) && is_encoded_array(array)) {
            set_encoded(array.bytes, value);
        } else {
            set_array(field, array, value);
        }
    } else if (!is_bytes(entry)) {
        set_numbers(field, numbers_of(entry), value);
    } else if (has_pixels(field.kind)) {
        set_encoded(bytes_of(entry), value);
    } else if (field.kind == FieldKind::bytes) {
        value.set_elements(bytes_of(entry));
    } else {
        throw DataError({}, {.where = field.name, .expected = "numbers", .got = entry.describe()});
    }
}

}  // namespace

bool is_encoded_array(const ArrayView& array) {
    const bool line =
        array.shape.size() == 1 || (array.shape.size() == 2 && std::ranges::find(array.shape, 1) != array.shape.end());
    return line && array.type.is_uint8() && is_encoded_image(array.bytes);
}

PickleValue find_entry(const PickleValue& record, const std::string& name) {
    if (record.kind() == Kind::dict) {
        if (const std::optional<PickleValue> found = record.find(name)) {
            return *found;
        }
    } else if (is_list(record)) {
        if (const auto at = parse_number<std::size_t>(name); at && *at < record.size()) {
            return record[*at];
        }
    }
    throw DataError({}, {.where = "record", .expected = "an entry " + name, .got = record.describe()});
}

Field describe_entry(const FieldRequest& request, const PickleValue& entry, const std::string& where) {
    const FieldKind kind = request.kind.value_or(FieldKind::value);
    if (entry.kind() == Kind::array) {
        const ArrayView array = entry.array();
        const bool image = is_encoded_array(array) && (!request.kind || has_pixels(kind));
        return image ? field_of_encoded(request, where) : field_of_array(request, array, false, where);
    }
    if (is_bytes(entry)) {
        return describe_bytes_field(request, bytes_of(entry), where);
    }
    if (kind == FieldKind::value && (entry.kind() == Kind::integer || entry.kind() == Kind::boolean)) {
        return array_field(request, DType::int64, {}, where);
    }
    return field_of_numbers(request, numbers_of(entry).shape, false, where);
}

std::optional<Field> find_described_field(std::span<const std::byte> pickled, const FieldRequest& request,
                                          const std::string& where) {
    constexpr std::size_t kFirstSide = 2;
    constexpr std::size_t kMostSides = 16;
    Pickle pickle;
    const PickleValue all = pickle.read(pickled);
    const std::optional<PickleValue> found = all.kind() == Kind::dict ? all.find(request.source()) : std::nullopt;
    if (!found || !is_list(*found) || found->size() < kFirstSide || found->size() > kFirstSide + kMostSides) {
        return std::nullopt;
    }
    const std::optional<FieldKind> stored = field_kind_named((*found)[0].text());
    const std::optional<DType> dtype = dtype_named((*found)[1].text());
    if (!stored || !dtype) {
        return std::nullopt;
    }
    FieldRequest known = request;
    known.kind = request.kind.value_or(*stored);
    if (has_pixels(*stored)) {
        return field_of_encoded(known, where);
    }
    Shape shape;
    for (std::size_t i = kFirstSide; i < found->size(); ++i) {
        shape.push_back((*found)[i].integer());
    }
    const bool sound = std::ranges::all_of(shape, [&](const std::int64_t& side) {
        return side >= (&side == shape.data() ? -1 : 0) && side <= kMostElements;
    });
    return sound ? std::optional(array_field(known, *dtype, shape, where)) : std::nullopt;
}

void read_entry(const Field& field, const PickleValue& entry, FieldValue& value) {
    set_value(field, entry, value);
    const std::less_equal<> before;
    const bool own = before(value.storage.data(), value.bytes.data()) &&
                     before(value.bytes.data() + value.bytes.size(), value.storage.data() + value.storage.size());
    if (!own) {
        value.storage.resize(value.bytes.size());
        std::ranges::copy(value.bytes, value.storage.data());
        value.bytes = value.storage.bytes();
    }
}

}  // namespace stoker
