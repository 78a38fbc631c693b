// Reader and writer of the safetensors format. The header is padded with spaces, as in the reference implementation, so
// that the tensors' bytes begin at a multiple of 8.
#include "stoker/formats/arrays/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/memory_limit.h"

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian values");

struct Type {
    std::string_view name;
    ArrayType array;
    std::optional<DType> dtype = {};
};
constexpr Type kTypes[] = {{"BOOL", {ArrayKind::boolean, 1}},
                           {"I8", {ArrayKind::signed_integer, 1}},
                           {"U8", {ArrayKind::unsigned_integer, 1}, DType::uint8},
                           {"I16", {ArrayKind::signed_integer, 2}, DType::int16},
                           {"U16", {ArrayKind::unsigned_integer, 2}, DType::uint16},
                           {"I32", {ArrayKind::signed_integer, 4}, DType::int32},
                           {"U32", {ArrayKind::unsigned_integer, 4}},
                           {"I64", {ArrayKind::signed_integer, 8}, DType::int64},
                           {"U64", {ArrayKind::unsigned_integer, 8}},
                           {"F16", {ArrayKind::floating, 2}, DType::float16},
                           {"BF16", {ArrayKind::bfloat16, 2}, DType::bfloat16},
                           {"F32", {ArrayKind::floating, 4}, DType::float32},
                           {"F64", {ArrayKind::floating, 8}, DType::float64}};

const Type* find_type(std::string_view name) {
    const auto* const found = std::ranges::find(kTypes, name, &Type::name);
    return found == std::end(kTypes) ? nullptr : found;
}

std::string_view type_name(DType dtype) {
    const auto* const found = std::ranges::find(kTypes, std::optional(dtype), &Type::dtype);
    return found == std::end(kTypes) ? "?" : found->name;
}

// The beginning of a text of the file, for messages.
std::string clipped(std::string text) {
    constexpr std::size_t kMost = 100;
    if (text.size() > kMost) {
        text.resize(kMost);
        text += "...";
    }
    return text;
}

// Invalid UTF-8 of the header is replaced: dump() would throw.
std::string shown(const nlohmann::ordered_json& json) {
    return clipped(json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "safetensors", .expected = std::move(expected), .got = std::move(got)});
}

// nlohmann's own conversion would read 2.5 as 2 and -1 as 2^64 - 1.
Shape natural_numbers(const nlohmann::ordered_json& json) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const bool natural = json.is_array() && std::ranges::all_of(json, [](const auto& item) {
                             return item.is_number_unsigned() && item.template get<std::uint64_t>() <= kMost;
                         });
    if (!natural) {
        refuse("an array of natural numbers", shown(json));
    }
    return json.get<Shape>();
}

constexpr std::uint64_t kMaxSide = std::uint64_t{1} << 31;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // as the reference implementation limits it
constexpr std::size_t kMaxKeys = 32'768;           // an ordered object compares each new key with all before it
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 62;
constexpr const char* kMetadata = "__metadata__";

SafetensorsEntry parse_entry(const std::string& key, const nlohmann::ordered_json& json,
                             std::span<const std::byte> data) {
    SafetensorsEntry entry{
        .name = key, .dtype = clipped(json.at("dtype").get<std::string>()), .shape = {}, .bytes = {}};
    const std::string name = clipped(key);
    const Type* type = find_type(entry.dtype);  // null: such as F8_E4M3, which only matters to those who ask for it
    entry.shape = natural_numbers(json.at("shape"));
    std::uint64_t elements = 1;
    for (const auto side : entry.shape) {
        const auto length = static_cast<std::uint64_t>(side);
        // The file's size does not bound the sides of a tensor without elements.
        if (length > kMaxSide) {
            refuse(fmt::format("sides up to {} for {}", kMaxSide, name), shown(json.at("shape")));
        }
        if (type != nullptr && length != 0 && elements > data.size() / length) {
            refuse(fmt::format("a shape within the file for {}", name), shown(json.at("shape")));
        }
        elements *= type != nullptr ? length : 1;
    }
    const Shape offsets = natural_numbers(json.at("data_offsets"));
    if (offsets.size() != 2) {
        refuse(fmt::format("two data_offsets for {}", name), shown(json.at("data_offsets")));
    }
    const auto begin = static_cast<std::uint64_t>(offsets[0]);
    const auto end = static_cast<std::uint64_t>(offsets[1]);
    const bool fits = type == nullptr || end - begin == elements * static_cast<std::uint64_t>(type->array.item_size);
    if (begin > end || end > data.size() || !fits) {
        refuse(fmt::format("data_offsets of {} to fit its shape and the file", name), shown(json.at("data_offsets")));
    }
    entry.bytes = data.subspan(begin, end - begin);
    return entry;
}

// Parses the header. A key that occurs twice is refused: readers would disagree on which of the two counts.
nlohmann::ordered_json parse_header(const char* text, std::uint64_t length) {
    if (json_depth({text, length}) > kMaxJsonDepth) {
        refuse(fmt::format("a header of at most {} levels of JSON", kMaxJsonDepth), "more");
    }
    require_memory(kParsedJsonRatio * length, "header");
    std::vector<std::set<std::string>> keys;  // of each open object
    std::string twice;
    const auto callback = [&](int /*depth*/, nlohmann::ordered_json::parse_event_t event,
                              nlohmann::ordered_json& json) {
        using Event = nlohmann::ordered_json::parse_event_t;
        if (event == Event::object_start) {
            keys.emplace_back();
        } else if (event == Event::object_end) {
            keys.pop_back();
        } else if (event == Event::key && !keys.back().insert(json.get<std::string>()).second) {
            twice = shown(json);
        } else if (event == Event::key && keys.back().size() > kMaxKeys) {
            refuse(fmt::format("a header of at most {} tensors", kMaxKeys), "more");
        }
        return true;
    };
    auto header = nlohmann::ordered_json::parse(text, text + length, callback, /*allow_exceptions=*/false);
    if (!header.is_object()) {
        refuse("a safetensors file, whose header is a JSON object", "another header");
    }
    if (!twice.empty()) {
        refuse("each key of the header once", fmt::format("the key {} twice", twice));
    }
    return header;
}

void require_apart(const std::vector<SafetensorsEntry>& entries) {
    std::vector<const SafetensorsEntry*> order;
    for (const SafetensorsEntry& entry : entries) {
        if (!entry.bytes.empty()) {
            order.push_back(&entry);
        }
    }
    std::ranges::sort(order, {}, [](const SafetensorsEntry* entry) { return entry->bytes.data(); });
    for (std::size_t i = 1; i < order.size(); ++i) {
        const auto& before = order[i - 1]->bytes;
        if (order[i]->bytes.data() < before.data() + before.size()) {
            refuse("tensors that do not overlap", fmt::format("bytes that belong to both {:?} and {:?}",
                                                              clipped(order[i - 1]->name), clipped(order[i]->name)));
        }
    }
}

[[noreturn]] void refuse_truncated(std::uint64_t size, std::uint64_t least, const char* at_least) {
    refuse("a complete safetensors file",
           fmt::format("one that ends after {} of {}{} bytes: copied incompletely?", size, at_least, least));
}

std::uint64_t header_length(std::span<const std::byte> bytes) {
    std::uint64_t length = 0;
    const std::string_view start{reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 9)};
    const bool header =
        start.size() == 9 && start.back() == '{';  // the length's own bytes may look like a magic number
    if (!header && (start.starts_with("PK\3\4") || start.starts_with("\x80\x02"))) {
        refuse("a safetensors file", "a file of torch.save; save it with safetensors.torch.save_file");
    }
    if (bytes.size() < sizeof length) {
        refuse("a safetensors file", fmt::format("a file of {} bytes", bytes.size()));
    }
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > kMaxHeader) {
        refuse("a safetensors file", "a file that does not begin as one");
    }
    if (length > bytes.size() - sizeof length) {
        if (bytes.size() > sizeof length && !header) {
            refuse("a safetensors file", "a file that does not begin as one");
        }
        refuse_truncated(bytes.size(), sizeof length + length, "at least ");
    }
    return length;
}

// Throws if the file ends before its tensors do. Other errors of the header are found tensor by tensor.
void require_data(const nlohmann::ordered_json& header, std::uint64_t size, std::uint64_t begin) {
    std::uint64_t end = 0;
    for (const auto& [name, json] : header.items()) {
        const auto offsets = json.is_object() ? json.find("data_offsets") : json.end();
        if (offsets != json.end() && offsets->is_array() && offsets->size() == 2 &&
            offsets->back().is_number_unsigned()) {
            end = std::max(end, std::min(offsets->back().get<std::uint64_t>(), kMaxFile));
        }
    }
    if (end > size - begin) {
        refuse_truncated(size, begin + end, "");
    }
}

// Values that are not text are ignored.
SafetensorsMetadata texts(const nlohmann::ordered_json& json) {
    SafetensorsMetadata found;
    for (const auto& [key, value] : json.items()) {
        if (json.is_object() && value.is_string()) {
            found.emplace(key, value.get<std::string>());
        }
    }
    return found;
}

}  // namespace

std::optional<DType> safetensors_dtype(std::string_view name) {
    const Type* type = find_type(name);
    return type == nullptr ? std::nullopt : type->dtype;
}

std::optional<ArrayType> safetensors_array_type(std::string_view name) {
    const Type* type = find_type(name);
    return type == nullptr ? std::nullopt : std::optional(type->array);
}

SafetensorsLayout lay_out_safetensors(const std::vector<NamedView>& tensors, const SafetensorsMetadata& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) {
        header[kMetadata] = metadata;
    }
    SafetensorsLayout layout;
    std::uint64_t offset = 0;
    for (const auto& tensor : tensors) {
        const std::uint64_t end = offset + tensor.view.bytes();
        header[tensor.name] = {
            {"dtype", type_name(tensor.view.dtype)}, {"shape", tensor.view.shape}, {"data_offsets", {offset, end}}};
        layout.begins.push_back(offset);
        offset = end;
    }
    // Class names come from folder names, which need not be UTF-8.
    std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();
    layout.header = std::string(as_text(std::as_bytes(std::span(&length, 1)))) + text;
    for (std::uint64_t& begin : layout.begins) {
        begin += layout.header.size();
    }
    layout.size = layout.header.size() + offset;
    return layout;
}

std::uint64_t write_safetensors(const std::filesystem::path& path, const std::vector<NamedView>& tensors,
                                const SafetensorsMetadata& metadata) {
    const SafetensorsLayout layout = lay_out_safetensors(tensors, metadata);
    std::vector<std::span<const std::byte>> pieces = {as_bytes(layout.header)};
    for (const auto& tensor : tensors) {
        pieces.emplace_back(tensor.view.data, tensor.view.bytes());
    }
    StreamHash hash;
    for (const auto piece : pieces) {
        hash.update(piece);
    }
    write_file(path, pieces);
    return hash.value();
}

std::vector<SafetensorsEntry> parse_safetensors(std::span<const std::byte> bytes, SafetensorsMetadata* metadata) {
    const std::uint64_t length = header_length(bytes);
    const auto data = bytes.subspan(sizeof length + length);
    const auto* text = reinterpret_cast<const char*>(bytes.data() + sizeof length);
    const auto header = parse_header(text, length);
    require_data(header, bytes.size(), sizeof length + length);
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, json] : header.items()) {
        if (name == kMetadata) {
            if (metadata != nullptr) {
                *metadata = texts(json);
            }
            continue;
        }
        try {
            entries.push_back(parse_entry(name, json, data));
        } catch (const nlohmann::json::exception& error) {
            refuse(fmt::format("dtype, shape and data_offsets for {}", clipped(name)), error.what());
        }
    }
    require_apart(entries);
    return entries;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
    with_place({.path = path_.string()}, [&] {
        for (SafetensorsEntry& entry : parse_safetensors(file_.bytes(), &metadata_)) {
            const std::optional<DType> dtype = safetensors_dtype(entry.dtype);
            if (!dtype) {
                refuse(fmt::format("a type that Stoker computes with for tensor {}", clipped(entry.name)), entry.dtype);
            }
            by_name_.emplace(entry.name, tensors_.size());
            // TensorView only has mutable bytes. The map is read-only, and readers copy from it.
            auto* begin = const_cast<std::byte*>(entry.bytes.data());
            tensors_.push_back({std::move(entry.name), {begin, *dtype, std::move(entry.shape)}});
        }
    });
}

const TensorView& SafetensorsFile::at(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
        throw DataError({.path = path_.string()}, {.where = "safetensors",
                                                   .expected = "a tensor named " + name,
                                                   .got = fmt::format("{} other tensors", tensors_.size())});
    }
    return tensors_[found->second].view;
}

}  // namespace stoker
