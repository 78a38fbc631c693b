// Connects the object, the block pool and the disk cache.
#include "stoker/io/remote/remote_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::int64_t kMemoryBytes = 256 << 20;
constexpr int kConnections = 8;

void check(const RemoteOptions& options) {
    const bool good = options.block_bytes >= 512 && options.block_bytes <= (64 << 20) &&
                      options.request_bytes >= options.block_bytes && options.stall_time.count() >= 1 &&
                      options.patience.count() >= 0 && options.first_pause.count() >= 0;
    if (!good) {
        throw InvalidArgument(
            {.where = "remote options",
             .expected = "blocks of 512 bytes to 64 MiB, requests of a block or more, a stall time of "
                         "a second or more",
             .got = fmt::format("blocks of {}, requests of {} bytes", options.block_bytes, options.request_bytes)});
    }
}

}  // namespace

// The pool's threads hold it while they fetch, so it may outlive the file by a moment.
class RemoteFile::Origin final : public BlockOrigin {
  public:
    Origin(const std::string& name, const RemoteOptions& options, std::shared_ptr<HttpClient> client)
        : options_(options),
          cache_(shared_block_cache(options)),
          object_(name, options, std::move(client)),
          identity_(object_.identity()) {
        if (!object_.same_bytes()) {
            cache_.reset();  // a later version could not be told from this one
        }
    }

    RemoteObject& object() { return object_; }
    std::uint64_t size() const override { return object_.size(); }
    std::uint64_t block_bytes() const override { return static_cast<std::uint64_t>(options_.block_bytes); }
    std::uint64_t run_bytes() const override { return static_cast<std::uint64_t>(options_.request_bytes); }

    void fetch(std::uint64_t first, std::span<const std::span<std::byte>> blocks) const override {
        if (cache_ == nullptr) {
            object_.fetch(first * block_bytes(), blocks);
            return;
        }
        for (std::size_t i = 0; i < blocks.size();) {
            if (cache_->get(key(first + i, blocks[i]), blocks[i])) {
                ++i;
                continue;
            }
            std::size_t end = i + 1;
            while (end < blocks.size() && !cache_->get(key(first + end, blocks[end]), blocks[end])) {
                ++end;
            }
            object_.fetch((first + i) * block_bytes(), blocks.subspan(i, end - i));
            for (; i < end; ++i) {
                cache_->put(key(first + i, blocks[i]), blocks[i]);
            }
            ++i;  // the block at `end`, if there is one, came from the cache
        }
    }

    // Removes block `number` from the disk cache.
    void forget(std::uint64_t number) const {
        if (cache_ != nullptr) {
            const std::uint64_t start = number * block_bytes();
            cache_->remove(block_key(identity_, start, std::min(block_bytes(), size() - start)));
        }
    }

  private:
    BlockKey key(std::uint64_t number, std::span<const std::byte> block) const {
        return block_key(identity_, number * block_bytes(), block.size());
    }

    RemoteOptions options_;
    std::shared_ptr<BlockCache> cache_;
    RemoteObject object_;
    std::string identity_;
};

RemoteShared shared_remote() {
    static std::mutex mutex;
    // Never destroyed: a thread may still wait for a server when a program ends.
    static auto& client = *new std::weak_ptr<HttpClient>;
    static auto& pool = *new std::weak_ptr<BlockPool>;
    static pid_t process = ::getpid();
    const std::scoped_lock lock(mutex);
    if (process != ::getpid()) {  // a forked child has the parent's connections, and none of its threads
        process = ::getpid();
        client.reset();
        pool.reset();
    }
    RemoteShared shared{.client = client.lock(), .pool = pool.lock()};
    if (shared.client == nullptr) {
        client = shared.client = std::make_shared<HttpClient>();
    }
    if (shared.pool == nullptr) {
        pool = shared.pool = std::make_shared<BlockPool>(kMemoryBytes, kConnections);
    }
    return shared;
}

std::shared_ptr<BlockCache> shared_block_cache(const RemoteOptions& options) {
    if (options.cache_dir.empty()) {
        return nullptr;
    }
    static std::mutex mutex;
    using Caches = std::map<std::pair<std::string, std::int64_t>, std::weak_ptr<BlockCache>>;
    static Caches& caches = *new Caches;  // never destroyed: a thread may still wait for a server when a program ends
    static pid_t process = ::getpid();
    const std::scoped_lock lock(mutex);
    if (process != ::getpid()) {  // a thread of the parent may hold a lock of its caches
        process = ::getpid();
        caches.clear();
    }
    std::weak_ptr<BlockCache>& known = caches[{options.cache_dir.lexically_normal().string(), options.cache_bytes}];
    std::shared_ptr<BlockCache> cache = known.lock();
    if (cache == nullptr) {
        known = cache = std::make_shared<BlockCache>(options.cache_dir, options.cache_bytes);
    }
    return cache;
}

RemoteFile::RemoteFile(const std::string& name, const RemoteOptions& options, RemoteShared shared)
    : shared_(std::move(shared)) {
    check(options);
    origin_ = std::make_shared<Origin>(name, options, shared_.client);
}

RemoteFile::~RemoteFile() {
    origin_->object().cancel();
    shared_.pool->forget(*origin_);
}

std::uint64_t RemoteFile::size() const {
    return origin_->size();
}

const std::string& RemoteFile::name() const {
    return origin_->object().name();
}

std::string RemoteFile::identity() const {
    return origin_->object().cache_name();
}

std::string RemoteFile::stamp() const {
    return fmt::format("{} bytes of {}", size(), origin_->object().version());
}

bool RemoteFile::settled() const {
    return origin_->object().same_bytes();
}

void RemoteFile::check_range(std::uint64_t offset, std::uint64_t size) const {
    if (offset > origin_->size() || size > origin_->size() - offset) {
        throw IoError({.where = name(),
                       .expected = fmt::format("{} bytes at offset {}", size, offset),
                       .got = fmt::format("an object of {} bytes", origin_->size())});
    }
}

void RemoteFile::read(std::uint64_t offset, std::span<std::byte> out) const {
    check_range(offset, out.size());
    if (out.empty()) {
        return;
    }
    const auto& whole = origin_->object().whole();
    if (whole) {
        std::memcpy(out.data(), whole->data() + offset, out.size());
        return;
    }
    shared_.pool->read(origin_, offset, out);
}

// Blocks that other threads are reading stay in memory, with the wrong bytes. This call never returns bytes of them.
void RemoteFile::read_anew(std::uint64_t offset, std::span<std::byte> out) const {
    check_range(offset, out.size());
    if (out.empty() || origin_->object().whole()) {
        read(offset, out);
        return;
    }
    const std::uint64_t last = (offset + out.size() - 1) / origin_->block_bytes();
    for (std::uint64_t number = offset / origin_->block_bytes(); number <= last; ++number) {
        shared_.pool->forget(*origin_, number);
        origin_->forget(number);
    }
    origin_->object().fetch(offset, std::span(&out, 1));
}

void RemoteFile::prefetch(std::span<const ByteRange> ranges) const {
    if (!origin_->object().whole()) {
        shared_.pool->prefetch(origin_, ranges);
    }
}

}  // namespace stoker
