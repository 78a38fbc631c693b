// Internal to cache/: how both caches store a sample (a header, the lengths and pixel sizes of its fields, the image,
// the fields), and the accounting of their budget.
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
    std::int32_t width = 0;
    std::uint32_t field_bytes = 0;  // of all fields, with their headers
    std::uint8_t channels = 0;      // at most kMaxChannels
    std::uint8_t pixels = 0;        // pixel_kind
    std::uint8_t encoded = 0;
    std::uint8_t fields = 0;

    std::size_t stored() const { return bytes + field_bytes; }  // what follows the header
};
static_assert(sizeof(CachedHeader) == 32);  // small samples are many

struct CachedFieldHeader {
    std::uint64_t bytes = 0;
    std::int32_t height = 0;  // of raw pixels
    std::int32_t width = 0;
    std::uint8_t channels = 0;
    std::uint8_t pixels = 0;
    std::uint8_t encoded = 0;
    std::uint8_t unused[5] = {};
};
static_assert(sizeof(CachedFieldHeader) == 24);

// Type and layout of raw pixels in a byte; 0: none is known.
inline std::uint8_t pixel_kind(const FieldValue& value) {
    return value.dtype ? static_cast<std::uint8_t>(2 * (static_cast<int>(*value.dtype) + 1) + (value.planes ? 1 : 0))
                       : 0;
}
inline void set_pixel_kind(std::uint8_t kind, FieldValue& value) {
    value.planes = (kind & 1) != 0;
    value.dtype = kind < 2 ? std::nullopt : std::optional(static_cast<DType>(kind / 2 - 1));
}

// Bytes that the fields take, with their headers.
inline std::size_t field_bytes(const Sample& sample) {
    std::size_t bytes = sample.fields.size() * sizeof(CachedFieldHeader);
    for (const FieldValue& field : sample.fields) {
        bytes += field.bytes.size();
    }
    return bytes;
}

// Empty for a sample that is not cached: its fields are too many or too long for a header.
inline std::optional<CachedHeader> header_of(const Sample& sample) {
    const std::size_t bytes = field_bytes(sample);
    const auto too_deep = [](const FieldValue& value) { return value.channels > UINT8_MAX; };
    if (sample.fields.size() > UINT8_MAX || bytes > UINT32_MAX || too_deep(sample) ||
        std::ranges::any_of(sample.fields, too_deep)) {
        return std::nullopt;
    }
    return CachedHeader{.label = sample.label,
                        .bytes = sample.bytes.size(),
                        .height = sample.height,
                        .width = sample.width,
                        .field_bytes = static_cast<std::uint32_t>(bytes),
                        .channels = static_cast<std::uint8_t>(sample.channels),
                        .pixels = pixel_kind(sample),
                        .encoded = sample.encoded ? std::uint8_t{1} : std::uint8_t{0},
                        .fields = static_cast<std::uint8_t>(sample.fields.size())};
}

// Calls write(bytes) for each part of what follows the header, in order.
template <typename Write>
void store_parts(const Sample& sample, Write write) {
    for (const FieldValue& field : sample.fields) {
        const CachedFieldHeader header{.bytes = field.bytes.size(),
                                       .height = field.height,
                                       .width = field.width,
                                       .channels = static_cast<std::uint8_t>(field.channels),
                                       .pixels = pixel_kind(field),
                                       .encoded = field.encoded ? std::uint8_t{1} : std::uint8_t{0}};
        write(std::as_bytes(std::span(&header, 1)));
    }
    write(sample.bytes);
    for (const FieldValue& field : sample.fields) {
        write(field.bytes);
    }
}

// The sample refers to `stored`, which is what follows the header.
inline void load_parts(const CachedHeader& header, std::span<const std::byte> stored, Sample& sample) {
    const std::span<const std::byte> headers = stored.first(header.fields * sizeof(CachedFieldHeader));
    std::size_t at = headers.size();
    sample.bytes = stored.subspan(at, header.bytes);
    at += header.bytes;
    for (std::size_t i = 0; i < header.fields; ++i) {
        CachedFieldHeader field;
        std::memcpy(&field, headers.data() + i * sizeof field, sizeof field);
        FieldValue& value = sample.field(i);
        value.set_raw(stored.subspan(at, field.bytes), field.height, field.width, field.channels);
        value.encoded = field.encoded != 0;
        set_pixel_kind(field.pixels, value);
        at += field.bytes;
    }
}

// Sets everything but `bytes`, `storage` and `fields`.
inline void set_sample(const CachedHeader& header, Sample& sample) {
    sample.label = header.label;
    sample.height = header.height;
    sample.width = header.width;
    sample.channels = header.channels;
    sample.encoded = header.encoded != 0;
    set_pixel_kind(header.pixels, sample);
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
