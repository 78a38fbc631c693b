// Samples kept in a file without a name: it is gone with the process, however that ends, so nothing stale or torn is
// ever read. In memory there are eight bytes a sample.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "stoker/pipeline/cache/sample_cache.h"

namespace stoker {

class DiskCache final : public SampleCache {
  public:
    // Throws IoError where no file can be made in `directory`.
    DiskCache(std::int64_t size, std::int64_t budget_bytes, const std::filesystem::path& directory);
    DiskCache(const DiskCache&) = delete;
    DiskCache& operator=(const DiskCache&) = delete;
    ~DiskCache() override;

    bool get(std::int64_t index, Sample& sample) const override;  // into sample.storage
    bool holds(std::int64_t index) const override {
        return places_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) != 0;
    }
    void put(std::int64_t index, const Sample& sample) override;
    std::int64_t bytes() const override { return used_.load(std::memory_order_relaxed); }
    std::string trouble() const override;

  private:
    void stop(const char* doing) const;

    const std::int64_t budget_;
    std::filesystem::path directory_;
    int fd_ = -1;
    std::atomic<std::int64_t> used_{0};
    std::atomic<std::int64_t> end_{0};                     // of the file
    std::unique_ptr<std::atomic<std::int64_t>[]> places_;  // of each sample's header in the file, and 1; 0: not kept
    mutable std::atomic<bool> stopped_ = false;
    mutable std::mutex mutex_;  // guards why_
    mutable std::string why_;
};

}  // namespace stoker
