// Reads samples. stk_shard_check.cpp opens a shard and does the checks that make these reads safe.
#include "stoker/formats/stk/stk_shard.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {
namespace {

// Describes the damage of a payload and its padding, `bytes`; empty if there is none.
std::string damage(const StkPlace& place, std::span<const std::byte> bytes) {
    const auto size = static_cast<std::size_t>(place.size);
    if (const std::uint64_t hash = hash_bytes(bytes.first(size)); hash != place.hash) {
        return fmt::format("{:016x}", hash);
    }
    const bool zeros = std::ranges::all_of(bytes.subspan(size), [](std::byte byte) { return byte == std::byte{0}; });
    return zeros ? "" : "non-zero padding after them";
}

}  // namespace

std::string_view StkShard::key(std::int64_t sample) const {
    const auto* ends = column<std::uint64_t>(layout_.key_ends);
    const std::uint64_t begin = sample == 0 ? 0 : ends[sample - 1];
    const std::uint64_t end = std::max(ends[sample], begin);  // checked when opened; 0 if the file was cut short since
    return {column<char>(layout_.key_text) + begin, static_cast<std::size_t>(end - begin)};
}

double StkShard::number(std::size_t field, std::int64_t sample) const {
    return column<double>(layout_.fields[field])[sample];
}

StkBytes StkShard::bytes(std::size_t field, std::int64_t sample) const {
    need_map();
    return payload(place(field, sample));
}

TensorView StkShard::tensor(std::size_t field, std::int64_t sample) const {
    need_map();
    return {.data = const_cast<std::byte*>(payload(place(field, sample)).data()),
            .dtype = schema_.fields[field].dtype,
            .shape = tensor_shape(field, sample)};
}

Shape StkShard::tensor_shape(std::size_t field, std::int64_t sample) const {
    const auto* sides = reinterpret_cast<const std::int64_t*>(&place(field, sample) + 1);
    return {sides, sides + schema_.fields[field].rank};
}

void StkShard::need_map() const {
    if (remote()) {
        throw Unsupported({.where = path_, .expected = "a local shard, whose payloads are in memory", .got = "a URL"});
    }
}

void StkShard::verify(std::int64_t sample) const {
    if (remote() && sample == 0) {
        verify_header();
    }
    Buffer copy;
    for (std::size_t field = 0; field < schema_.fields.size(); ++field) {
        if (!schema_.fields[field].has_payload()) {
            continue;
        }
        const StkPlace& at = place(field, sample);
        const auto size = static_cast<std::size_t>(stk_align(at.size));
        if (remote()) {
            copy.resize(size);
            fetch(at, sample, copy.bytes());
        } else if (std::string got = damage(at, map_.bytes().subspan(at.offset, size)); !got.empty()) {
            fail(at, sample, std::move(got));
        }
    }
}

void StkShard::fail(const StkPlace& place, std::int64_t sample, std::string got) const {
    throw DataError({.path = path_, .key = std::string(key(sample)), .offset = static_cast<std::int64_t>(place.offset)},
                    {.where = "stk",
                     .expected = fmt::format("bytes of hash {:016x}", place.hash),
                     .got = std::move(got),
                     .hint = "the shard is damaged: copy it again, or pack again"});
}

// Bytes that fail the check are read once more past all caches: a proxy or cache may hold wrong ones.
void StkShard::fetch(const StkPlace& place, std::int64_t sample, std::span<std::byte> out) const {
    remote_->read(place.offset, out);
    if (damage(place, out).empty()) {
        return;
    }
    remote_->read_anew(place.offset, out);
    if (std::string got = damage(place, out); !got.empty()) {
        fail(place, sample, std::move(got));
    }
}

const StkPlace& StkShard::place(std::size_t field, std::int64_t sample) const {
    const std::uint64_t at = static_cast<std::uint64_t>(sample) * entry_sizes_[field];
    return *column<StkPlace>(layout_.fields[field] + at);
}

ByteRange StkShard::payload_range(std::size_t field, std::int64_t sample) const {
    const StkPlace& at = place(field, sample);
    return {.offset = at.offset, .size = at.size};
}

void StkShard::read(std::size_t field, std::int64_t sample, std::span<std::byte> out) const {
    const StkPlace& at = place(field, sample);
    if (remote()) {
        fetch(at, sample, out);
    } else if (file_) {
        file_->read(at.offset, out);
    } else {
        std::ranges::copy(payload(at), out.begin());
    }
}

bool StkShard::in_memory(std::size_t field, std::int64_t sample) const {
    const ByteRange range = payload_range(field, sample);
    return file_ && file_->in_memory(range.offset, range.size);
}

void StkShard::will_need(std::size_t field, std::int64_t sample) const {
    if (const ByteRange range = payload_range(field, sample); file_) {
        file_->will_need(range.offset, range.size);
    }
}

void StkShard::prefetch(std::span<const ByteRange> ranges) const {
    if (remote()) {
        remote_->prefetch(ranges);
    }
}

std::uint64_t StkShard::offset_of(const void* at) const {
    return footer_.index_offset + static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - index_);
}

}  // namespace stoker
