// Opens a shard and trusts nothing in it. The layout leaves no freedom: payloads follow each other in the
// order of samples and fields without a gap, so offsets that overlap, leave the file or skip a part of it
// all fail the same comparison.
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/formats/stk_shard.h"

namespace stoker {
namespace {

constexpr std::uint64_t kMaxSide = std::uint64_t{1} << 31;  // of raw pixels

[[noreturn]] void bad(std::uint64_t offset, std::string expected, std::string got, std::string hint = "") {
    throw DataError({.path = "", .offset = static_cast<std::int64_t>(offset)},
                    {.where = "stk", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

void check_version(std::uint32_t version, const std::string& path) {
    if (version != kStkVersion) {
        throw Unsupported({.where = path,
                           .expected = fmt::format("version {} of the stk format", kStkVersion),
                           .got = fmt::format("version {}", version),
                           .hint = "read it with the release of Stoker that wrote it, or pack again"});
    }
}

void check_hash(std::string_view what, std::span<const std::byte> bytes, std::uint64_t expected, std::uint64_t offset) {
    if (const std::uint64_t hash = hash_bytes(bytes); hash != expected) {
        bad(offset, fmt::format("{} of hash {:016x}", what, expected), fmt::format("{:016x}", hash),
            "the shard is damaged: copy it again, or pack again");
    }
}

bool fits(const StkImageEntry& entry) {
    const std::uint64_t height = entry.height;
    const std::uint64_t width = entry.width;
    const std::uint64_t channels = entry.channels;
    if ((entry.flags & ~kStkOriginalFile) != 0) {
        return false;
    }
    if (entry.codec != static_cast<std::uint16_t>(StkCodec::raw)) {
        return height == 0 && width == 0 && channels == 0;
    }
    return height >= 1 && height < kMaxSide && width >= 1 && width < kMaxSide && channels >= 1 && channels <= 4 &&
           height * width * channels == entry.place.size;  // below 2^64
}

// `sides` of a tensor whose payload has `size` bytes.
bool fits(std::span<const std::int64_t> sides, std::uint64_t item, std::uint64_t size) {
    const bool possible =
        std::ranges::all_of(sides, [](std::int64_t side) { return side >= 0 && side <= kStkMaxSide; });
    if (!possible || std::ranges::find(sides, 0) != sides.end()) {
        return possible && size == 0;
    }
    std::uint64_t elements = 1;
    for (const std::int64_t side : sides) {
        if (elements > size / static_cast<std::uint64_t>(side)) {
            return false;
        }
        elements *= static_cast<std::uint64_t>(side);
    }
    return elements * item == size;
}

}  // namespace

StkShard::StkShard(const std::filesystem::path& path) : path_(path.string()), reads_(path), file_(*reads_) {
    if (reads_->scarce()) {
        reads_.reset();
    }
    try {
        open_ends();
        open_schema();
        open_index();
    } catch (const DataError& error) {
        throw error.located({.path = path_});
    }
}

// Header and footer say the same and describe a file of this size.
void StkShard::open_ends() {
    const auto bytes = file_.bytes();
    StkHeader header;
    if (bytes.size() < sizeof header + sizeof footer_) {
        bad(0, "a shard of an stk data set", fmt::format("a file of {} bytes", bytes.size()));
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.magic != kStkMagic) {
        bad(0, "a shard of an stk data set", "a file that begins otherwise");
    }
    check_version(header.version, path_);
    const std::size_t at = bytes.size() - sizeof footer_;
    std::memcpy(&footer_, bytes.data() + at, sizeof footer_);
    if (footer_.magic != kStkMagic) {
        bad(at, "the end of a shard", "other bytes", "the shard is cut off: copy it again, or pack again");
    }
    check_version(footer_.version, path_);
    check_hash("a footer", bytes.subspan(at, kStkFooterHashed), footer_.hash, at);
    if (header != StkHeader{.shard = footer_.shard, .first = footer_.first}) {
        bad(8, fmt::format("the header of shard {}", footer_.shard), fmt::format("that of shard {}", header.shard));
    }
    const std::uint64_t index_limit = at - sizeof header;
    const bool ordered = footer_.file_size == bytes.size() && footer_.reserved == decltype(footer_.reserved){} &&
                         footer_.samples >= 1 && footer_.samples <= index_limit / sizeof(std::uint64_t) &&
                         footer_.samples <= kStkMaxSamples && footer_.first <= kStkMaxSamples &&
                         footer_.index_offset >= sizeof header && footer_.index_offset <= at &&
                         footer_.index_offset % kStkAlignment == 0 && footer_.index_size <= at - footer_.index_offset &&
                         footer_.schema_offset == footer_.index_offset + footer_.index_size &&
                         footer_.schema_size <= at - footer_.schema_offset &&
                         stk_align(footer_.schema_offset + footer_.schema_size) == at;
    if (!ordered) {
        bad(at, "a footer that describes this file",
            fmt::format("{} samples, index {} + {}, schema {} + {}, file of {}", footer_.samples, footer_.index_offset,
                        footer_.index_size, footer_.schema_offset, footer_.schema_size, footer_.file_size));
    }
}

void StkShard::open_schema() {
    const std::uint64_t end = footer_.schema_offset + footer_.schema_size;
    const auto bytes = file_.bytes();
    const auto text = bytes.subspan(footer_.schema_offset, footer_.schema_size);
    check_hash("a schema", text, footer_.schema_hash, footer_.schema_offset);
    for (std::uint64_t at = end; at < stk_align(end); ++at) {
        if (bytes[at] != std::byte{0}) {
            bad(at, "zeros after the schema", "another byte");
        }
    }
    schema_ = decode_schema(text);
    for (const StkField& field : schema_.fields) {
        entry_sizes_.push_back(stk_entry_size(field));
    }
    layout_ = stk_layout(schema_, footer_.samples);
}

void StkShard::open_index() {
    if (layout_.key_text > footer_.index_size) {
        bad(footer_.index_offset, fmt::format("an index of {} samples", footer_.samples),
            fmt::format("{} bytes", footer_.index_size));
    }
    check_hash("an index", file_.bytes().subspan(footer_.index_offset, footer_.index_size), footer_.index_hash,
               footer_.index_offset);
    check_keys();
    check_places();
    for (std::size_t field = 0; field < schema_.fields.size(); ++field) {
        check_column(field);
    }
}

void StkShard::check_keys() const {
    const std::span ends(column<std::uint64_t>(layout_.key_ends), footer_.samples);
    std::uint64_t before = 0;
    for (const std::uint64_t& end : ends) {
        if (end < before || end - before > kStkMaxKey) {
            bad(static_cast<std::uint64_t>(offset_of(&end)), "keys one after the other",
                fmt::format("one from {} to {}", before, end));
        }
        before = end;
    }
    if (before != footer_.index_size - layout_.key_text) {
        bad(static_cast<std::uint64_t>(offset_of(&ends.back())), "keys that fill the index",
            fmt::format("{} bytes of them", before));
    }
}

void StkShard::check_places() const {
    std::uint64_t next = sizeof(StkHeader);
    for (std::int64_t sample = 0; sample < samples(); ++sample) {
        for (std::size_t field = 0; field < schema_.fields.size(); ++field) {
            if (!schema_.fields[field].has_payload()) {
                continue;
            }
            const StkPlace& at = place(field, sample);
            if (at.offset != next || at.size > footer_.index_offset - next) {
                bad(static_cast<std::uint64_t>(offset_of(&at)),
                    fmt::format("a payload at {} that ends before {}", next, footer_.index_offset),
                    fmt::format("one at {} of {} bytes", at.offset, at.size));
            }
            next = stk_align(next + at.size);
        }
    }
    if (next != footer_.index_offset) {
        bad(next, fmt::format("payloads up to {}", footer_.index_offset), fmt::format("their end at {}", next));
    }
}

void StkShard::check_column(std::size_t number) const {
    const StkField& field = schema_.fields[number];
    const auto refuse = [&](std::int64_t sample, std::string got) {
        const auto at = static_cast<std::uint64_t>(sample) * entry_sizes_[number];
        bad(footer_.index_offset + layout_.fields[number] + at, fmt::format("an entry of field {}", field.name),
            std::move(got));
    };
    if (field.kind == StkKind::image) {
        const auto* entries = column<StkImageEntry>(layout_.fields[number]);
        for (std::int64_t i = 0; i < samples(); ++i) {
            if (const StkImageEntry& entry = entries[i]; !fits(entry)) {
                refuse(i, fmt::format("codec {}, flags {}, {} x {} x {} pixels in {} bytes", entry.codec, entry.flags,
                                      entry.height, entry.width, entry.channels, entry.place.size));
            }
        }
    } else if (field.kind == StkKind::tensor) {
        const std::uint64_t item = item_size(field.dtype);
        for (std::int64_t i = 0; i < samples(); ++i) {
            const StkPlace& at = place(number, i);
            const std::span sides(reinterpret_cast<const std::int64_t*>(&at + 1), static_cast<std::size_t>(field.rank));
            if (!fits(sides, item, at.size)) {
                refuse(i, fmt::format("another shape than that of {} bytes", at.size));
            }
        }
    } else if (field.kind == StkKind::label) {
        const auto classes = static_cast<std::int64_t>(field.classes.size());
        const std::span labels(column<std::int64_t>(layout_.fields[number]), footer_.samples);
        const auto wrong = std::ranges::find_if(
            labels, [&](std::int64_t label) { return label < -1 || (classes > 0 && label >= classes); });
        if (wrong != labels.end()) {
            refuse(wrong - labels.begin(), fmt::format("label {} of {} classes", *wrong, classes));
        }
    }
}

}  // namespace stoker
