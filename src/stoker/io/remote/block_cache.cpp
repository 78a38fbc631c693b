// One file per block, named by its key: a head with a hash, then the bytes. The file "usage" holds the sum of all
// sizes; its lock is held while the sum or the set of files changes. A block's size is added before its first byte is
// written and subtracted after its file is removed, so a kill in between leaves the sum too high, never too low. Each
// eviction sums up the files again.
#include "stoker/io/remote/block_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

struct Head {
    std::array<char, 8> magic = {'s', 't', 'k', 'b', 'l', 'o', 'k', '1'};
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::uint64_t size = 0;
    std::uint64_t hash = 0;  // of the block, seeded by the key

    bool operator==(const Head&) const = default;
};

constexpr std::string_view kTemporary = ".tmp";
constexpr std::int64_t kStaleSeconds = 600;     // an older temporary file belongs to a dead process
constexpr std::int64_t kDirectoryBytes = 8192;  // the directory and "usage"

// Disk space of a file: whole pages, and its entry in the directory.
std::int64_t file_cost(std::int64_t bytes) {
    return (bytes + 4095) / 4096 * 4096 + 128;
}

Head make_head(const BlockKey& key, std::span<const std::byte> block) {
    return {.high = key.high, .low = key.low, .size = block.size(), .hash = hash_bytes(block, key.high ^ key.low)};
}

struct Entry {
    std::string path;
    std::int64_t cost = 0;
    std::int64_t used_ns = 0;  // the last use
    bool temporary = false;
};

// The final size from a temporary file's name, KEY.PROCESS-NUMBER.SIZE.tmp.
std::int64_t final_size(std::string_view name) {
    name.remove_suffix(kTemporary.size());
    name.remove_prefix(std::min(name.size(), name.rfind('.') + 1));
    std::int64_t size = 0;
    std::from_chars(name.data(), name.data() + name.size(), size);
    return std::clamp<std::int64_t>(size, 0, std::int64_t{1} << 40);
}

// True for "KEY.block" and its temporary files. Other files in the directory are neither counted nor removed.
bool is_block_file(std::string_view name) {
    return name.size() > 32 && (name.ends_with(".block") || name.ends_with(kTemporary)) &&
           std::all_of(name.begin(), name.begin() + 32,
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Files may vanish meanwhile: other processes remove them too.
std::vector<Entry> list(const fs::path& directory) {
    std::vector<Entry> entries;
    std::error_code failed;
    for (fs::directory_iterator each(directory, failed), end; !failed && each != end; each.increment(failed)) {
        struct stat info {};
        const std::string path = each->path().string();
        const std::string name = each->path().filename().string();
        if (!is_block_file(name) || ::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
            continue;
        }
        const bool temporary = name.ends_with(kTemporary);
        const std::int64_t size = temporary ? std::max<std::int64_t>(info.st_size, final_size(name)) : info.st_size;
        entries.push_back({.path = path,
                           .cost = file_cost(size),
                           .used_ns = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
                           .temporary = temporary});
    }
    return entries;
}

}  // namespace

// Excludes other threads and processes.
class BlockCache::Lock {
  public:
    explicit Lock(BlockCache& cache) : guard_(cache.mutex_), fd_(cache.usage_.get()) {
        while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
        }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() { ::flock(fd_, LOCK_UN); }

  private:
    std::scoped_lock<std::mutex> guard_;
    int fd_;
};

BlockKey block_key(std::string_view identity, std::uint64_t offset, std::uint64_t size) {
    const XXH128_hash_t object = XXH3_128bits(identity.data(), identity.size());
    const std::array<std::uint64_t, 4> parts = {object.high64, object.low64, offset, size};
    const XXH128_hash_t block = XXH3_128bits(parts.data(), sizeof parts);
    return {.high = block.high64, .low = block.low64};
}

BlockCache::BlockCache(const fs::path& directory, std::int64_t budget) : directory_(directory), budget_(budget) {
    if (budget_ < kDirectoryBytes + 4096) {
        throw InvalidArgument({.where = "data.cache_bytes",
                               .expected = "room for at least one block",
                               .got = fmt::format("{} bytes", budget_)});
    }
    std::error_code failed;
    fs::create_directories(directory_, failed);
    if (!failed) {
        usage_ = Descriptor(::open((directory_ / "usage").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    }
    if (usage_.get() < 0) {
        throw errno_error(directory_.string(), "a directory for fetched blocks", failed ? failed.value() : errno);
    }
    const Lock lock(*this);
    write_used(make_room(budget_));
}

std::string BlockCache::path_of(const BlockKey& key) const {
    return (directory_ / fmt::format("{:016x}{:016x}.block", key.high, key.low)).string();
}

std::int64_t BlockCache::read_used() const {
    std::int64_t used = 0;
    const bool whole = ::pread(usage_.get(), &used, sizeof used, 0) == sizeof used;
    return whole && used >= 0 ? used : budget_;  // unknown: the next eviction sums up again
}

void BlockCache::write_used(std::int64_t used) const {
    if (::pwrite(usage_.get(), &used, sizeof used, 0) != sizeof used) {
        throw errno_error(directory_.string(), "room to write");
    }
}

// Sums up the files and removes stale temporary ones, then the least recently used blocks until at most `most` bytes
// are left. Returns the sum.
std::int64_t BlockCache::make_room(std::int64_t most) const {
    std::vector<Entry> entries = list(directory_);
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used_ns < b.used_ns; });
    std::int64_t used = kDirectoryBytes;
    for (const Entry& entry : entries) {
        used += entry.cost;
    }
    const std::int64_t stale_ns = (std::int64_t{std::time(nullptr)} - kStaleSeconds) * 1'000'000'000;
    for (const Entry& entry : entries) {
        const bool removable = entry.temporary ? entry.used_ns < stale_ns : used > most;
        if (removable && (::unlink(entry.path.c_str()) == 0 || errno == ENOENT)) {
            used -= entry.cost;
        }
    }
    return used;
}

bool BlockCache::get(const BlockKey& key, std::span<std::byte> out) {
    const std::string path = path_of(key);
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
        return false;
    }
    Head head;
    const bool whole = info.st_size == static_cast<off_t>(sizeof head + out.size()) &&
                       read_bytes(file.get(), std::as_writable_bytes(std::span(&head, 1)), 0) == sizeof head &&
                       read_bytes(file.get(), out, sizeof head) == out.size();
    if (!whole || head != make_head(key, out)) {
        remove_damaged(path, file_cost(info.st_size));
        return false;
    }
    ::futimens(file.get(), nullptr);  // its last use is now
    return true;
}

void BlockCache::remove(const BlockKey& key) {
    const std::string path = path_of(key);
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) {
        remove_damaged(path, file_cost(info.st_size));
    }
}

void BlockCache::remove_damaged(const std::string& path, std::int64_t cost) {
    const Lock lock(*this);
    if (::unlink(path.c_str()) == 0) {
        write_used(std::max<std::int64_t>(0, read_used() - cost));
    }
}

// Adds the cost to the sum and makes an empty temporary file that has the final size in its name, so that other
// processes count the same. Returns its path, empty if the budget is used up.
std::string BlockCache::reserve(const BlockKey& key, std::int64_t cost, Descriptor& file) {
    const Lock lock(*this);
    std::int64_t used = read_used();
    if (used + cost > budget_) {
        used = make_room(std::max<std::int64_t>(0, std::min(budget_ - cost, budget_ / 10 * 9)));
        write_used(used);
    }
    if (used + cost > budget_) {
        return "";
    }
    std::string path = fmt::format("{}.{}-{}.{}{}", path_of(key), ::getpid(), ++written_, cost - 128, kTemporary);
    write_used(used + cost);
    file = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.get() < 0) {
        write_used(used);
        return "";
    }
    return path;
}

// Gives the finished file its name. Under the lock, because a directory listing can miss a file that is renamed
// meanwhile, and the next eviction's sum would be too low.
bool BlockCache::publish(const std::string& temporary, const std::string& path, std::int64_t cost) {
    const Lock lock(*this);
    const bool replaces = ::access(path.c_str(), F_OK) == 0;  // another process has put the same block
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        return false;
    }
    if (replaces) {
        write_used(std::max<std::int64_t>(0, read_used() - cost));
    }
    return true;
}

bool BlockCache::put(const BlockKey& key, std::span<const std::byte> block) {
    const std::string path = path_of(key);
    const Head head = make_head(key, block);
    const std::int64_t cost = file_cost(static_cast<std::int64_t>(sizeof head + block.size()));
    if (cost > budget_ - kDirectoryBytes || ::access(path.c_str(), F_OK) == 0) {
        return false;
    }
    try {
        Descriptor file;
        const std::string temporary = reserve(key, cost, file);
        if (temporary.empty()) {
            return false;
        }
        if (write_bytes(file.get(), std::as_bytes(std::span(&head, 1))) == sizeof head &&
            write_bytes(file.get(), block) == block.size() && publish(temporary, path, cost)) {
            return true;
        }
        remove_damaged(temporary, cost);
        return false;
    } catch (const IoError&) {  // "usage" cannot be written
        return false;
    }
}

std::int64_t BlockCache::used() {
    const Lock lock(*this);
    return read_used();
}

}  // namespace stoker
