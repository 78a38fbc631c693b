// Writers sort the members of the index, so that its first kilobytes hold members of a shard.
#include "stoker/formats/index_json.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/shard_names.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "index.json";
constexpr std::uint64_t kMostIndex = std::uint64_t{1} << 30;

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "index", .expected = std::move(expected), .got = std::move(got)});
}

std::optional<IndexKind> kind_in(const fs::path& path) {
    constexpr std::size_t kHead = std::size_t{64} << 10;
    const File file(path);
    std::string head(std::min<std::uint64_t>(file.info().size, kHead), '\0');
    file.read(0, std::as_writable_bytes(std::span(head)));
    const auto holds = [&](const char* name) { return head.find(name) != std::string::npos; };
    if (holds("\"shards\"") && holds("\"raw_data\"")) {
        return IndexKind::mds;
    }
    return holds("\"chunks\"") && holds("\"chunk_size\"") ? std::optional(IndexKind::litdata) : std::nullopt;
}

std::optional<IndexKind> sniff(const fs::path& path) {
    if (!is_file(path)) {
        return std::nullopt;
    }
    try {
        return kind_in(path);
    } catch (const IoError&) {
        if (is_file(path)) {
            throw;
        }
        return std::nullopt;  // removed since
    }
}

std::optional<FoundIndex> in_folder(const fs::path& folder, bool split) {
    const fs::path path = folder / kName;
    const auto kind = sniff(path);
    return kind ? std::optional(FoundIndex{.path = path.string(), .kind = *kind, .split = split}) : std::nullopt;
}

template <std::size_t N>
std::optional<FoundIndex> in_subfolder(const fs::path& folder, const std::array<const char*, N>& names) {
    for (const char* name : names) {
        if (auto found = in_folder(folder / name, true)) {
            return found;
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<FoundIndex> find_index(const std::string& data, Split split) {
    constexpr std::array kTrain = {"train", "training"};
    constexpr std::array kTest = {"val", "validation", "test", "testing"};
    if (is_remote(data)) {
        return std::nullopt;
    }
    const fs::path path(data);
    if (path.filename() == kName) {
        const auto kind = sniff(path);
        return kind ? std::optional(FoundIndex{.path = data, .kind = *kind}) : std::nullopt;
    }
    if (!is_folder(path)) {
        return std::nullopt;
    }
    if (auto found = in_folder(path, false)) {
        return found;
    }
    auto train = in_subfolder(path, kTrain);
    auto test = in_subfolder(path, kTest);
    return train && test ? (split == Split::train ? train : test) : std::nullopt;
}

bool may_be_index_url(std::string_view url) {
    std::string_view name = without_query(url);
    if (!is_remote(url) || name.ends_with('/')) {
        return is_remote(url);
    }
    name.remove_prefix(name.rfind('/') + 1);
    return name == kName || name.find('.') == std::string_view::npos;
}

std::string index_url(std::string_view url) {
    const std::string_view folder = without_query(url);
    if (folder.ends_with(fmt::format("/{}", kName))) {
        return std::string(url);
    }
    return fmt::format("{}{}{}{}", folder, folder.ends_with('/') ? "" : "/", kName, url.substr(folder.size()));
}

std::string next_to_index(const std::string& index, std::string_view name) {
    const fs::path path{std::string(name)};
    const bool leaves = std::ranges::any_of(path, [](const fs::path& part) { return part == ".."; });
    if (name.empty() || leaves || path.is_absolute() || name.ends_with('/') ||
        name.find('\0') != std::string_view::npos || name.find("://") != std::string_view::npos) {
        refuse("the name of a file in the folder of the index", fmt::format("{:?}", name));
    }
    const std::string_view file = without_query(index);
    const std::size_t slash = file.rfind('/');
    const std::string_view folder = file.substr(0, slash == std::string_view::npos ? 0 : slash + 1);
    const bool url = file.starts_with("http://") || file.starts_with("https://");  // other stores have keys
    return fmt::format("{}{}{}", folder, url ? percent_encode(name, "/") : name,
                       std::string_view(index).substr(file.size()));
}

std::string shown_folder(const std::string& index) {
    const std::string shown = shown_name(without_query(index));
    const std::size_t slash = shown.rfind('/');
    return slash == std::string::npos ? "." : shown.substr(0, std::max<std::size_t>(slash, 1));
}

nlohmann::json read_index(const ByteFile& file) {
    return with_place({.path = shown_name(file.name())}, [&] {
        if (file.size() > kMostIndex) {
            refuse(fmt::format("an index of at most {} bytes", kMostIndex), fmt::format("{}", file.size()));
        }
        require_json_memory(static_cast<std::size_t>(file.size()));
        std::string text(static_cast<std::size_t>(file.size()), '\0');
        file.read(0, std::as_writable_bytes(std::span(text)));
        auto index = parse_json<nlohmann::json>(text);
        if (!index.is_object()) {
            refuse("a JSON object", "other bytes");
        }
        return index;
    });
}

IndexKind index_kind(const nlohmann::json& index) {
    if (index.contains("shards")) {
        return IndexKind::mds;
    }
    if (!index.contains("chunks") || !index.contains("config")) {
        refuse("\"shards\", as MDS has, or \"chunks\" and \"config\", as LitData has", "neither");
    }
    return IndexKind::litdata;
}

const nlohmann::json& json_member(const nlohmann::json& object, const char* name) {
    const nlohmann::json* found = json_optional_member(object, name);
    if (found == nullptr) {
        refuse(fmt::format("a member \"{}\"", name), "none");
    }
    return *found;
}

std::string json_text_member(const nlohmann::json& object, const char* name) {
    const nlohmann::json& value = json_member(object, name);
    if (!value.is_string()) {
        refuse(fmt::format("text as \"{}\"", name), value.type_name());
    }
    return value.get<std::string>();
}

std::uint64_t json_natural_member(const nlohmann::json& object, const char* name, std::uint64_t most) {
    const nlohmann::json& value = json_member(object, name);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
        refuse(fmt::format("a natural number up to {} as \"{}\"", most, name), json_text(value).substr(0, 40));
    }
    return value.get<std::uint64_t>();
}

const nlohmann::json* json_optional_member(const nlohmann::json& object, const char* name) {
    if (!object.is_object()) {
        refuse(fmt::format("an object with \"{}\"", name), object.type_name());
    }
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace stoker
