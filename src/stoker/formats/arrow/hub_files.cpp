#include "stoker/formats/arrow/hub_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <system_error>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/arrow/hub_card.h"
#include "stoker/formats/folder_walk.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/shard_names.h"
#include "stoker/io/remote/remote_listing.h"
#include "stoker/io/remote/remote_pattern.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kState = "state.json";
constexpr std::string_view kDict = "dataset_dict.json";
constexpr std::string_view kCard = "README.md";
constexpr int kDeepest = 5;
constexpr std::size_t kMostNames = 1'000'000;
constexpr std::uint64_t kMostText = 16 << 20;  // of a remote file

struct SplitWords {
    std::string_view split;
    std::array<std::string_view, 4> words;
};
// As datasets names them.
constexpr SplitWords kSplits[] = {{"train", {"train", "training"}},
                                  {"validation", {"validation", "valid", "dev", "val"}},
                                  {"test", {"test", "testing", "eval", "evaluation"}}};

bool is_separator(char c) {
    return std::string_view("-._ /0123456789").find(c) != std::string_view::npos;
}

bool has_word(std::string_view text, std::string_view word) {
    for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
        const std::size_t end = at + word.size();
        if ((at == 0 || is_separator(text[at - 1])) && (end == text.size() || is_separator(text[end]))) {
            return true;
        }
    }
    return false;
}

std::string_view split_in(std::string_view text) {
    for (const SplitWords& one : kSplits) {
        for (const std::string_view word : one.words) {
            if (!word.empty() && has_word(text, word)) {
                return one.split;
            }
        }
    }
    return {};
}

// The splits that stand for one of ours, in order of preference.
using Wanted = std::vector<std::string_view>;
Wanted wanted_splits(Split split, bool validation) {
    return split == Split::train ? Wanted{"train"}
           : validation          ? Wanted{"validation", "test"}
                                 : Wanted{"test", "validation"};
}

bool is_data(std::string_view name) {
    return is_parquet_name(name) || is_arrow_name(name);
}

nlohmann::json json_of(const HubListing& listing, const std::string& name) {
    auto json = parse_json<nlohmann::json>(listing.read_text(name));
    if (!json.is_object()) {
        throw DataError({.path = name}, {.where = "json", .expected = "an object", .got = "another value"});
    }
    return json;
}

bool has(const HubListing& listing, std::string_view name) {
    return std::ranges::find(listing.names, name) != listing.names.end();
}

// The files of save_to_disk in `folder`, "" or "train/".
std::vector<std::string> state_files(const HubListing& listing, const std::string& folder) {
    const nlohmann::json state = json_of(listing, folder + std::string(kState));
    std::vector<std::string> files;
    const auto listed = state.find("_data_files");
    if (listed == state.end() || !listed->is_array()) {
        throw DataError({.path = folder + std::string(kState)},
                        {.where = "json", .expected = "_data_files", .got = "none"});
    }
    for (const auto& file : *listed) {
        const auto name = file.is_object() ? file.find("filename") : file.end();
        const std::string text =
            file.is_object() && name != file.end() && name->is_string() ? name->get<std::string>() : "";
        if (text.empty() || text.find('/') != std::string::npos || !has(listing, folder + text)) {
            throw DataError(
                {.path = folder + std::string(kState)},
                {.where = "_data_files", .expected = "a file of the folder", .got = fmt::format("{:?}", text)});
        }
        files.push_back(folder + text);
    }
    return files;
}

std::vector<std::string> saved_files(const HubListing& listing, const Wanted& wanted) {
    if (has(listing, kState)) {
        return wanted.front() == "train" ? state_files(listing, "") : std::vector<std::string>{};
    }
    for (const std::string_view split : wanted) {
        for (const std::string& name : listing.names) {
            const std::size_t folder = name.find('/');
            if (folder != std::string::npos && name.substr(folder + 1) == kState &&
                split_in(std::string_view(name).substr(0, folder)) == split) {
                return state_files(listing, name.substr(0, folder + 1));
            }
        }
    }
    return {};
}

const HubConfig* default_config(const std::vector<HubConfig>& configs) {
    std::vector<std::string> names;
    for (const HubConfig& config : configs) {
        if (config.is_default || config.name == "default" || configs.size() == 1) {
            return &config;
        }
        names.push_back(config.name);
    }
    throw DataError({.path = std::string(kCard)},
                    {.where = "configs",
                     .expected = "one configuration, or one that is the default",
                     .got = fmt::format("{}", fmt::join(names, ", ")),
                     .hint = "give a pattern of its files, such as folder/NAME/train-*.parquet"});
}

std::vector<std::string> card_files(const HubListing& listing, const HubConfig& config, const Wanted& wanted) {
    std::vector<std::string> files;
    for (const std::string_view name : wanted) {
        for (const HubDataFiles& data : config.files) {
            if (split_in(data.split) != name) {
                continue;
            }
            for (const std::string& pattern : data.patterns) {
                const RemotePattern parts(pattern);
                std::vector<std::string> found;
                std::ranges::copy_if(listing.names, std::back_inserter(found),
                                     [&](const std::string& file) { return is_data(file) && parts.matches(file); });
                std::ranges::sort(found);
                files.insert(files.end(), found.begin(), found.end());
            }
        }
        if (!files.empty()) {
            return files;
        }
    }
    return files;
}

std::vector<std::string> named_files(const HubListing& listing, const Wanted& wanted_ones) {
    std::vector<std::string> data;
    std::ranges::copy_if(listing.names, std::back_inserter(data), is_data);
    std::ranges::sort(data);
    const bool unnamed = std::ranges::all_of(data, [](const std::string& name) { return split_of_name(name).empty(); });
    if (unnamed) {
        return wanted_ones.front() == "train" ? data : std::vector<std::string>{};
    }
    for (const std::string_view wanted : wanted_ones) {
        std::vector<std::string> files;
        std::ranges::copy_if(data, std::back_inserter(files),
                             [&](const std::string& name) { return split_of_name(name) == wanted; });
        if (!files.empty()) {
            return files;
        }
    }
    return {};
}

// A link to a folder above it.
bool leads_up(const fs::directory_entry& entry) {
    std::error_code unknown;
    if (!entry.is_symlink(unknown)) {
        return false;
    }
    const std::string target = fs::canonical(entry.path(), unknown).string() + "/";
    const std::string from = fs::canonical(entry.path().parent_path(), unknown).string() + "/";
    return from.starts_with(target);
}

void list(const fs::path& folder, const std::string& prefix, int depth, std::vector<std::string>& names) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        std::error_code unknown;
        if (is_hidden_name(name)) {
            continue;
        }
        if (entry->is_directory(unknown)) {
            if (depth < kDeepest && !leads_up(*entry)) {
                list(entry->path(), prefix + name + "/", depth + 1, names);
            }
        } else if (is_data(name) || name == kState || name == kDict || prefix + name == kCard) {
            names.push_back(prefix + name);
        }
        if (names.size() > kMostNames) {
            throw DataError({.path = folder.string()},
                            {.where = "folder", .expected = "fewer files", .got = fmt::format("over {}", kMostNames)});
        }
    }
    if (error) {
        throw errno_error(folder.string(), "a readable folder", error.value());
    }
}

// The Hub's cache has datasets--ORG--NAME/snapshots/REVISION/, and refs/main names the newest.
std::optional<fs::path> snapshot_of(const fs::path& folder) {
    std::error_code missing;
    const fs::path snapshots = folder / "snapshots";
    if (!fs::is_directory(snapshots, missing)) {
        return std::nullopt;
    }
    const fs::path reference = folder / "refs" / "main";
    if (fs::is_regular_file(reference, missing)) {
        const std::string revision = read_text(reference);
        if (const fs::path named = snapshots / revision.substr(0, revision.find('\n'));
            fs::is_directory(named, missing)) {
            return named;
        }
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(snapshots, missing)) {
        found.push_back(entry.path());
    }
    return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

// Looks at some entries only: a folder of images may have millions. The top folder of a data set has few.
bool begins_with_data(const fs::path& folder, int depth, int left = 10'000) {
    constexpr int kLooked = 256;  // in a folder below
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end && left > 0; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        std::error_code unknown;
        if (is_data(name) || name == kState || name == kDict) {
            return true;
        }
        const bool down = depth > 0 && !is_hidden_name(name) && entry->is_directory(unknown);
        if (down && begins_with_data(entry->path(), depth - 1, kLooked)) {
            return true;
        }
        --left;
    }
    return false;
}

}  // namespace

bool is_parquet_name(std::string_view name) {
    const std::string lower = lower_case(without_query(name));
    return lower.ends_with(".parquet") || lower.ends_with(".pq");
}

bool is_arrow_name(std::string_view name) {
    const std::string lower = lower_case(without_query(name));
    return lower.ends_with(".arrow") || lower.ends_with(".feather");
}

std::string_view split_of_name(std::string_view name) {
    const std::size_t slash = name.rfind('/');
    const std::string_view folders = slash == std::string_view::npos ? std::string_view{} : name.substr(0, slash);
    const std::string_view file = slash == std::string_view::npos ? name : name.substr(slash + 1);
    const std::string_view in_folders = split_in(folders);
    return in_folders.empty() ? split_in(file) : in_folders;
}

std::vector<std::string> hub_split_files(const HubListing& listing, Split split, bool validation) {
    const Wanted wanted = wanted_splits(split, validation);
    if (has(listing, kCard)) {
        if (const auto configs = read_hub_card(listing.read_text(std::string(kCard))); !configs.empty()) {
            const HubConfig& config = *default_config(configs);
            if (!config.files.empty()) {
                return card_files(listing, config, wanted);
            }
        }
    }
    if (has(listing, kState) || has(listing, kDict)) {
        return saved_files(listing, wanted);
    }
    return named_files(listing, wanted);
}

bool is_hub_folder(const std::string& folder) {
    return begins_with_data(snapshot_of(folder).value_or(folder), 2);
}

bool is_hub_repository(std::string_view name) {
    if (!can_list(name) || name.find('*') != std::string_view::npos || is_data(name)) {
        return false;
    }
    constexpr std::string_view kHub = "hf://";
    if (!name.starts_with(kHub)) {
        return name.ends_with('/');
    }
    const auto folders = std::ranges::count(name.substr(kHub.size()), '/');
    const bool plain = name.substr(name.rfind('/')).find('.') == std::string_view::npos;
    return (folders <= 2 || plain) && !is_tar_spec(std::string(name)) && !name.ends_with(".stk");
}

HubListing list_hub_repository(const std::string& folder, const RemoteOptions& options) {
    HubListing listing{.names = {}, .read_text = [folder, options](const std::string& name) {
                           const auto file = open_byte_file(folder + "/" + name, options);
                           if (file->size() > kMostText) {
                               throw DataError({.path = shown_name(file->name())},
                                               {.where = "text",
                                                .expected = fmt::format("at most {} bytes", kMostText),
                                                .got = fmt::to_string(file->size())});
                           }
                           std::string text(file->size(), '\0');
                           file->read(0, std::as_writable_bytes(std::span(text)));
                           return text;
                       }};
    for (const RemoteEntry& file : list_remote(folder, options)) {
        const std::string name = file.name.substr(std::min(folder.size() + 1, file.name.size()));
        if (is_data(name) || name == kCard || fs::path(name).filename() == kState || name == kDict) {
            listing.names.push_back(name);
        }
    }
    return listing;
}

HubListing list_hub_folder(const std::string& folder, std::string& root) {
    root = snapshot_of(folder).value_or(folder).string();
    HubListing listing{.names = {},
                       .read_text = [root](const std::string& name) { return read_text(fs::path(root) / name); }};
    list(root, "", 0, listing.names);
    return listing;
}

}  // namespace stoker
