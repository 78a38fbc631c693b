// If all files may stay open, a read takes no lock. Otherwise the file that was opened first is closed first, which is
// as good as any other rule for shuffled reading.
#include "stoker/io/shard_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {

std::size_t spare_descriptors() {
    constexpr rlim_t kMost = 1 << 16;
    rlimit limit{};
    const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return static_cast<std::size_t>(std::clamp<rlim_t>(known ? limit.rlim_cur / 4 : kMost, 1, kMost));
}

ShardFiles::ShardFiles(std::vector<std::string> names, Open open, std::size_t most)
    : open_(std::move(open)), most_(std::max<std::size_t>(most, 1)), slots_(names.size()) {
    for (std::size_t i = 0; i < names.size(); ++i) {
        slots_[i].name = std::move(names[i]);
    }
}

bool ShardFiles::remote() const {
    return !slots_.empty() && is_remote(slots_.front().name);
}

ShardFiles::Handle ShardFiles::open(std::size_t shard) const {
    Slot& slot = slots_[shard];
    Handle handle;
    handle.file_ = slot.permanent.load(std::memory_order_acquire);
    if (handle.file_ != nullptr) {
        return handle;
    }
    {
        const std::lock_guard lock(mutex_);
        handle.kept_ = slot.file;
    }
    if (!handle.kept_) {
        handle.kept_ = reopen(shard);
    }
    handle.file_ = handle.kept_.get();
    if (slot.permanent.load(std::memory_order_acquire) == handle.file_) {
        handle.kept_ = nullptr;
    }
    return handle;
}

// Opens the file without holding the lock, which other threads need for their reads. Two threads may open the same
// shard; either file is good.
std::shared_ptr<const ByteFile> ShardFiles::reopen(std::size_t shard) const {
    Slot& slot = slots_[shard];
    std::shared_ptr<const ByteFile> opened = open_(slot.name);
    std::string stamp = opened->stamp();
    std::shared_ptr<const ByteFile> closed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    if (slot.stamp.empty()) {
        slot.stamp = std::move(stamp);
    } else if (slot.stamp != stamp) {
        throw IoError({.where = shown_name(slot.name),
                       .expected = "the file that was there when the data set was opened: " + slot.stamp,
                       .got = std::move(stamp),
                       .hint = "another process has changed it: open the data set again"});
    }
    if (slot.file) {
        return slot.file;
    }
    slot.file = opened;
    if (opened->remote() || slots_.size() <= most_) {
        slot.permanent.store(opened.get(), std::memory_order_release);
        return opened;
    }
    order_.push_back(shard);
    if (order_.size() > most_) {
        closed = std::exchange(slots_[order_.front()].file, nullptr);
        order_.pop_front();
    }
    return opened;
}

}  // namespace stoker
