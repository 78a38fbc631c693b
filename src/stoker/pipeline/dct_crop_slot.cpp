#include "stoker/pipeline/dct_crop_slot.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pipeline/transforms/device_ops.h"

namespace stoker {
namespace {

std::size_t aligned(std::size_t bytes) {
    return (bytes + kDctCropAlignment - 1) / kDctCropAlignment * kDctCropAlignment;
}

}  // namespace

std::size_t DctCropSlot::front(std::int64_t samples) {
    return aligned(static_cast<std::size_t>(samples) * (sizeof(DctCropPlace) + sizeof(AssembleDraw)));
}

std::int64_t DctCropSlot::sample_bytes(std::int64_t crop_bytes, std::int64_t pixels, bool shared) {
    const std::int64_t bytes = shared ? pixels + std::min(crop_bytes, pixels) : std::max(crop_bytes, pixels);
    return static_cast<std::int64_t>(aligned(static_cast<std::size_t>(bytes) + kDctCropAlignment) + front(1));
}

std::size_t DctCropSlot::shared_front(std::int64_t samples, std::size_t pixels) {
    return aligned(front(samples) + static_cast<std::size_t>(samples) * pixels);
}

void DctCropSlot::set_crop(std::int64_t i, std::size_t at, std::span<const std::byte> crop,
                           const AssembleDraw& draw) const {
    std::memcpy(memory_ + at, crop.data(), crop.size());
    places()[i] = {.crop = at};
    draws()[i] = draw;
}

void DctCropSlot::set_pixels(std::int64_t i, std::size_t at, ImageSize size) const {
    places()[i] = {};
    draws()[i] = {.image = at, .window = {0, 0, size.height, size.width}, .source = size, .full = size};
}

void DctCropSlot::set_nothing(std::int64_t i) const {
    places()[i] = {};
    draws()[i] = {};
}

void DctCropCapacity::reset(std::size_t begin, std::size_t end, std::int64_t samples, std::size_t least) {
    const std::lock_guard lock(mutex_);
    used_ = begin;
    end_ = end;
    taken_ = 0;
    least_ = aligned(least);
    kept_ = least_ * static_cast<std::size_t>(samples);
}

std::optional<std::size_t> DctCropCapacity::take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t others = kept_ - std::min(kept_, least_);
    if (aligned(bytes) > end_ - used_ || others > end_ - used_ - aligned(bytes)) {
        return std::nullopt;
    }
    kept_ = others;
    const std::size_t at = used_;
    used_ += aligned(bytes);
    ++taken_;
    return at;
}

std::size_t DctCropCapacity::take_least() {
    if (const auto at = take(least_)) {
        return *at;
    }
    throw InternalError({.where = "a batch's memory",
                         .expected = fmt::format("room for {} bytes, which each sample takes once", least_),
                         .got = "none left"});
}

std::size_t DctCropCapacity::used() const {
    const std::lock_guard lock(mutex_);
    return used_;
}

std::int64_t DctCropCapacity::taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
}

std::size_t DctCropCapacity::left() const {
    const std::lock_guard lock(mutex_);
    return end_ - used_;
}

std::vector<DctCropGroup> plan_groups(const DctCropSlot& slot, std::int64_t samples, std::uint64_t begin,
                                      std::uint64_t scratch) {
    std::vector<DctCropGroup> groups = {{}};
    std::uint64_t at = begin;
    for (std::int64_t i = 0; i < samples; ++i) {
        DctCropPlace& place = slot.places()[i];
        if (place.crop != 0) {
            const DctCrop& crop = *reinterpret_cast<const DctCrop*>(slot.memory() + place.crop);
            const DecodedBytes bytes = decoded_bytes(crop);
            if (at - begin + bytes.sum() > scratch) {
                groups.push_back({.first = i});
                at = begin;
            }
            place.samples = at;
            place.pixels = at + bytes.samples;
            slot.draws()[i].image = place.pixels;
            at += bytes.sum();
            DctCropGroup& group = groups.back();
            group.rows = std::max(group.rows, crop.rows);
            group.pieces = std::max(group.pieces, crop.pieces);
            group.pixels = std::max(group.pixels, static_cast<std::uint32_t>(crop.box.height * crop.box.width));
        }
        ++groups.back().count;
    }
    return groups;
}

}  // namespace stoker
