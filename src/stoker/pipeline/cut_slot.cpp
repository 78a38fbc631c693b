#include "stoker/pipeline/cut_slot.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pipeline/transforms/cut_ops.h"

namespace stoker {
namespace {

std::size_t aligned(std::size_t bytes) {
    return (bytes + kCutAlignment - 1) / kCutAlignment * kCutAlignment;
}

}  // namespace

std::size_t CutSlot::front(std::int64_t samples) {
    return aligned(static_cast<std::size_t>(samples) * (sizeof(CutPlace) + sizeof(AssembleDraw)));
}

std::int64_t CutSlot::sample_bytes(std::int64_t cut_bytes, std::int64_t pixels) {
    const std::size_t bytes = static_cast<std::size_t>(std::max(cut_bytes, pixels)) + kCutAlignment;
    return static_cast<std::int64_t>(aligned(bytes) + front(1));
}

std::int64_t CutSlot::shared_sample_bytes(std::int64_t cut_bytes, std::int64_t pixels) {
    const std::size_t bytes = static_cast<std::size_t>(pixels + std::min(cut_bytes, pixels)) + kCutAlignment;
    return static_cast<std::int64_t>(aligned(bytes) + front(1));
}

std::size_t CutSlot::shared_front(std::int64_t samples, std::size_t pixels) {
    return aligned(front(samples) + static_cast<std::size_t>(samples) * pixels);
}

void CutSlot::set_cut(std::int64_t i, std::size_t at, std::span<const std::byte> cut, const AssembleDraw& draw) const {
    std::memcpy(memory_ + at, cut.data(), cut.size());
    places()[i] = {.cut = at};
    draws()[i] = draw;
}

void CutSlot::set_pixels(std::int64_t i, std::size_t at, ImageSize size) const {
    places()[i] = {};
    draws()[i] = {.image = at, .window = {0, 0, size.height, size.width}, .source = size, .full = size};
}

void CutSlot::set_nothing(std::int64_t i) const {
    places()[i] = {};
    draws()[i] = {};
}

void CutRoom::reset(std::size_t begin, std::size_t end, std::int64_t samples, std::size_t least) {
    const std::lock_guard lock(mutex_);
    used_ = begin;
    end_ = end;
    taken_ = 0;
    least_ = aligned(least);
    kept_ = least_ * static_cast<std::size_t>(samples);
}

std::optional<std::size_t> CutRoom::take(std::size_t bytes) {
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

std::size_t CutRoom::take_least() {
    if (const auto at = take(least_)) {
        return *at;
    }
    throw InternalError({.where = "a batch's memory",
                         .expected = fmt::format("room for {} bytes, which each sample takes once", least_),
                         .got = "none left"});
}

std::size_t CutRoom::used() const {
    const std::lock_guard lock(mutex_);
    return used_;
}

std::int64_t CutRoom::taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
}

std::size_t CutRoom::left() const {
    const std::lock_guard lock(mutex_);
    return end_ - used_;
}

std::vector<CutGroup> plan_groups(const CutSlot& slot, std::int64_t samples, std::uint64_t begin,
                                  std::uint64_t scratch) {
    std::vector<CutGroup> groups = {{}};
    std::uint64_t at = begin;
    for (std::int64_t i = 0; i < samples; ++i) {
        CutPlace& place = slot.places()[i];
        if (place.cut != 0) {
            const DctCut& cut = *reinterpret_cast<const DctCut*>(slot.memory() + place.cut);
            const DecodedBytes bytes = decoded_bytes(cut);
            if (at - begin + bytes.sum() > scratch) {
                groups.push_back({.first = i});
                at = begin;
            }
            place.samples = at;
            place.pixels = at + bytes.samples;
            slot.draws()[i].image = place.pixels;
            at += bytes.sum();
            CutGroup& group = groups.back();
            group.rows = std::max(group.rows, cut.rows);
            group.pixels = std::max(group.pixels, static_cast<std::uint32_t>(cut.box.height * cut.box.width));
        }
        ++groups.back().count;
    }
    return groups;
}

}  // namespace stoker
