// Opens a shard and checks every number in it. Payloads must follow each other in the order of samples and fields
// without gaps, so one comparison per payload rejects offsets that overlap, skip bytes or leave the file.
#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/formats/stk/stk_shard.h"

namespace stoker {
namespace {

constexpr std::uint64_t kMaxSide = std::uint64_t{1} << 31;  // height and width of raw pixels

// Limits the memory allocated for the index size that a server reports.
constexpr std::uint64_t kMaxRemoteIndex = std::uint64_t{1} << 30;

[[noreturn]] void bad(std::uint64_t offset, std::string expected, std::string got, std::string hint = "") {
    throw DataError({.path = "", .offset = static_cast<std::int64_t>(offset)},
                    {.where = "stk", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
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
           height * width * channels == entry.place.size;  // no overflow: below 2^64
}

// Whether `sides` is the shape of a tensor with elements of `item` bytes and a payload of `size` bytes.
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

void check_room(std::uint64_t size) {
    if (size < sizeof(StkHeader) + sizeof(StkFooter)) {
        bad(0, "a shard of an stk data set", fmt::format("a file of {} bytes", size));
    }
}

// Checks magic and version; check_header compares the other values with the footer's.
StkHeader parse_header(std::span<const std::byte> bytes, const std::string& path) {
    StkHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.magic != kStkMagic) {
        bad(0, "a shard of an stk data set", "another file");
    }
    check_stk_version(header.version, path);
    return header;
}

// Calls `call` with remote bytes; if they fail a check, once more with bytes fetched past all caches, since a proxy or
// cache may hold wrong ones.
template <typename Call>
void try_twice(const std::string& path, Call call) {
    try {
        call(/*anew=*/false);
        return;
    } catch (const DataError&) {
    } catch (const Unsupported&) {  // another version
    }
    with_place({.path = path}, [&] { call(/*anew=*/true); });
}

}  // namespace

StkShard::StkShard(const std::filesystem::path& path) : path_(path.string()), file_(path), map_(*file_) {
    if (file_->scarce()) {
        file_.reset();
    }
    with_place({.path = path_}, [&] { open_map(); });
}

StkShard::StkShard(std::unique_ptr<const ByteFile> file) : path_(file->name()), remote_(std::move(file)) {
    try_twice(path_, [&](bool anew) { open_remote(anew); });
}

void StkShard::open_map() {
    const auto bytes = map_.bytes();
    check_room(bytes.size());
    const StkHeader header = parse_header(bytes, path_);
    open_footer(bytes.last(sizeof footer_), bytes.size());
    check_header(header);
    index_ = bytes.data() + footer_.index_offset;
    open_schema();
    open_index();
}

void StkShard::open_remote(bool anew) {
    const auto read = [&](std::uint64_t offset, std::span<std::byte> out) {
        return anew ? remote_->read_anew(offset, out) : remote_->read(offset, out);
    };
    check_room(remote_->size());
    const std::uint64_t at = remote_->size() - sizeof footer_;
    std::array<std::byte, sizeof footer_> end{};
    read(at, end);
    open_footer(end, remote_->size());
    if (at - footer_.index_offset > kMaxRemoteIndex) {
        throw Unsupported({.where = path_,
                           .expected = fmt::format("an index of at most {} bytes", kMaxRemoteIndex),
                           .got = fmt::format("{}", at - footer_.index_offset),
                           .hint = "pack it again with smaller shards"});
    }
    tail_.resize(static_cast<std::size_t>(at - footer_.index_offset));
    read(footer_.index_offset, tail_.bytes());
    index_ = tail_.data();
    open_schema();
    open_index();
}

void StkShard::check_header(const StkHeader& header) const {
    if (header != StkHeader{.shard = footer_.shard, .first = footer_.first}) {
        bad(8, fmt::format("the header of shard {}", footer_.shard), fmt::format("that of shard {}", header.shard));
    }
}

void StkShard::verify_header() const {
    try_twice(path_, [&](bool anew) {
        std::array<std::byte, sizeof(StkHeader)> bytes{};
        anew ? remote_->read_anew(0, bytes) : remote_->read(0, bytes);
        check_header(parse_header(bytes, path_));
    });
}

// Checks that the footer, `bytes`, describes a file of this size.
void StkShard::open_footer(std::span<const std::byte> bytes, std::uint64_t file_size) {
    const std::uint64_t at = file_size - sizeof footer_;
    std::memcpy(&footer_, bytes.data(), sizeof footer_);
    if (footer_.magic != kStkMagic) {
        bad(at, "the end of a shard", "other bytes", "the shard is cut off: copy it again, or pack again");
    }
    check_stk_version(footer_.version, path_);
    check_hash("a footer", bytes.first(kStkFooterHashed), footer_.hash, at);
    const std::uint64_t index_limit = at - sizeof(StkHeader);
    const bool ordered = footer_.file_size == file_size && footer_.reserved == decltype(footer_.reserved){} &&
                         footer_.samples >= 1 && footer_.samples <= index_limit / sizeof(std::uint64_t) &&
                         footer_.samples <= kStkMaxSamples && footer_.first <= kStkMaxSamples &&
                         footer_.index_offset >= sizeof(StkHeader) && footer_.index_offset <= at &&
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
    const std::span text(index_ + footer_.index_size, static_cast<std::size_t>(footer_.schema_size));
    check_hash("a schema", text, footer_.schema_hash, footer_.schema_offset);
    for (std::uint64_t at = end; at < stk_align(end); ++at) {
        if (index_[at - footer_.index_offset] != std::byte{0}) {
            bad(at, "zeros after the schema", "another byte");
        }
    }
    schema_ = decode_schema(text);
    entry_sizes_.clear();
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
    check_hash("an index", std::span(index_, static_cast<std::size_t>(footer_.index_size)), footer_.index_hash,
               footer_.index_offset);
    check_keys();
    check_places();
    for (std::size_t field = 0; field < schema_.fields.size(); ++field) {
        check_column(field);
    }
    find_uniform_fields();
}

void StkShard::check_keys() const {
    const std::span ends(column<std::uint64_t>(layout_.key_ends), footer_.samples);
    std::uint64_t before = 0;
    for (const std::uint64_t& end : ends) {
        if (end < before || end - before > kStkMaxKey) {
            bad(offset_of(&end), "keys that follow each other", fmt::format("a key from {} to {}", before, end));
        }
        before = end;
    }
    if (before != footer_.index_size - layout_.key_text) {
        bad(offset_of(&ends.back()), "keys that fill the index", fmt::format("{} bytes of keys", before));
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
                bad(offset_of(&at), fmt::format("a payload at {} that ends before {}", next, footer_.index_offset),
                    fmt::format("a payload at {} of {} bytes", at.offset, at.size));
            }
            next = stk_align(next + at.size);
        }
    }
    if (next != footer_.index_offset) {
        bad(next, fmt::format("payloads up to {}", footer_.index_offset), fmt::format("payloads up to {}", next));
    }
}

void StkShard::find_uniform_fields() {
    uniform_.assign(schema_.fields.size(), std::nullopt);
    for (std::size_t field = 0; field < schema_.fields.size(); ++field) {
        if (schema_.fields[field].kind != StkKind::image) {
            continue;
        }
        const std::span entries(column<StkImageEntry>(layout_.fields[field]), footer_.samples);
        const StkImageEntry& first = entries.front();
        const std::uint64_t step = entries.size() > 1 ? entries[1].place.offset - first.place.offset : 0;
        std::uint64_t offset = first.place.offset - step;
        const bool uniform = std::ranges::all_of(entries, [&](const StkImageEntry& entry) {
            offset += step;
            return entry.place.offset == offset && entry.place.size == first.place.size && entry.codec == first.codec &&
                   entry.flags == first.flags && entry.height == first.height && entry.width == first.width &&
                   entry.channels == first.channels;
        });
        if (uniform) {
            uniform_[field] = Uniform{.first = first, .step = step};
        }
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
                refuse(i, fmt::format("a shape that does not fit {} bytes", at.size));
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
