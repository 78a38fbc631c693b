// Keeps samples in an unnamed file. The system removes it when the process ends, so nothing stale or half-written is
// ever read. Takes eight bytes of memory per sample.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "stoker/base/file.h"
#include "stoker/pipeline/cache/sample_cache.h"

namespace stoker {

class DiskCache final : public SampleCache {
  public:
    // Throws IoError if no file can be made in `directory`.
    DiskCache(std::int64_t size, std::int64_t budget_bytes, const std::filesystem::path& directory);

    bool get(std::int64_t index, Sample& sample) const override;  // into sample.storage
    bool holds(std::int64_t index) const override {
        return places_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) != 0;
    }
    void put(std::int64_t index, const Sample& sample) override;
    std::int64_t bytes() const override { return used_.load(std::memory_order_relaxed); }
    std::string stop_reason() const override;

  private:
    void stop(const char* doing) const;

    const std::int64_t budget_;
    std::filesystem::path directory_;
    const Descriptor file_;
    std::atomic<std::int64_t> used_{0};
    std::atomic<std::int64_t> end_{0};                     // size of the file
    std::unique_ptr<std::atomic<std::int64_t>[]> places_;  // offset of each sample's header, plus 1; 0: not cached
    mutable std::atomic<bool> stopped_ = false;
    mutable std::mutex mutex_;  // guards why_
    mutable std::string why_;
};

}  // namespace stoker
