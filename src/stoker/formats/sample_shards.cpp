// Tables are read when the data set is opened, by several threads: four bytes a sample, so that reading one takes one
// access. A packed shard's table is in its unpacked bytes.
#include "stoker/formats/sample_shards.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/memory_limit.h"
#include "stoker/formats/part_budget.h"
#include "stoker/formats/shard_names.h"
#include "stoker/io/gzip.h"
#include "stoker/io/zstd.h"

namespace stoker {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint32_t);

std::uint32_t word_at(std::span<const std::byte> bytes, std::uint64_t at) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return word;
}

// The bytes of the count and the offsets.
std::uint64_t table_bytes(std::int64_t samples) {
    return (static_cast<std::uint64_t>(samples) + 2) * kWord;
}

[[noreturn]] void bad(const char* where, std::string expected, std::string got, std::optional<std::int64_t> at = {}) {
    throw DataError({.path = "", .offset = at},
                    {.where = where, .expected = std::move(expected), .got = std::move(got)});
}

void check_count(const ShardInfo& shard, std::uint64_t bytes, std::uint32_t count) {
    if (count != shard.samples) {
        bad("samples", fmt::format("{} samples, as the index says", shard.samples), fmt::format("{}", count), 0);
    }
    if (bytes < table_bytes(shard.samples)) {
        bad("samples", fmt::format("a table of {} bytes", table_bytes(shard.samples)), fmt::format("{} bytes", bytes));
    }
}

// Decides zstd_or_none: a plain shard that begins with the same bytes had more samples than 4 GiB have offsets for.
// Sets the unpacked size that a zstd frame states.
void look_at_head(const ByteFile& file, ShardInfo& shard) {
    const bool stated = shard.packing == ShardPacking::zstd && shard.raw_size;
    if (stated || shard.packing == ShardPacking::none || shard.packing == ShardPacking::gzip) {
        return;
    }
    std::array<std::byte, kZstdHead> bytes{};
    const auto head = std::span(bytes).first(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), kZstdHead)));
    file.read(0, head);
    if (shard.packing == ShardPacking::zstd_or_none) {
        shard.packing = is_zstd(head) ? ShardPacking::zstd : ShardPacking::none;
    }
    if (shard.packing == ShardPacking::zstd) {
        shard.raw_size = zstd_stated_size(head);
    }
}

// The bytes of a packed shard's content; if nothing states them, the most that it can have.
std::uint64_t most_unpacked(const ShardInfo& shard, std::uint64_t size) {
    const std::uint64_t most = size * (shard.packing == ShardPacking::gzip ? kMaxGzipRatio : kMaxZstdRatio);
    return std::min(most, shard.raw_size.value_or(most));
}

void check_packed_count(const ShardInfo& shard, std::uint64_t size) {
    if (const std::uint64_t most = most_unpacked(shard, size); table_bytes(shard.samples) > most) {
        bad("samples", fmt::format("at most {} unpacked bytes, with a table of {} samples", most, shard.samples),
            fmt::format("a table of {} bytes", table_bytes(shard.samples)));
    }
}

Buffer unzstd_all(std::span<const std::byte> frame, std::optional<std::uint64_t> expected) {
    const std::uint64_t size = zstd_content_size(frame);
    if (expected && size != *expected) {
        bad("zstd", fmt::format("{} bytes of content, as the index says", *expected), fmt::format("{}", size));
    }
    require_memory(size, "");
    Buffer raw(static_cast<std::size_t>(size));
    unzstd(frame, raw.bytes());
    return raw;
}

Buffer ungzip_all(std::span<const std::byte> packed, std::uint64_t size) {
    if (size > packed.size() * kMaxGzipRatio) {
        bad("gzip", fmt::format("a size that {} bytes can have", packed.size()), fmt::format("{} bytes", size));
    }
    require_memory(size, "");
    Buffer raw(static_cast<std::size_t>(size));
    GzipReader reader(packed);
    std::byte more{};
    const std::size_t got = reader.read(raw.bytes());
    if (got != size || reader.read({&more, 1}) != 0 || reader.truncated()) {
        bad("gzip", fmt::format("{} bytes of content, as the index says", size), "another size");
    }
    return raw;
}

// The bytes of `all` from `begin` to `end`.
std::span<const std::byte> slice(std::span<const std::byte> all, std::uint64_t begin, std::uint64_t end) {
    if (begin > end || end > all.size()) {
        bad("samples", fmt::format("a sample within {} bytes", all.size()), fmt::format("{} to {}", begin, end));
    }
    return all.subspan(begin, end - begin);
}

}  // namespace

void make_unique_names(std::vector<ShardInfo>& shards) {
    std::vector<std::string> names;
    std::ranges::transform(shards, std::back_inserter(names), &ShardInfo::name);
    make_unique(names);
    for (std::size_t at = 0; at < shards.size(); ++at) {
        shards[at].name = std::move(names[at]);
    }
}

ShardTable read_shard_table(const ByteFile& file, const ShardInfo& shard) {
    std::uint32_t count = 0;
    if (file.size() < kWord) {
        bad("samples", "a shard of samples", fmt::format("{} bytes", file.size()));
    }
    file.read(0, std::as_writable_bytes(std::span(&count, 1)));
    check_count(shard, file.size(), count);
    const auto entries = static_cast<std::size_t>(shard.samples) + 1;
    require_memory(entries * kWord, "");
    ShardTable table{.offsets = std::vector<std::uint32_t>(entries), .parts = {}};
    file.read(kWord, std::as_writable_bytes(std::span(table.offsets)));
    return table;
}

std::span<const std::byte> SampleBytes::piece(std::size_t offset, std::size_t size, Buffer& storage) const {
    const std::span<const std::byte> part = bytes_.subspan(offset, size);
    if (mapped_ != nullptr) {
        return mapped_->get(part, **file_, offset_ + offset, storage);
    }
    storage.resize(size);
    std::ranges::copy(part, storage.data());
    return storage.bytes();
}

SampleShards::SampleShards(std::vector<ShardInfo> shards, ShardFiles::Open open, const ReadTable& read_table)
    : shards_(std::move(shards)),
      reader_(
          [&] {
              std::vector<std::string> names;
              std::ranges::transform(shards_, std::back_inserter(names), &ShardInfo::file);
              return names;
          }(),
          std::move(open)),
      tables_(shards_.size()) {
    make_unique_names(shards_);
    reader_.index([&](std::size_t shard, const ByteFile& file) {
        with_place({.path = shown_name(shards_[shard].file)}, [&] { this->read_table(shard, file, read_table); });
        return shards_[shard].samples;
    });
    for (std::size_t at = 0; at < shards_.size(); ++at) {
        packed_ = packed_ || shards_[at].packing != ShardPacking::none || !tables_[at].parts.empty();
    }
    make_cache();
}

void SampleShards::read_table(std::size_t shard, const ByteFile& file, const ReadTable& read_table) {
    ShardInfo& info = shards_[shard];
    if (info.size && file.size() != *info.size) {
        bad("samples", fmt::format("a file of {} bytes, as the index says", *info.size),
            fmt::format("{}", file.size()));
    }
    look_at_head(file, info);
    if (info.packing == ShardPacking::none) {
        tables_[shard] = read_table(file, info);
    } else {
        check_packed_count(info, file.size());
    }
}

void SampleShards::make_cache() {
    PartSizes sizes{.stored = static_cast<std::uint64_t>(bytes())};
    for (std::size_t at = 0; at < shards_.size(); ++at) {
        if (shards_[at].packing != ShardPacking::none) {
            sizes.add(most_unpacked(shards_[at], reader_.file_size(at)));
        }
        for (const ShardPart& part : tables_[at].parts) {
            sizes.add(std::max(part.raw_size, part.range.size));
        }
    }
    const PartBudget budget = part_budget(sizes);
    cache_ = std::make_unique<PartCache<Buffer>>(budget.bytes);
    unpacks_again_ = budget.short_of_windows;
}

std::string SampleShards::key(std::int64_t index) const {
    const Place at = reader_.place(index);
    return fmt::format("{}/{}", shards_[at.shard].name, at.sample);
}

// 0 where only the unpacked bytes say it.
std::uint64_t SampleShards::begin_of(const Place& at) const {
    const ShardTable& table = tables_[at.shard];
    if (!table.parts.empty()) {
        return table.parts[part_of(at)].range.offset;
    }
    return table.offsets.empty() ? 0 : table.offsets[static_cast<std::size_t>(at.sample)];
}

DataPlace SampleShards::where(std::int64_t index) const {
    const Place at = reader_.place(index);
    return {.path = shown_name(shards_[at.shard].file),
            .key = key(index),
            .offset = static_cast<std::int64_t>(begin_of(at))};
}

std::size_t SampleShards::part_of(const Place& at) const {
    const std::vector<ShardPart>& parts = tables_[at.shard].parts;
    const auto after = std::ranges::upper_bound(parts, at.sample, {}, &ShardPart::first);
    return static_cast<std::size_t>(after - parts.begin()) - 1;
}

// Parts of all shards have different numbers: a shard has at most 2^32 samples.
std::shared_ptr<const Buffer> SampleShards::unpacked_part(std::size_t shard, std::size_t part) const {
    return cache_->get(std::uint64_t{shard} << 32 | part, [&] {
        const ShardPart& packed = tables_[shard].parts[part];
        Buffer storage;
        return reader_.read_checked(shard, packed.range, storage, [&](std::span<const std::byte> bytes) {
            return tables_[shard].unpack ? tables_[shard].unpack(bytes, shown_name(shards_[shard].file))
                                         : unzstd_all(bytes, packed.raw_size);
        });
    });
}

std::shared_ptr<const Buffer> SampleShards::unpacked_shard(std::size_t shard) const {
    return cache_->get(std::uint64_t{shard} << 32, [&] {
        const ShardInfo& info = shards_[shard];
        Buffer storage;
        const ByteRange all{.offset = 0, .size = reader_.file_size(shard)};
        return reader_.read_checked(shard, all, storage, [&](std::span<const std::byte> packed) {
            Buffer raw = info.packing == ShardPacking::gzip ? ungzip_all(packed, info.raw_size.value_or(0))
                                                            : unzstd_all(packed, info.raw_size);
            if (raw.size() < kWord) {
                bad("samples", "a shard of samples", fmt::format("{} bytes", raw.size()));
            }
            check_count(info, raw.size(), word_at(raw.bytes(), 0));
            return raw;
        });
    });
}

void SampleShards::read_packed(const Place& at, SampleBytes& sample) const {
    const ShardTable& table = tables_[at.shard];
    const auto number = static_cast<std::size_t>(at.sample);
    if (table.parts.empty() || table.unpack) {
        const std::size_t part = table.unpack ? part_of(at) : 0;
        sample.part_ = table.unpack ? unpacked_part(at.shard, part) : unpacked_shard(at.shard);
        const auto all = sample.part_->bytes();
        const std::uint64_t first = table.unpack ? static_cast<std::uint64_t>(table.parts[part].first) : 0;
        const std::uint64_t entry = (number - first + 1) * kWord;
        sample.bytes_ = slice(all, word_at(all, entry), word_at(all, entry + kWord));
        return;
    }
    const std::size_t part = part_of(at);
    const std::uint32_t base = table.offsets[static_cast<std::size_t>(table.parts[part].first)];
    const std::uint32_t begin = table.offsets[number];
    if (begin < base || table.offsets[number + 1] < begin) {
        bad("samples", "growing offsets", fmt::format("{} to {}", begin, table.offsets[number + 1]));
    }
    sample.part_ = unpacked_part(at.shard, part);
    sample.bytes_ = slice(sample.part_->bytes(), begin - base, table.offsets[number + 1] - base);
}

void SampleShards::read_plain(const Place& at, SampleBytes& sample) const {
    const ShardTable& table = tables_[at.shard];
    const auto number = static_cast<std::size_t>(at.sample);
    const std::uint64_t begin = table.offsets[number];
    const std::uint64_t end = table.offsets[number + 1];
    if (begin > end || end > reader_.file_size(at.shard)) {
        bad("samples", fmt::format("a sample within {} bytes", reader_.file_size(at.shard)),
            fmt::format("{} to {}", begin, end));
    }
    if (table.each_packed) {
        Buffer storage;
        sample.own_ = reader_.read_checked(at.shard, {.offset = begin, .size = end - begin}, storage,
                                           [](auto frame) { return unzstd_all(frame, std::nullopt); });
        sample.bytes_ = sample.own_.bytes();
        return;
    }
    sample.file_ = reader_.files().open(at.shard);
    const ByteFile& file = **sample.file_;
    const std::span<const std::byte> map = file.map();
    if (map.empty()) {
        sample.own_.resize(end - begin);
        file.read(begin, sample.own_.bytes());
        sample.bytes_ = sample.own_.bytes();
        return;
    }
    sample.bytes_ = slice(map, begin, end);
    if (sample.file_->stays_open()) {
        sample.offset_ = begin;
        sample.mapped_ = &reader_.map_or_read();
    }
}

SampleBytes SampleShards::sample(std::int64_t index) const {
    const Place at = reader_.place(index);
    SampleBytes sample;
    try {
        if (shards_[at.shard].packing == ShardPacking::none && tables_[at.shard].parts.empty()) {
            read_plain(at, sample);
        } else {
            read_packed(at, sample);
        }
    } catch (const DataError& error) {
        throw error.located(where(index));
    }
    return sample;
}

std::vector<std::int64_t> SampleShards::shard_sizes() const {
    std::vector<std::int64_t> sizes;
    if (!packed_ && !reader_.files().remote()) {
        return sizes;
    }
    for (std::size_t at = 0; at < shards_.size(); ++at) {
        const std::vector<ShardPart>& packed = tables_[at].parts;
        for (std::size_t i = 0; i < std::max<std::size_t>(packed.size(), 1); ++i) {
            const std::int64_t begin = packed.empty() ? 0 : packed[i].first;
            sizes.push_back((i + 1 < packed.size() ? packed[i + 1].first : shards_[at].samples) - begin);
        }
    }
    std::erase(sizes, 0);
    return sizes;
}

// The bytes in the file that a sample needs; empty for damaged places.
ByteRange SampleShards::stored_range(const Place& at) const {
    const ShardTable& table = tables_[at.shard];
    if (shards_[at.shard].packing != ShardPacking::none) {
        return {.offset = 0, .size = reader_.file_size(at.shard)};
    }
    if (!table.parts.empty()) {
        return table.parts[part_of(at)].range;
    }
    const auto number = static_cast<std::size_t>(at.sample);
    const std::uint64_t begin = table.offsets[number];
    const std::uint64_t end = table.offsets[number + 1];
    return begin > end || end > reader_.file_size(at.shard) ? ByteRange{}
                                                            : ByteRange{.offset = begin, .size = end - begin};
}

void SampleShards::prefetch(std::span<const std::int64_t> indices) const {
    reader_.prefetch(indices,
                     [&](const Place& at, std::vector<ByteRange>& ranges) { ranges.push_back(stored_range(at)); });
}

}  // namespace stoker
