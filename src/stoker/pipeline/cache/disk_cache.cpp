// The cache in an unnamed file. The system removes it when the process ends, so nothing stale or half-written is ever
// read. A writer reserves its part by advancing an atomic counter; the entry is published when it is written.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <fmt/format.h>
#include <mutex>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/pipeline/cache/cache_capacity.h"
#include "stoker/pipeline/cache/cached_header.h"

namespace stoker {
namespace {

Descriptor make_unnamed_file(const std::filesystem::path& directory) {
    std::error_code failed;
    std::filesystem::create_directories(directory, failed);
    int fd = failed ? -1 : ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && !failed) {  // some network file systems lack O_TMPFILE
        std::string name = (directory / "stoker-cache-XXXXXX").string();
        fd = ::mkostemp(name.data(), O_CLOEXEC);
        if (fd >= 0) {
            ::unlink(name.c_str());
        }
    }
    if (fd < 0) {
        throw errno_error(directory.string(), "a folder for cached samples", failed ? failed.value() : errno,
                          "set data.cache_dir to another folder");
    }
    return Descriptor(fd);
}

// Files of tmpfs are memory.
bool lies_in_memory(const Descriptor& file) {
    struct statfs info {};
    return ::fstatfs(file.get(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

class DiskCache final : public SampleCache {
  public:
    DiskCache(std::int64_t size, std::int64_t budget_bytes, const std::filesystem::path& directory)
        : budget_(budget_bytes),
          directory_(directory),
          file_(make_unnamed_file(directory)),
          in_memory_(lies_in_memory(file_)),
          places_(std::make_unique<std::atomic<std::int64_t>[]>(static_cast<std::size_t>(size))) {}

    bool get(std::int64_t index, Sample& sample) const override {
        const std::int64_t place = places_[static_cast<std::size_t>(index)].load(std::memory_order_acquire);
        if (place == 0) {
            return false;
        }
        const auto offset = static_cast<std::uint64_t>(place - 1);
        CachedHeader header;
        if (read_bytes(file_.get(), std::as_writable_bytes(std::span(&header, 1)), offset) == sizeof header) {
            sample.storage.resize(header.stored());
            if (read_bytes(file_.get(), sample.storage.bytes(), offset + sizeof header) == header.stored()) {
                load_parts(header, sample.storage.bytes(), sample);
                return true;
            }
        }
        stop("reading");
        return false;
    }

    bool holds(std::int64_t index) const override {
        return places_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) != 0;
    }

    void put(std::int64_t index, const Sample& sample) override {
        const std::optional<CachedHeader> header = header_of(sample);
        const auto bytes = static_cast<std::int64_t>(header ? sizeof *header + header->stored() : 0);
        if (stopped_ || !header || !reserve_bytes(used_, budget_, bytes)) {
            full_ = true;
            return;
        }
        if (in_memory_ && !room_.take(bytes)) {
            full_ = true;
            used_.fetch_sub(bytes);
            return;
        }
        // Two threads that put the same sample write it twice. Both copies count, so the file stays within the budget.
        const std::int64_t offset = end_.fetch_add(bytes);
        auto at = static_cast<std::uint64_t>(offset);
        bool written = true;
        const auto write = [&](std::span<const std::byte> part) {
            written = written && write_bytes(file_.get(), part, at) == part.size();
            at += part.size();
        };
        write(std::as_bytes(std::span(&*header, 1)));
        store_parts(sample, write);
        if (!written) {
            stop("writing");
            return;
        }
        std::int64_t none = 0;
        places_[static_cast<std::size_t>(index)].compare_exchange_strong(none, offset + 1, std::memory_order_release,
                                                                         std::memory_order_relaxed);
    }

    bool full() const override { return full_; }
    std::int64_t bytes() const override { return used_.load(std::memory_order_relaxed); }
    std::string stop_reason() const override {
        const std::lock_guard lock(mutex_);
        return why_.empty() ? room_.stop_reason() : why_;
    }

  private:
    // A failing cache slows a run down and does not end it: the data set still has every sample.
    void stop(const char* doing) const {
        const std::lock_guard lock(mutex_);
        why_ = fmt::format("{}: {} failed: {}", directory_.string(), doing, errno_text());
        stopped_ = true;
    }

    const std::int64_t budget_;
    const std::filesystem::path directory_;
    const Descriptor file_;
    const bool in_memory_;
    CacheCapacity room_;
    std::atomic<std::int64_t> used_{0};
    std::atomic<bool> full_ = false;
    std::atomic<std::int64_t> end_{0};                     // size of the file
    std::unique_ptr<std::atomic<std::int64_t>[]> places_;  // offset of each sample's header, plus 1; 0: not cached
    mutable std::atomic<bool> stopped_ = false;
    mutable std::mutex mutex_;  // guards why_
    mutable std::string why_;
};

}  // namespace

std::unique_ptr<SampleCache> make_disk_cache(std::int64_t size, const CacheOptions& options) {
    return std::make_unique<DiskCache>(size, options.bytes, options.directory);
}

}  // namespace stoker
