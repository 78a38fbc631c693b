// Braces are parsed into parts first, so that the number of names is known before any is made.
#include "stoker/formats/shard_names.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>
#include <unordered_map>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/url_secrets.h"
#include "stoker/formats/image_kind.h"
#include "stoker/io/byte_file.h"
#include "stoker/io/remote/remote_listing.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTar = ".tar";
constexpr std::array<std::string_view, 12> kCompressed = {".tar.gz",  ".tgz",      ".tar.zst",  ".tzst",
                                                          ".tar.xz",  ".txz",      ".tar.bz2",  ".tbz2",
                                                          ".tar.lz4", ".tar.zstd", ".tar.lzma", ".tar.Z"};

// Literal text (one choice), a list of choices, or a range of numbers.
struct Part {
    std::vector<std::string_view> choices = {};
    std::uint64_t first = 0;
    std::uint64_t count = 0;  // of a range's numbers; 0 for text and lists
    std::size_t width = 0;

    std::uint64_t size() const { return count == 0 ? choices.size() : count; }
    void append_to(std::string& name, std::uint64_t at) const {
        if (count == 0) {
            name += choices[static_cast<std::size_t>(at)];
        } else {
            name += fmt::format("{:0{}}", first + at, width);
        }
    }
};

[[noreturn]] void refuse(std::string_view spec, std::string expected, std::string got) {
    throw InvalidArgument({.where = shown_name(spec), .expected = std::move(expected), .got = std::move(got)});
}

std::uint64_t range_end(std::string_view spec, std::string_view text) {
    const auto value = parse_number<std::uint64_t>(text);
    if (!value || text.size() > 18) {
        refuse(spec, "numbers of at most 18 digits on both sides of \"..\"", fmt::format("\"{}\"", text));
    }
    return *value;
}

Part parse_range(std::string_view spec, std::string_view text, std::size_t dots) {
    const std::string_view low = text.substr(0, dots);
    const std::string_view high = text.substr(dots + 2);
    Part part{.first = range_end(spec, low)};
    const std::uint64_t last = range_end(spec, high);
    if (last < part.first) {
        refuse(spec, "ranges that count upwards", fmt::format("{{{}}}", text));
    }
    part.count = last - part.first + 1;
    const auto is_padded = [](std::string_view end) { return end.size() > 1 && end.front() == '0'; };
    part.width = is_padded(low) || is_padded(high) ? std::max(low.size(), high.size()) : 0;
    return part;
}

Part parse_brace(std::string_view spec, std::string_view text) {
    if (text.find('{') != std::string_view::npos) {
        refuse(spec, "braces side by side", "braces within braces");
    }
    Part part;
    if (text.find(',') == std::string_view::npos) {
        const std::size_t dots = text.find("..");
        if (dots == std::string_view::npos) {
            refuse(spec, "braces such as {000000..000127} or {a,b,c}", fmt::format("{{{}}}", text));
        }
        return parse_range(spec, text, dots);
    }
    for (std::size_t comma = 0; comma != std::string_view::npos;) {
        comma = text.find(',');
        part.choices.push_back(text.substr(0, comma));
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    return part;
}

std::vector<Part> parse(std::string_view spec) {
    std::vector<Part> parts;
    std::string_view rest = spec;
    while (!rest.empty()) {
        const std::size_t open = std::min(rest.find_first_of("{}"), rest.size());
        if (open > 0) {
            parts.push_back({.choices = {rest.substr(0, open)}});
            rest.remove_prefix(open);
            continue;
        }
        const std::size_t close = rest.find('}');
        if (close == std::string_view::npos || close == 0) {
            refuse(spec, "each { to be closed by a }", "one without the other");
        }
        parts.push_back(parse_brace(spec, rest.substr(1, close - 1)));
        rest.remove_prefix(close + 1);
    }
    return parts;
}

std::vector<std::string> expand_glob(const std::string& pattern) {
    glob_t found{};
    errno = 0;
    const int status = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found);
    const bool none = status == GLOB_NOMATCH || status == 0 || errno == ENOENT;  // ENOENT: the folder is missing
    std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (status != 0 || names.empty()) {
        throw IoError({.where = pattern,
                       .expected = "files that match the pattern",
                       .got = none ? "none" : "a folder that cannot be read"});
    }
    std::ranges::sort(names);
    return names;
}

std::vector<std::string> expand_remote(const std::string& spec, const std::string& pattern,
                                       const RemoteOptions& options) {
    if (!can_list(pattern)) {
        refuse(spec, "braces, as in shard-{000..127}.tar: the files behind http(s):// cannot be listed", "a pattern");
    }
    std::vector<std::string> names;
    for (RemoteEntry& file : match_remote(pattern, options)) {
        names.push_back(std::move(file.name));
    }
    return names;
}

bool is_tar_name(std::string_view name) {
    return name.ends_with(kTar);
}

}  // namespace

std::vector<std::string> shards_in(const std::string& folder, bool (*is_shard)(std::string_view name)) {
    std::vector<std::string> names;
    std::error_code error;
    std::error_code unknown;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        // The listing holds the type: no stat for each of up to a million shards.
        if (is_shard(name) && !name.starts_with('.') && !entry->is_directory(unknown)) {
            names.push_back(entry->path().string());
        }
    }
    if (error) {
        throw errno_error(folder, "a readable folder", error.value());
    }
    std::ranges::sort(names);
    return names;
}

namespace {

// In it, or up to `levels` of folders below.
bool holds_image(const fs::path& folder, int levels) {
    std::error_code error;
    std::vector<fs::path> folders;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code unknown;
        const std::string name = entry->path().filename().string();
        if (is_hidden_name(name)) {
            continue;
        }
        if (is_image_name(name)) {
            return true;
        }
        if (levels > 0 && entry->is_directory(unknown)) {
            folders.push_back(entry->path());
        }
    }
    return std::ranges::any_of(folders, [&](const fs::path& inner) { return holds_image(inner, levels - 1); });
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view spec) {
    const std::vector<Part> parts = parse(spec);
    std::uint64_t count = 1;
    for (const Part& part : parts) {
        if (part.size() > kMaxShards / count) {
            refuse(spec, fmt::format("at most {} names", kMaxShards), "more");
        }
        count *= part.size();
    }
    std::vector<std::string> names(static_cast<std::size_t>(count));
    std::uint64_t below = count;  // consecutive names that share the same beginning
    for (const Part& part : parts) {
        below /= part.size();
        for (std::uint64_t i = 0; i < count; ++i) {
            part.append_to(names[static_cast<std::size_t>(i)], i / below % part.size());
        }
    }
    return names;
}

std::string first_of_braces(std::string_view spec) {
    std::string name;
    for (const Part& part : parse(spec)) {
        part.append_to(name, 0);
    }
    return name;
}

std::vector<std::string> shard_names(const std::string& spec, const RemoteOptions& remote) {
    std::error_code unknown;
    if (!is_remote(spec) && is_folder(spec)) {
        return shards_in(spec, is_tar_name);
    }
    if (!is_remote(spec) && fs::exists(spec, unknown)) {
        return {spec};
    }
    std::vector<std::string> names;
    for (std::string& name : expand_braces(spec)) {
        const bool pattern =
            is_remote(name) ? name.find('*') != std::string::npos : name.find_first_of("*?[") != std::string::npos;
        if (!pattern || (!is_remote(name) && fs::exists(name, unknown))) {
            names.push_back(std::move(name));
            continue;
        }
        std::vector<std::string> found = is_remote(name) ? expand_remote(spec, name, remote) : expand_glob(name);
        if (found.size() > kMaxShards - names.size()) {
            refuse(spec, fmt::format("at most {} names", kMaxShards), "more");
        }
        std::ranges::move(found, std::back_inserter(names));
    }
    return names;
}

std::string_view without_query(std::string_view spec) {
    return is_remote(spec) && !names_object(spec) ? spec.substr(0, spec.find_first_of("?#")) : spec;
}

void make_unique(std::vector<std::string>& names) {
    std::unordered_map<std::string, int> counts;
    for (const std::string& name : names) {
        ++counts[name];
    }
    for (std::size_t at = 0; counts.size() < names.size() && at < names.size(); ++at) {
        if (const auto found = counts.find(names[at]); found->second > 1) {
            do {
                names[at] += fmt::format("#{}", at);
            } while (counts.contains(names[at]));
        }
    }
}

bool is_tar_spec(const std::string& spec) {
    std::string name(without_query(spec));
    const auto fits = [&](std::string_view ending) { return name.ends_with(ending); };
    if (fits(kTar) || std::ranges::any_of(kCompressed, fits)) {
        return true;
    }
    if (!name.ends_with('}')) {
        return false;
    }
    try {
        name = first_of_braces(name);
    } catch (const InvalidArgument&) {  // invalid braces
        return false;
    }
    return fits(kTar);
}

bool is_tar_folder(const std::string& path) {
    return is_shard_folder(path, is_tar_name);
}

bool is_shard_folder(const std::string& path, bool (*is_shard)(std::string_view name)) {
    std::error_code error;
    std::vector<fs::path> folders;
    bool found = false;
    for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code unknown;
        const std::string name = entry->path().filename().string();
        if (is_hidden_name(name)) {
            continue;
        }
        if (entry->is_directory(unknown)) {
            folders.push_back(entry->path());
        } else {
            found = found || is_shard(name);
        }
    }
    constexpr int kLevels = 3;
    return found && std::ranges::none_of(folders, [](const fs::path& folder) { return holds_image(folder, kLevels); });
}

}  // namespace stoker
