// Finds and reads the file of class names next to shards. A set's own name may end in a number, as "imagenet2012" of
// imagenet2012.tar does, so the full name is tried first; then "train-000000" without its shard number and separator.
#include "stoker/formats/class_names.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/checked_growth.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxBytes = std::uintmax_t{1} << 26;

// The possible names of the set, the longest first: "x--7", "x-", "x" for the stem "x--7".
std::vector<std::string> set_names(const std::string& stem) {
    std::vector<std::string> names = {stem};
    const std::size_t number = stem.find_last_not_of("0123456789") + 1;
    std::string_view name = std::string_view(stem).substr(0, number);
    const auto ends_in_separator = [&] {
        return !name.empty() && std::string_view("-_.").find(name.back()) != name.npos;
    };
    if (number < stem.size()) {
        while (ends_in_separator()) {
            name.remove_suffix(1);
            if (ends_in_separator()) {
                names.emplace_back(name);
            }
        }
        names.emplace_back(name);
    }
    std::erase(names, "");
    return names;
}

}  // namespace

std::vector<fs::path> class_name_files(const fs::path& first_shard) {
    const fs::path folder = first_shard.parent_path();
    std::vector<fs::path> files;
    for (const std::string& name : set_names(first_shard.stem().string())) {
        files.push_back(folder / (name + "-classes.txt"));
    }
    files.push_back(folder / "classes.txt");
    return files;
}

std::string class_text(const fs::path& file) {
    std::error_code unknown;
    if (const auto bytes = fs::file_size(file, unknown); !unknown && bytes > kMaxBytes) {
        throw DataError({.path = file.string()}, {.where = "classes",
                                                  .expected = fmt::format("at most {} bytes", kMaxBytes),
                                                  .got = fmt::format("{}", bytes)});
    }
    return read_text(file);
}

std::vector<std::string> read_class_names(const fs::path& first_shard, std::int64_t largest_label) {
    return read_class_names(class_name_files(first_shard), largest_label);
}

std::vector<std::string> read_class_names(std::span<const fs::path> files, std::int64_t largest_label) {
    std::error_code unknown;
    std::vector<std::string> names;
    for (const fs::path& file : files) {
        if (!fs::exists(file, unknown)) {
            continue;
        }
        const auto refuse = [&](std::string expected, std::string got) {
            throw DataError({.path = file.string()},
                            {.where = "classes", .expected = std::move(expected), .got = std::move(got)});
        };
        const std::string text = class_text(file);
        std::string_view rest = std::string_view(text).substr(0, text.find_last_not_of(" \t\r\n") + 1);
        while (!rest.empty()) {
            const std::size_t end = std::min(rest.find('\n'), rest.size());
            std::string_view line = rest.substr(0, end);
            rest.remove_prefix(std::min(end + 1, rest.size()));
            line = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
            if (line.empty()) {
                refuse("a class name on each line", fmt::format("an empty line after {} names", names.size()));
            }
            push_checked(names, std::string(line));
        }
        if (static_cast<std::int64_t>(names.size()) <= largest_label) {
            refuse(fmt::format("a line for each class from 0 to {}", largest_label),
                   fmt::format("{} lines", names.size()));
        }
        return names;
    }
    return names;
}

std::vector<std::string> numbered_classes(std::int64_t count) {
    std::vector<std::string> classes;
    for (std::int64_t label = 0; label < count && count <= kMaxNumberedClasses; ++label) {
        classes.push_back(std::to_string(label));
    }
    return classes;
}

std::vector<std::string> numbered_classes_of(std::span<const std::int64_t> labels) {
    const std::int64_t largest = labels.empty() ? -1 : *std::ranges::max_element(labels);
    return largest < kMaxNumberedClasses ? numbered_classes(largest + 1) : std::vector<std::string>();
}

}  // namespace stoker
