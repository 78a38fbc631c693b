// Reading is here, the checks that make it safe are in stk_shard_check.cpp.
#include "stoker/formats/stk_shard.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {

std::string_view StkShard::key(std::int64_t sample) const {
    const auto* ends = column<std::uint64_t>(layout_.key_ends);
    const std::uint64_t begin = sample == 0 ? 0 : ends[sample - 1];
    return {column<char>(layout_.key_text) + begin, static_cast<std::size_t>(ends[sample] - begin)};
}

StkImage StkShard::image(std::size_t field, std::int64_t sample) const {
    const auto& entry = column<StkImageEntry>(layout_.fields[field])[sample];
    return {.bytes = payload(entry.place),
            .codec = static_cast<StkCodec>(entry.codec),
            .height = static_cast<int>(entry.height),
            .width = static_cast<int>(entry.width),
            .channels = static_cast<int>(entry.channels),
            .original_file = (entry.flags & kStkOriginalFile) != 0};
}

void StkShard::prefetch_image(std::size_t field, std::int64_t sample) const {
    __builtin_prefetch(column<StkImageEntry>(layout_.fields[field]) + sample);
}

std::int64_t StkShard::integer(std::size_t field, std::int64_t sample) const {
    return column<std::int64_t>(layout_.fields[field])[sample];
}

double StkShard::number(std::size_t field, std::int64_t sample) const {
    return column<double>(layout_.fields[field])[sample];
}

StkBytes StkShard::bytes(std::size_t field, std::int64_t sample) const {
    return payload(place(field, sample));
}

TensorView StkShard::tensor(std::size_t field, std::int64_t sample) const {
    const StkPlace& at = place(field, sample);
    const auto* sides = reinterpret_cast<const std::int64_t*>(&at + 1);
    return {.data = const_cast<std::byte*>(payload(at).data()),
            .dtype = schema_.fields[field].dtype,
            .shape = {sides, sides + schema_.fields[field].rank}};
}

void StkShard::verify(std::int64_t sample) const {
    for (std::size_t field = 0; field < schema_.fields.size(); ++field) {
        if (!schema_.fields[field].has_payload()) {
            continue;
        }
        const StkPlace& at = place(field, sample);
        const std::span<const std::byte> bytes = payload(at);
        const std::span<const std::byte> gap(bytes.data() + bytes.size(),
                                             static_cast<std::size_t>(stk_align(at.size) - at.size));
        const std::uint64_t hash = hash_bytes(bytes);
        const bool zeros = std::ranges::all_of(gap, [](std::byte byte) { return byte == std::byte{0}; });
        if (hash != at.hash || !zeros) {
            throw DataError({.path = path_, .key = std::string(key(sample)), .offset = offset_of(bytes.data())},
                            {.where = "stk",
                             .expected = fmt::format("bytes of hash {:016x}", at.hash),
                             .got = zeros ? fmt::format("{:016x}", hash) : "other bytes than zeros after them",
                             .hint = "the shard is damaged: copy it again, or pack again"});
        }
    }
}

const StkPlace& StkShard::place(std::size_t field, std::int64_t sample) const {
    const std::uint64_t at = static_cast<std::uint64_t>(sample) * entry_sizes_[field];
    return *column<StkPlace>(layout_.fields[field] + at);
}

std::span<const std::byte> StkShard::payload(const StkPlace& place) const {
    return file_.bytes().subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.size));
}

void StkShard::read(std::span<const std::byte> payload, std::span<std::byte> out) const {
    if (reads_) {
        reads_->read(static_cast<std::uint64_t>(offset_of(payload.data())), out);
    } else {
        std::ranges::copy(payload.first(out.size()), out.begin());
    }
}

std::int64_t StkShard::offset_of(const void* at) const {
    return static_cast<const std::byte*>(at) - file_.bytes().data();
}

}  // namespace stoker
