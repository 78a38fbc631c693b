// One file a name: a magic number, the length of the stamp, a hash of all that follows, stamp, content.
#include "stoker/base/user_cache.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

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

std::string variable(const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
    return value == nullptr ? "" : value;
}

fs::path file_of(std::string_view kind, std::string_view name) {
    const fs::path directory = user_cache_dir();
    return directory.empty() ? fs::path() : directory / kind / fmt::format("{:016x}", hash_text(name));
}

}  // namespace

fs::path user_cache_dir() {
    if (const std::string own = variable("STOKER_CACHE"); !own.empty()) {
        return own;
    }
    if (const std::string all = variable("XDG_CACHE_HOME"); !all.empty()) {
        return fs::path(all) / "stoker";
    }
    const std::string home = variable("HOME");
    return home.empty() ? fs::path() : fs::path(home) / ".cache" / "stoker";
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
        return content;
    } catch (const IoError&) {  // gone, or not ours to read: as if it had never been
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
        write_file(path, pieces);
        return true;
    } catch (const IoError&) {
        return false;
    }
}

}  // namespace stoker
