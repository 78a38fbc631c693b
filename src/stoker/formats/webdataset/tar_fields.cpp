// JSON is parsed each time that a sample is read, since objects of several kilobytes cost less than decoding an image.
#include "stoker/formats/webdataset/tar_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/arrays/npy.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/json_numbers.h"

namespace stoker {
namespace {

constexpr std::size_t kMaxJson = std::size_t{16} << 20;

// "cls", "cls2", "left.cls"
bool is_class_extension(std::string_view extension) {
    const std::string_view last = extension.substr(extension.rfind('.') + 1);
    return last.starts_with("cls") && last.find_first_not_of("0123456789", 3) == std::string_view::npos;
}

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({}, {.where = "webdataset", .expected = std::move(expected), .got = std::move(got)});
}

nlohmann::json parse_object(std::span<const std::byte> bytes) {
    if (bytes.size() > kMaxJson) {
        bad(fmt::format("JSON of at most {} bytes", kMaxJson), fmt::format("{}", bytes.size()));
    }
    auto object = parse_json<nlohmann::json>(as_text(bytes));
    if (!object.is_object()) {
        bad(fmt::format("a JSON object of at most {} levels", kMaxJsonDepth), describe_bytes(bytes));
    }
    return object;
}

nlohmann::json value_of_key(const TarFieldSource& source, std::span<const std::byte> bytes) {
    nlohmann::json object = parse_object(bytes);
    const auto found = object.find(source.key);
    if (found == object.end()) {
        bad(fmt::format("a JSON object with \"{}\"", source.key), "none");
    }
    return std::move(*found);
}

// A string without quotes, other values as JSON.
std::string value_text(const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : json_text(value);
}

Field bytes_field(const FieldRequest& request) {
    return {.name = request.name, .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {-1}};
}

Field describe_key(const FieldRequest& request, const TarFieldSource& source, std::span<const std::byte> bytes,
                   bool ragged, const std::string& where) {
    const nlohmann::json value = value_of_key(source, bytes);
    const bool text = value.is_string() && !request.kind;
    if (text || request.kind == FieldKind::bytes) {
        return bytes_field(request);
    }
    return field_of_numbers(request, json_numbers(value).shape, ragged, where);
}

}  // namespace

TarFieldSource::TarFieldSource(const FieldRequest& request) : kind(request.kind) {
    const std::string& source = request.source();
    const std::size_t colon = source.find(':');
    extension = lower_case(source.substr(0, colon));
    key = colon == std::string::npos ? "" : source.substr(colon + 1);
}

std::optional<std::size_t> TarFieldSource::rank(std::string_view member) const {
    if (member == extension) {
        return 0;
    }
    const bool further =
        key.empty() && member.substr(0, member.rfind('.')) == extension && member.size() > extension.size();
    return further ? std::optional<std::size_t>(1) : std::nullopt;
}

bool TarFieldSource::is_other_than_image(std::string_view member) const {
    const bool image = kind ? has_pixels(*kind) : member.substr(member.rfind('.') + 1) != "npy";
    return !image && rank(member).has_value();
}

Field describe_tar_field(const FieldRequest& request, const TarFieldSource& source, std::span<const std::byte> bytes,
                         bool ragged, const std::string& where) {
    if (!source.key.empty()) {
        return describe_key(request, source, bytes, ragged, where);
    }
    if (request.kind == FieldKind::bytes) {
        return bytes_field(request);
    }
    if (is_npy(bytes)) {
        return field_of_array(request, parse_npy(bytes), ragged, where);
    }
    const bool label = !request.kind && is_class_extension(source.extension);
    if (is_encoded_image(bytes) || has_pixels(request.kind.value_or(FieldKind::value))) {
        return field_of_encoded(request, where);
    }
    if (!request.kind && !label) {
        return bytes_field(request);
    }
    const FieldKind kind = request.kind.value_or(FieldKind::label);
    return field_of_numbers({.name = request.name, .from = request.from, .kind = kind},
                            parse_field_number(as_text(bytes)).shape, false, where);
}

void read_tar_field(const Field& field, const TarFieldSource& source, std::span<const std::byte> bytes,
                    FieldValue& value) {
    if (!source.key.empty()) {
        const nlohmann::json found = value_of_key(source, bytes);
        if (field.kind == FieldKind::bytes) {
            value.copy_elements(value_text(found));
        } else {
            set_numbers(field, json_numbers(found), value);
        }
    } else if (field.kind == FieldKind::bytes) {
        value.set_elements(bytes);
    } else if (is_npy(bytes)) {
        set_array(field, parse_npy(bytes), value);
    } else if (has_pixels(field.kind)) {
        set_encoded(bytes, value);
    } else {
        set_numbers(field, parse_field_number(as_text(bytes)), value);
    }
}

std::vector<std::string> json_number_keys(std::span<const std::byte> bytes) {
    std::vector<std::string> keys;
    const auto object = bytes.size() > kMaxJson ? nlohmann::json() : parse_json<nlohmann::json>(as_text(bytes));
    if (!object.is_object()) {
        return keys;
    }
    for (const auto& [key, value] : object.items()) {
        try {
            json_numbers(value);
            keys.push_back(key);
        } catch (const DataError&) {  // text, or an object
        }
    }
    return keys;
}

}  // namespace stoker
