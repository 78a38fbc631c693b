// Space is taken by moving one counter, so writers never meet; a place is published when all of it is written.
#include "stoker/pipeline/cache/disk_cache.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pipeline/cache/cached_header.h"

namespace stoker {
namespace {

int make_nameless_file(const std::filesystem::path& directory) {
    std::error_code failed;
    std::filesystem::create_directories(directory, failed);
    int fd = failed ? -1 : ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && !failed) {  // some network file systems know no files without a name
        std::string name = (directory / "stoker-cache-XXXXXX").string();
        fd = ::mkostemp(name.data(), O_CLOEXEC);
        if (fd >= 0) {
            ::unlink(name.c_str());
        }
    }
    if (fd < 0) {
        throw IoError({.where = directory.string(),
                       .expected = "a folder to keep samples in",
                       .got = failed ? failed.message() : errno_text(),
                       .hint = "name another with data.cache_dir"});
    }
    return fd;
}

// Writes header and bytes at `offset`; false with errno where that is not possible.
bool write_entry(int fd, std::int64_t offset, const CachedHeader& header, std::span<const std::byte> bytes) {
    const auto write = [&](const void* data, std::size_t size) {
        for (std::size_t done = 0; done < size;) {
            const ssize_t wrote = ::pwrite(fd, static_cast<const std::byte*>(data) + done, size - done, offset);
            if (wrote < 0 && errno != EINTR) {
                return false;
            }
            done += wrote < 0 ? 0 : static_cast<std::size_t>(wrote);
            offset += wrote < 0 ? 0 : wrote;
        }
        return true;
    };
    return write(&header, sizeof header) && write(bytes.data(), bytes.size());
}

bool read_entry(int fd, std::int64_t offset, std::span<std::byte> out) {
    while (!out.empty()) {
        const ssize_t got = ::pread(fd, out.data(), out.size(), offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        offset += got;
        out = out.subspan(static_cast<std::size_t>(got));
    }
    return true;
}

}  // namespace

DiskCache::DiskCache(std::int64_t size, std::int64_t budget_bytes, const std::filesystem::path& directory)
    : budget_(budget_bytes),
      directory_(directory),
      fd_(make_nameless_file(directory)),
      places_(std::make_unique<std::atomic<std::int64_t>[]>(static_cast<std::size_t>(size))) {}

DiskCache::~DiskCache() {
    ::close(fd_);
}

bool DiskCache::get(std::int64_t index, Sample& sample) const {
    const std::int64_t place = places_[static_cast<std::size_t>(index)].load(std::memory_order_acquire);
    if (place == 0) {
        return false;
    }
    CachedHeader header;
    bool read = read_entry(fd_, place - 1, std::as_writable_bytes(std::span(&header, 1)));
    if (read) {
        set_sample(header, sample);
        sample.storage.resize(header.bytes);
        sample.bytes = sample.storage.bytes();
        read = read_entry(fd_, place - 1 + static_cast<std::int64_t>(sizeof header), sample.storage.bytes());
    }
    if (!read) {
        stop("reading");
    }
    return read;
}

// The source still has every sample: trouble with the cache slows a run down and does not end it.
void DiskCache::stop(const char* doing) const {
    const std::lock_guard lock(mutex_);
    why_ = fmt::format("{}: {} failed: {}", directory_.string(), doing, errno_text());
    stopped_ = true;
}

void DiskCache::put(std::int64_t index, const Sample& sample) {
    const CachedHeader header = header_of(sample);
    const auto bytes = static_cast<std::int64_t>(sizeof header + sample.bytes.size());
    if (stopped_ || !take_bytes(used_, budget_, bytes)) {
        return;
    }
    // Two threads that put the same sample write it twice; both count, so the file stays within the budget.
    const std::int64_t offset = end_.fetch_add(bytes);
    if (!write_entry(fd_, offset, header, sample.bytes)) {
        stop("writing");
        return;
    }
    std::int64_t none = 0;
    places_[static_cast<std::size_t>(index)].compare_exchange_strong(none, offset + 1, std::memory_order_release,
                                                                     std::memory_order_relaxed);
}

std::string DiskCache::trouble() const {
    const std::lock_guard lock(mutex_);
    return why_;
}

}  // namespace stoker
