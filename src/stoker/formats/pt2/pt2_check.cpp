// LibTorch's zip reader (miniz) ignores case in names, and takes the last end record even if its comment does not reach
// the end of the file. A file that it could read otherwise than ours is refused.
#include "stoker/formats/pt2/pt2_check.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/formats/pt2/pt2_graph.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

[[noreturn]] void damaged(std::string expected, std::string got) {
    throw DataError({.path = ""}, {.where = "pt2", .expected = std::move(expected), .got = std::move(got)});
}

constexpr std::array<std::string_view, 2> kGraphs = {"train", "eval"};
// The texts that PyTorch's writer adds, and Stoker's own members.
constexpr std::array<std::string_view, 8> kOther = {
    "archive_format", "archive_version",        "byteorder",         "version",
    ".data/version",  ".data/serialization_id", "extra/stoker.json", "extra/weights.safetensors"};
constexpr std::array<std::string_view, 2> kTensorFolders = {"data/weights/", "data/constants/"};

std::string model_name(std::string_view graph) {
    return fmt::format("models/{}.json", graph);
}

// For each tensor folder.
std::string config_name(std::string_view folder, std::string_view graph) {
    return fmt::format("{}{}_{}_config.json", folder, graph, folder.substr(5, folder.size() - 6));
}

// "weight_0", "tensor_12".
bool is_tensor_name(std::string_view name) {
    const std::size_t digits = name.find('_') + 1;
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return (name.starts_with("weight_") || name.starts_with("tensor_")) && name.size() > digits &&
           std::ranges::all_of(name.substr(digits), is_digit);
}

bool is_expected(std::string_view name, std::uint64_t size) {
    if (std::ranges::find(kOther, name) != kOther.end()) {
        return true;
    }
    for (const std::string_view graph : kGraphs) {
        if (name == model_name(graph) || (name == fmt::format("data/sample_inputs/{}.pt", graph) && size == 0)) {
            return true;
        }
    }
    return std::ranges::any_of(kTensorFolders, [&](std::string_view folder) {
        return name.starts_with(folder) &&
               (is_tensor_name(name.substr(folder.size())) || std::ranges::any_of(kGraphs, [&](std::string_view graph) {
                    return name == config_name(folder, graph);
                }));
    });
}

// The end record must be the last bytes of the file, so that no other one can follow.
void require_one_directory(const ZipFile& zip) {
    constexpr std::size_t kEndBytes = 22;
    constexpr std::string_view kEnd("PK\5\6", 4);
    const auto bytes = zip.bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.size() < kEndBytes || !text.substr(text.size() - kEndBytes).starts_with(kEnd) ||
        !text.ends_with(std::string_view("\0\0", 2))) {
        damaged("a zip file that ends with its directory", "a comment after it");
    }
}

void require_members(const ZipFile& zip, const std::string& folder) {
    if (zip.folders() > 0) {
        damaged("members that are files", "an entry of a folder");
    }
    std::set<std::string> names;
    for (const ZipEntry& entry : zip.entries()) {
        const std::string_view name = std::string_view(entry.name).substr(folder.size());
        if (!is_expected(name, entry.size)) {
            refuse_native("a member " + in_quotes(name));
        }
        zip.stored(entry);  // torch.export compresses nothing, and a short file must not become a large one
        if (!names.insert(lower_case(name)).second) {
            damaged("names of members that differ by more than case", in_quotes(name) + " twice");
        }
    }
}

Json read_json(const ZipFile& zip, const std::string& name) {
    const ZipEntry* entry = zip.find(name);
    if (entry == nullptr) {
        damaged("a member " + in_quotes(name), "none");
    }
    return parse_unambiguous_json(zip.stored(*entry), name);
}

StoredTensors stored_tensors(const ZipFile& zip, const std::string& folder, std::string_view graph) {
    StoredTensors tensors;
    for (const std::string_view tensor_folder : kTensorFolders) {
        const Json config = read_json(zip, folder + config_name(tensor_folder, graph));
        for (const auto& [name, tensor] : config.at("config").items()) {
            const auto member = tensor.at("path_name").get<std::string>();
            if (tensor.at("use_pickle").get<bool>() || !is_tensor_name(member)) {
                refuse_native("a pickled object " + in_quotes(name));
            }
            const ZipEntry* entry = zip.find(fmt::format("{}{}{}", folder, tensor_folder, member));
            if (entry == nullptr || !tensors.emplace(name, entry->size).second) {
                damaged("one member for " + in_quotes(name), entry == nullptr ? "none" : "two");
            }
            require_stored(tensor.at("tensor_meta"), name, entry->size);
        }
    }
    return tensors;
}

}  // namespace

std::string pt2_folder(const ZipFile& zip) {
    const std::string_view first = zip.entries().empty() ? std::string_view() : zip.entries().front().name;
    std::string folder(first.substr(0, first.find('/') + 1));
    const auto is_odd = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\\' || c == 0x7f; };
    if (folder.size() < 2 || std::ranges::any_of(folder, is_odd)) {
        damaged("members below a folder", in_quotes(first));
    }
    for (const ZipEntry& entry : zip.entries()) {
        if (!entry.name.starts_with(folder)) {
            damaged("members below " + in_quotes(folder), in_quotes(entry.name));
        }
    }
    return folder;
}

void require_plain_graphs(const ZipFile& zip) {
    require_one_directory(zip);
    const std::string folder = pt2_folder(zip);
    require_members(zip, folder);
    for (const std::string_view graph : kGraphs) {
        try {
            const StoredTensors tensors = stored_tensors(zip, folder, graph);
            require_plain_graph(read_json(zip, folder + model_name(graph)), std::string(graph), tensors);
        } catch (const Json::exception& error) {
            damaged(fmt::format("a graph {:?} of torch.export", graph), error.what());
        }
    }
}

}  // namespace stoker
