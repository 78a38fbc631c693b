// One file per name: a magic number, the length of the stamp, a hash of the rest, stamp, content. The hash detects a
// file that a crash left incomplete, so writes need not wait for the disk. A file's mtime is its last use, to the day,
// and decides which files are removed.
#include "stoker/base/user_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "stoker/base/environment.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/hash.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

struct Header {
    std::array<char, 8> magic = {'s', 't', 'k', 'c', 'a', 'c', 'h', '1'};
    std::uint64_t stamp_bytes = 0;
    std::uint64_t hash = 0;  // of stamp and content
};

std::uint64_t hash_of(std::string_view stamp, std::span<const std::byte> content) {
    return hash_bytes(content, hash_text(stamp));
}

fs::path file_of(std::string_view kind, std::string_view name) {
    const fs::path directory = user_cache_dir();
    return directory.empty() ? fs::path() : directory / kind / fmt::format("{:016x}", hash_text(name));
}

using std::chrono::hours;

constexpr hours kDay(24);
constexpr hours kUnused(90 * 24);
constexpr std::size_t kMostFiles = 100'000;  // of a kind

// Time since the last use, in hours: nanoseconds could overflow for odd file times.
hours age_of(const fs::path& path, std::error_code& error) {
    const auto used = fs::last_write_time(path, error);
    const auto rounded = [](auto time) { return std::chrono::duration_cast<hours>(time.time_since_epoch()); };
    return rounded(fs::file_time_type::clock::now()) - rounded(used);
}

void note_use(const fs::path& path) {
    std::error_code ignored;
    if (age_of(path, ignored) > kDay) {
        fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
    }
}

// True at the first call for this folder in this process.
bool is_first_call(const fs::path& folder) {
    static std::mutex mutex;
    static std::set<fs::path> seen;
    const std::scoped_lock lock(mutex);
    return seen.insert(folder).second;
}

// Removes files that were not used for long, and temporary files of killed processes. Other processes may do the same
// at the same time; a file that they have open stays readable.
void remove_old_files(const fs::path& folder) {
    if (!is_first_call(folder)) {
        return;
    }
    std::vector<std::pair<hours, fs::path>> files;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code gone;
        const hours age = age_of(entry->path(), gone);
        if (!gone && entry->is_regular_file(gone)) {
            const bool temporary = entry->path().filename().string().find(".tmp-") != std::string::npos;
            files.emplace_back(age + (temporary ? kUnused - kDay : hours(0)), entry->path());
        }
    }
    std::ranges::sort(files, std::greater());
    const std::size_t too_many = files.size() - std::min(files.size(), kMostFiles);
    for (std::size_t i = 0; i < files.size() && (i < too_many || files[i].first > kUnused); ++i) {
        std::error_code ignored;
        fs::remove(files[i].second, ignored);
    }
}

}  // namespace

fs::path user_cache_dir() {
    if (std::string own = environment_variable("STOKER_CACHE"); !own.empty()) {
        return own;
    }
    if (const std::string all = environment_variable("XDG_CACHE_HOME"); !all.empty()) {
        return fs::path(all) / "stoker";
    }
    const std::string home = environment_variable("HOME");
    return home.empty() ? fs::path() : fs::path(home) / ".cache" / "stoker";
}

fs::path user_cache_file(std::string_view kind, std::string_view name) {
    fs::path path = file_of(kind, name);
    if (!path.empty()) {
        note_use(path);
        remove_old_files(path.parent_path());
    }
    return path;
}

std::optional<Buffer> read_user_cache(std::string_view kind, std::string_view name, std::string_view stamp) {
    const fs::path path = file_of(kind, name);
    std::error_code unknown;
    if (path.empty() || !fs::exists(path, unknown)) {
        return std::nullopt;
    }
    try {
        const File file(path);
        Header header;
        const Header expected;
        const std::uint64_t size = file.info().size;
        if (size < sizeof header + stamp.size()) {
            return std::nullopt;
        }
        file.read(0, std::as_writable_bytes(std::span(&header, 1)));
        std::string found(stamp.size(), '\0');
        file.read(sizeof header, std::as_writable_bytes(std::span(found)));
        if (header.magic != expected.magic || header.stamp_bytes != stamp.size() || found != stamp) {
            return std::nullopt;
        }
        Buffer content;
        content.resize(size - sizeof header - stamp.size());
        file.read(sizeof header + stamp.size(), content.bytes());
        if (hash_of(stamp, content.bytes()) != header.hash) {
            return std::nullopt;
        }
        note_use(path);
        return content;
    } catch (const IoError&) {  // removed meanwhile, or not readable: the same as no file
        return std::nullopt;
    }
}

bool write_user_cache(std::string_view kind, std::string_view name, std::string_view stamp,
                      std::span<const std::byte> content) {
    const fs::path path = file_of(kind, name);
    if (path.empty()) {
        return false;
    }
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    if (failed) {
        return false;
    }
    const Header header{.stamp_bytes = stamp.size(), .hash = hash_of(stamp, content)};
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(&header, 1)), as_bytes(stamp), content};
    try {
        write_file(path, pieces, /*sync=*/false);
        remove_old_files(path.parent_path());
        return true;
    } catch (const IoError&) {
        return false;
    }
}

}  // namespace stoker
