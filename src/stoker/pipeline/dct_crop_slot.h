// The memory of a batch's image field whose images a device decodes (DeferredDecode). All samples of the batch share
// it:
//   DctCropPlace (n), AssembleDraw (n), then the samples' crops of dct records or JPEGs, or their pixels, in any order
// A sample has pixels if the host made them. Numbers in it are places in this memory. If workers and the device
// share the decoding (DeferredDecode::shared), each sample has a place for its pixels, in order, and the crops come
// behind: a batch without crops is one block of images, and needs no device to make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "stoker/codecs/dct/dct_pixels.h"
#include "stoker/ops/assemble.h"

namespace stoker {

// A field's memory for n samples.
class DctCropSlot {
  public:
    DctCropSlot(std::byte* memory, std::int64_t samples) : memory_(memory), samples_(samples) {}

    // The beginning of the samples' bytes.
    static std::size_t front(std::int64_t samples);
    // The memory of a sample, for crops of `crop_bytes` on average; the host may make all of them, of `pixels` bytes.
    // If the decoding is shared, crops have at most `pixels` bytes on average.
    static std::int64_t sample_bytes(std::int64_t crop_bytes, std::int64_t pixels, bool shared = false);
    // The beginning of the crops there, for images of `pixels` bytes.
    static std::size_t shared_front(std::int64_t samples, std::size_t pixels);
    // The place of a sample's pixels there.
    std::size_t pixels_at(std::int64_t i, std::size_t pixels) const {
        return front(samples_) + static_cast<std::size_t>(i) * pixels;
    }

    std::byte* memory() const { return memory_; }
    DctCropPlace* places() const { return reinterpret_cast<DctCropPlace*>(memory_); }
    AssembleDraw* draws() const {
        return reinterpret_cast<AssembleDraw*>(memory_ + sizeof(DctCropPlace) * static_cast<std::size_t>(samples_));
    }

    void set_crop(std::int64_t i, std::size_t at, std::span<const std::byte> crop, const AssembleDraw& draw) const;
    // An image of `size`, whose pixels are there already, or soon.
    void set_pixels(std::int64_t i, std::size_t at, ImageSize size) const;
    void set_nothing(std::int64_t i) const;

  private:
    std::byte* memory_;
    std::int64_t samples_;
};

// The capacity of a slot. Workers take some for each sample, and leave as much as the others may need as pixels. So
// each sample takes once, when nothing can make it a bad one any more.
class DctCropCapacity {
  public:
    // For `samples` samples that need at most `least` bytes each; 0: for crops alone, which need not fit.
    void reset(std::size_t begin, std::size_t end, std::int64_t samples, std::size_t least);
    // The place of one sample's bytes. Empty if the capacity is not enough for more than `least`.
    std::optional<std::size_t> take(std::size_t bytes);
    // The place of `least` bytes. Throws InternalError if more samples took some than there are.
    std::size_t take_least();
    std::size_t used() const;    // the end of the bytes that are taken
    std::int64_t taken() const;  // how often
    std::size_t left() const;    // bytes that nothing has taken; some may be kept for pixels

  private:
    mutable std::mutex mutex_;
    std::size_t used_ = 0;
    std::size_t end_ = 0;
    std::int64_t taken_ = 0;
    std::size_t kept_ = 0;  // for the samples that are to come
    std::size_t least_ = 0;
};

// Samples that are decoded together, because what they need fits in the scratch memory.
struct DctCropGroup {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::uint32_t rows = 0;  // the largest numbers of one crop
    std::uint32_t pieces = 0;
    std::uint32_t pixels = 0;
};

// Sets where each crop's samples and pixels go: into `scratch` bytes (kMostDecoded or more) from place `begin` on,
// which each group uses anew.
std::vector<DctCropGroup> plan_groups(const DctCropSlot& slot, std::int64_t samples, std::uint64_t begin,
                                      std::uint64_t scratch);

}  // namespace stoker
