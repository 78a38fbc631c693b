// Reader and writer of the safetensors layout. The header is padded with spaces, so that tensor
// bytes begin at a multiple of 8 as the reference implementation has it.
#include "stoker/formats/arrays/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian values");

struct TypeName {
    DType dtype;
    const char* name;
};
constexpr TypeName kTypes[] = {{DType::uint8, "U8"},    {DType::int32, "I32"},     {DType::int64, "I64"},
                               {DType::float16, "F16"}, {DType::bfloat16, "BF16"}, {DType::float32, "F32"},
                               {DType::float64, "F64"}};

const char* type_name(DType dtype) {
    for (const auto& type : kTypes) {
        if (type.dtype == dtype) {
            return type.name;
        }
    }
    return "?";
}

// nlohmann's own conversion would take 2.5 for 2 and -1 for 2^64 - 1.
Shape natural_numbers(const nlohmann::ordered_json& json) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const bool natural = json.is_array() && std::ranges::all_of(json, [](const auto& item) {
                             return item.is_number_unsigned() && item.template get<std::uint64_t>() <= kMost;
                         });
    if (!natural) {
        throw DataError({}, {.where = "safetensors",
                             .expected = "an array of natural numbers",
                             .got = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)});
    }
    return json.get<Shape>();
}

// The other types of the format: what reads only DTypes refuses them by name.
struct TypeSize {
    std::string_view name;
    std::uint64_t bytes;
};
constexpr TypeSize kOtherTypes[] = {{"BOOL", 1}, {"I8", 1}, {"I16", 2}, {"U16", 2}, {"U32", 4}, {"U64", 8}};

std::optional<std::uint64_t> size_of_name(std::string_view name) {
    if (const std::optional<DType> dtype = safetensors_dtype(name)) {
        return item_size(*dtype);
    }
    const auto* const found = std::ranges::find(kOtherTypes, name, &TypeSize::name);
    return found == std::end(kOtherTypes) ? std::nullopt : std::optional(found->bytes);
}

constexpr std::uint64_t kMaxSide = std::uint64_t{1} << 31;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // as the reference implementation limits it
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 62;
constexpr const char* kMetadata = "__metadata__";

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "safetensors", .expected = std::move(expected), .got = std::move(got)});
}

// Invalid UTF-8 of the header is replaced: dump() would throw.
std::string shown(const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

SafetensorsEntry parse_entry(const std::string& name, const nlohmann::ordered_json& json,
                             std::span<const std::byte> data) {
    SafetensorsEntry entry{.name = name, .dtype = json.at("dtype").get<std::string>(), .shape = {}, .bytes = {}};
    const std::optional<std::uint64_t> item_bytes = size_of_name(entry.dtype);
    if (!item_bytes) {
        refuse(fmt::format("a known dtype for {}", name), entry.dtype);
    }
    entry.shape = natural_numbers(json.at("shape"));
    std::uint64_t elements = 1;
    for (const auto side : entry.shape) {
        const auto length = static_cast<std::uint64_t>(side);
        // A side of a tensor without elements is held by no byte of the file: it needs a bound of its own.
        if (length > kMaxSide) {
            refuse(fmt::format("sides up to {} for {}", kMaxSide, name), shown(json.at("shape")));
        }
        if (length != 0 && elements > data.size() / length) {
            refuse(fmt::format("a shape within the file for {}", name), shown(json.at("shape")));
        }
        elements *= length;
    }
    const Shape offsets = natural_numbers(json.at("data_offsets"));
    if (offsets.size() != 2) {
        refuse(fmt::format("two data_offsets for {}", name), shown(json.at("data_offsets")));
    }
    const auto begin = static_cast<std::uint64_t>(offsets[0]);
    const auto end = static_cast<std::uint64_t>(offsets[1]);
    if (begin > end || end > data.size() || end - begin != elements * *item_bytes) {
        refuse(fmt::format("data_offsets of {} to fit its shape and the file", name), shown(json.at("data_offsets")));
    }
    entry.bytes = data.subspan(begin, end - begin);
    return entry;
}

[[noreturn]] void refuse_cut(std::uint64_t size, std::uint64_t least, const char* at_least) {
    refuse("a complete safetensors file",
           fmt::format("one that ends after {} of {}{} bytes: copied incompletely?", size, at_least, least));
}

std::uint64_t header_length(std::span<const std::byte> bytes) {
    std::uint64_t length = 0;
    const std::string_view start{reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 9)};
    const bool header = start.size() == 9 && start.back() == '{';  // a length may begin like anything
    if (!header && (start.starts_with("PK\3\4") || start.starts_with("\x80\x02"))) {
        refuse("a safetensors file", "one as torch.save writes; save it with safetensors.torch.save_file");
    }
    if (bytes.size() < sizeof length) {
        refuse("a safetensors file", fmt::format("a file of {} bytes", bytes.size()));
    }
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > kMaxHeader) {
        refuse("a safetensors file", "one that does not begin as such");
    }
    if (length > bytes.size() - sizeof length) {
        if (bytes.size() > sizeof length && !header) {
            refuse("a safetensors file", "one that does not begin as such");
        }
        refuse_cut(bytes.size(), sizeof length + length, "at least ");
    }
    return length;
}

// Whether the file reaches as far as its tensors do; what is wrong with a header otherwise, each tensor tells.
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
        refuse_cut(size, begin + end, "");
    }
}

// Anything but texts has no place there.
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
    const auto* const found = std::ranges::find_if(kTypes, [&](const TypeName& known) { return name == known.name; });
    return found == std::end(kTypes) ? std::nullopt : std::optional(found->dtype);
}

std::uint64_t write_safetensors(const std::filesystem::path& path, const std::vector<NamedView>& tensors,
                                const SafetensorsMetadata& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) {
        header[kMetadata] = metadata;
    }
    std::uint64_t offset = 0;
    for (const auto& tensor : tensors) {
        const std::uint64_t end = offset + tensor.view.bytes();
        header[tensor.name] = {
            {"dtype", type_name(tensor.view.dtype)}, {"shape", tensor.view.shape}, {"data_offsets", {offset, end}}};
        offset = end;
    }
    // A class may have the name of a folder, which need not be UTF-8.
    std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();

    std::vector<std::span<const std::byte>> pieces;
    pieces.push_back(std::as_bytes(std::span(&length, 1)));
    pieces.push_back(as_bytes(text));
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
    const auto header = nlohmann::ordered_json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
    if (!header.is_object()) {
        refuse("a safetensors file, whose header is a JSON object", "something else");
    }
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
            refuse(fmt::format("dtype, shape and data_offsets for {}", name), error.what());
        }
    }
    return entries;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
    try {
        for (SafetensorsEntry& entry : parse_safetensors(file_.bytes(), &metadata_)) {
            const std::optional<DType> dtype = safetensors_dtype(entry.dtype);
            if (!dtype) {
                refuse(fmt::format("a tensor of a type that Stoker computes with for {}", entry.name), entry.dtype);
            }
            by_name_.emplace(entry.name, tensors_.size());
            // The map is read-only; views have no const flavour, and readers copy out of them.
            auto* begin = const_cast<std::byte*>(entry.bytes.data());
            tensors_.push_back({std::move(entry.name), {begin, *dtype, std::move(entry.shape)}});
        }
    } catch (const DataError& error) {
        throw error.located({.path = path_.string()});
    }
}

const TensorView& SafetensorsFile::at(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
        throw DataError({.path = path_.string()}, {.where = "safetensors",
                                                   .expected = "a tensor named " + name,
                                                   .got = fmt::format("{} others", tensors_.size())});
    }
    return tensors_[found->second].view;
}

}  // namespace stoker
