// Reader and writer of the safetensors layout. The header is padded with spaces, so that tensor
// bytes begin at a multiple of 8 as the reference implementation has it.
#include "stoker/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

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

constexpr std::uint64_t kMaxSide = std::uint64_t{1} << 31;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // as the reference implementation limits it

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedView>& tensors) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::uint64_t offset = 0;
    for (const auto& tensor : tensors) {
        const std::uint64_t end = offset + tensor.view.bytes();
        header[tensor.name] = {
            {"dtype", type_name(tensor.view.dtype)}, {"shape", tensor.view.shape}, {"data_offsets", {offset, end}}};
        offset = end;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();

    std::vector<std::span<const std::byte>> pieces;
    pieces.push_back(std::as_bytes(std::span(&length, 1)));
    pieces.push_back(as_bytes(text));
    for (const auto& tensor : tensors) {
        pieces.emplace_back(tensor.view.data, tensor.view.bytes());
    }
    write_file(path, pieces);
}

void SafetensorsFile::refuse(const std::string& expected, const std::string& got) const {
    throw DataError({.path = path_.string()}, {.where = "safetensors", .expected = expected, .got = got});
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
    const auto bytes = file_.bytes();
    std::uint64_t length = 0;
    if (bytes.size() < sizeof length) {
        refuse("a safetensors header", fmt::format("a file of {} bytes", bytes.size()));
    }
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > kMaxHeader || length > bytes.size() - sizeof length) {
        refuse("a header within the file", fmt::format("{} bytes of header", length));
    }
    const auto data = bytes.subspan(sizeof length + length);
    const auto* text = reinterpret_cast<const char*>(bytes.data() + sizeof length);
    const auto header = nlohmann::ordered_json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
    if (!header.is_object()) {
        refuse("a JSON object as header", "something else");
    }
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") {
            continue;
        }
        try {
            TensorView view;
            const auto type = entry.at("dtype").get<std::string>();
            const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                             [&](const TypeName& known) { return type == known.name; });
            if (found == std::end(kTypes)) {
                refuse(fmt::format("a known dtype for {}", name), type);
            }
            view.dtype = found->dtype;
            view.shape = natural_numbers(entry.at("shape"));
            std::uint64_t elements = 1;
            for (const auto side : view.shape) {
                const auto length_of_side = static_cast<std::uint64_t>(side);
                // A side of a tensor without elements is held by no byte of the file: it needs a bound of its own.
                if (length_of_side > kMaxSide) {
                    refuse(fmt::format("sides up to {} for {}", kMaxSide, name), entry.at("shape").dump());
                }
                if (length_of_side != 0 && elements > data.size() / length_of_side) {
                    refuse(fmt::format("a shape within the file for {}", name), entry.at("shape").dump());
                }
                elements *= length_of_side;
            }
            const Shape offsets = natural_numbers(entry.at("data_offsets"));
            if (offsets.size() != 2) {
                refuse(fmt::format("two data_offsets for {}", name), entry.at("data_offsets").dump());
            }
            const auto begin = static_cast<std::uint64_t>(offsets[0]);
            const auto end = static_cast<std::uint64_t>(offsets[1]);
            if (begin > end || end > data.size() || end - begin != elements * item_size(view.dtype)) {
                refuse(fmt::format("data_offsets of {} to fit its shape and the file", name),
                       entry.at("data_offsets").dump());
            }
            // The map is read-only; views have no const flavour, and readers copy out of them.
            view.data = const_cast<std::byte*>(data.data()) + begin;
            by_name_.emplace(name, tensors_.size());
            tensors_.push_back({name, std::move(view)});
        } catch (const nlohmann::json::exception& error) {
            refuse(fmt::format("dtype, shape and data_offsets for {}", name), error.what());
        } catch (const DataError& error) {
            throw error.located({.path = path_.string()});
        }
    }
}

const TensorView& SafetensorsFile::at(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
        refuse("a tensor named " + name, fmt::format("{} others", tensors_.size()));
    }
    return tensors_[found->second].view;
}

}  // namespace stoker
