// The edit distance by dynamic programming over three rows.
#include "stoker/base/suggest.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <system_error>
#include <vector>

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 64;      // longer text is not a mistyped name
constexpr std::size_t kMostEntries = 10'000;  // of a folder are looked at

// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, no character being
// edited twice (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b) {
    // Row i holds the distances from a[0, i) to every b[0, j).
    std::vector<int> before(b.size() + 1);
    std::vector<int> above(b.size() + 1);
    std::vector<int> row(b.size() + 1);
    std::iota(above.begin(), above.end(), 0);
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = static_cast<int>(i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const int substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        before.swap(above);
        above.swap(row);
    }
    return above[b.size()];
}

// The parts of a path that does not exist: an existing folder, the name that is missing there, and what follows it.
struct MissingPath {
    fs::path folder;
    fs::path name;
    fs::path rest;
};

MissingPath split_missing(const fs::path& path) {
    MissingPath parts;
    std::error_code none;
    for (const fs::path& part : path) {
        if (!parts.name.empty()) {
            parts.rest /= part;
        } else if (fs::exists(parts.folder / part, none)) {
            parts.folder /= part;
        } else {
            parts.name = part;
        }
    }
    return parts;
}

// Hidden files are left out.
std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
         !error && entry != end && names.size() < kMostEntries; entry.increment(error)) {
        if (std::string name = entry->path().filename().string(); !name.starts_with('.')) {
            names.push_back(std::move(name));
        }
    }
    std::ranges::sort(names);
    return names;
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> names) {
    if (name.size() > kLongestName) {
        return {};
    }
    std::string nearest;
    int best = static_cast<int>(kLongestName);
    for (const std::string& candidate : names) {
        const int distance = edit_distance(name, candidate);
        const int allowed = std::max(1, static_cast<int>(candidate.size()) / 3);
        if (distance <= allowed && distance < best) {
            best = distance;
            nearest = candidate;
        }
    }
    return nearest;
}

std::string nearest_name_hint(std::string_view name, std::span<const std::string> names) {
    const std::string near = nearest_name(name, names);
    return near.empty() ? "" : fmt::format("did you mean \"{}\"?", near);
}

std::string nearest_path(const fs::path& path) {
    const MissingPath missing = split_missing(path);
    constexpr std::size_t kShortest = 3;  // any name is near to one of two letters
    const std::string name = missing.name.string();
    const std::string near = name.size() < kShortest ? "" : nearest_name(name, names_in(missing.folder));
    if (near.empty()) {
        return {};
    }
    const fs::path found = missing.folder / near;
    std::error_code none;
    const bool whole = !missing.rest.empty() && fs::exists(found / missing.rest, none);
    return (whole ? found / missing.rest : found).string();
}

std::string missing_path_hint(const fs::path& path, const std::string& otherwise) {
    if (const std::string near = nearest_path(path); !near.empty()) {
        return fmt::format("did you mean \"{}\"?", near);
    }
    if (path.native().starts_with("~/")) {
        return "~ is not replaced here: write the whole path";
    }
    const fs::path folder = split_missing(path).folder;
    const std::vector<std::string> names = names_in(folder);
    if (names.empty()) {
        return otherwise;
    }
    constexpr std::size_t kShown = 5;
    const auto shown = std::span(names).first(std::min(names.size(), kShown));
    std::error_code unknown;
    const std::size_t rest = names.size() - shown.size();
    return fmt::format("{} has {}{}; {}", (folder.empty() ? fs::current_path(unknown) : folder).string(),
                       fmt::join(shown, ", "),
                       names.size() == kMostEntries ? " and more"
                       : rest > 0                   ? fmt::format(" and {} more", rest)
                                                    : "",
                       otherwise);
}

}  // namespace stoker
