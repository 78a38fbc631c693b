// Internal to cache/: how both caches store a sample (a header, the lengths and pixel sizes of its parts, the image,
// the parts), and the accounting of their budget. The parts are the image's frames, and each field with its frames.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "stoker/pipeline/cache/sample_cache.h"

namespace stoker {

struct CachedHeader {
    std::int64_t label = -1;
    std::uint64_t bytes = 0;  // of the image
    std::int32_t height = 0;
    std::int32_t width = 0;         // of a clip: its frames
    std::uint32_t field_bytes = 0;  // of all parts, with their headers
    std::uint8_t channels = 0;      // at most kMaxChannels
    std::uint8_t pixels = 0;        // pixel_kind
    std::uint8_t encoded = 0;       // kClip: the value is a clip
    std::uint8_t fields = 0;

    std::size_t stored() const { return bytes + field_bytes; }  // what follows the header
};
static_assert(sizeof(CachedHeader) == 32);  // small samples are many

struct CachedPartHeader {
    std::uint64_t bytes = 0;
    std::int32_t height = 0;  // as in CachedHeader
    std::int32_t width = 0;
    std::uint8_t channels = 0;
    std::uint8_t pixels = 0;
    std::uint8_t encoded = 0;
    std::uint8_t unused[5] = {};
};
static_assert(sizeof(CachedPartHeader) == 24);

inline constexpr std::uint8_t kClip = 2;

// Type and layout of raw pixels in a byte; 0: none is known.
inline std::uint8_t pixel_kind(const FieldValue& value) {
    return value.dtype ? static_cast<std::uint8_t>(2 * (static_cast<int>(*value.dtype) + 1) + (value.planes ? 1 : 0))
                       : 0;
}
inline void set_pixel_kind(std::uint8_t kind, FieldValue& value) {
    value.planes = (kind & 1) != 0;
    value.dtype = kind < 2 ? std::nullopt : std::optional(static_cast<DType>(kind / 2 - 1));
}

// Calls visit(value) for each part, in order.
template <typename Visit>
void visit_parts(const Sample& sample, Visit visit) {
    std::ranges::for_each(sample.frames, visit);
    for (const FieldValue& field : sample.fields) {
        visit(field);
        std::ranges::for_each(field.frames, visit);
    }
}

// Sets what both headers have.
template <typename Header>
Header header_of_value(const FieldValue& value) {
    Header header;
    header.bytes = value.bytes.size();
    header.height = value.height;
    header.width = value.frames.empty() ? value.width : static_cast<std::int32_t>(value.frames.size());
    header.channels = static_cast<std::uint8_t>(value.channels);
    header.pixels = pixel_kind(value);
    header.encoded = !value.frames.empty() ? kClip : value.encoded ? std::uint8_t{1} : std::uint8_t{0};
    return header;
}

// Sets all but `storage`.
template <typename Header>
void set_value(const Header& header, std::span<const std::byte> bytes, FieldValue& value) {
    const bool clip = header.encoded == kClip;
    value.set_raw(bytes, header.height, clip ? 0 : header.width, header.channels);
    value.encoded = header.encoded == 1;
    set_pixel_kind(header.pixels, value);
    value.frames.resize(clip ? static_cast<std::size_t>(header.width) : 0);
}

// Empty for a sample that is not cached: its parts are too many or too long for a header.
inline std::optional<CachedHeader> header_of(const Sample& sample) {
    std::size_t bytes = 0;
    bool too_deep = sample.channels > UINT8_MAX;
    visit_parts(sample, [&](const FieldValue& part) {
        bytes += sizeof(CachedPartHeader) + part.bytes.size();
        too_deep = too_deep || part.channels > UINT8_MAX;
    });
    if (sample.fields.size() > UINT8_MAX || bytes > UINT32_MAX || too_deep) {
        return std::nullopt;
    }
    auto header = header_of_value<CachedHeader>(sample);
    header.label = sample.label;
    header.field_bytes = static_cast<std::uint32_t>(bytes);
    header.fields = static_cast<std::uint8_t>(sample.fields.size());
    return header;
}

// Calls write(bytes) for each part of what follows the header, in order.
template <typename Write>
void store_parts(const Sample& sample, Write write) {
    visit_parts(sample, [&](const FieldValue& part) {
        const auto header = header_of_value<CachedPartHeader>(part);
        write(std::as_bytes(std::span(&header, 1)));
    });
    write(sample.bytes);
    visit_parts(sample, [&](const FieldValue& part) { write(part.bytes); });
}

// The sample refers to `stored`, which is what follows the header.
inline void load_parts(const CachedHeader& header, std::span<const std::byte> stored, Sample& sample) {
    std::span<const std::byte> rest = stored;
    std::vector<FieldValue*> parts;
    const auto take_header = [&](FieldValue& value) {
        CachedPartHeader part;
        std::memcpy(&part, rest.data(), sizeof part);
        rest = rest.subspan(sizeof part);
        set_value(part, stored.first(part.bytes), value);  // for its size; the place is known below
        parts.push_back(&value);
    };
    set_value(header, {}, sample);
    sample.label = header.label;
    if (header.fields > 0) {
        sample.field(header.fields - std::size_t{1});  // none moves while `parts` points to them
    }
    std::ranges::for_each(sample.frames, take_header);
    for (std::size_t i = 0; i < header.fields; ++i) {
        take_header(sample.field(i));
        std::ranges::for_each(sample.fields[i].frames, take_header);
    }
    const auto take_bytes = [&rest](std::size_t size) {
        const auto taken = rest.first(size);
        rest = rest.subspan(size);
        return taken;
    };
    sample.bytes = take_bytes(header.bytes);
    for (FieldValue* part : parts) {
        part->bytes = take_bytes(part->bytes.size());
    }
}

// Adds `bytes` to `used` if the sum stays within the budget.
inline bool reserve_bytes(std::atomic<std::int64_t>& used, std::int64_t budget, std::int64_t bytes) {
    std::int64_t before = used.load(std::memory_order_relaxed);
    do {
        if (bytes > budget - before) {
            return false;
        }
    } while (!used.compare_exchange_weak(before, before + bytes));
    return true;
}

// A cache that takes eight bytes of memory per sample. Throws IoError if no file can be made in the directory.
std::unique_ptr<SampleCache> make_disk_cache(std::int64_t size, const CacheOptions& options);

}  // namespace stoker
