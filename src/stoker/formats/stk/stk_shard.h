// One shard of an stk data set: a file mapped into memory, or a remote file whose index is kept in memory. All offsets
// and sizes are checked when the shard is opened, so finding a sample is arithmetic without further checks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/file.h"
#include "stoker/formats/stk/stk_layout.h"
#include "stoker/formats/stk/stk_schema.h"
#include "stoker/io/byte_file.h"

namespace stoker {

class StkShard {
  public:
    // Checks header, footer, schema and the whole index with their hashes; verify() checks the payloads' hashes.
    // Throws DataError with the offset, Unsupported for another version of the format.
    explicit StkShard(const std::filesystem::path& path);

    // For a remote file: reads footer, index and schema, but not the header, whose values the footer repeats. Fetches
    // everything a second time if a check fails. Also throws Unsupported for an index of more than 1 GiB.
    explicit StkShard(std::unique_ptr<const ByteFile> file);

    bool remote() const { return remote_ != nullptr; }
    const std::string& path() const { return path_; }  // or URL
    std::int64_t samples() const { return static_cast<std::int64_t>(footer_.samples); }
    std::uint64_t first() const { return footer_.first; }
    std::uint32_t number() const { return footer_.shard; }
    std::uint64_t hash() const { return footer_.hash; }
    std::uint64_t bytes() const { return footer_.file_size; }
    const StkSchema& schema() const { return schema_; }

    // `field` is an index into the schema, `sample` one in [0, samples()). They are not checked here, nor is the
    // field's kind. Views live as long as the shard; at least 128 bytes after each payload are readable. A remote shard
    // does not map payloads: an image's bytes are empty, bytes() and tensor() throw Unsupported.
    std::string_view key(std::int64_t sample) const;
    StkImage image(std::size_t field, std::int64_t sample) const;
    // Prefetches the index entry of an image or label into the processor's cache.
    void prefetch_entry(std::size_t field, std::int64_t sample) const;
    std::int64_t integer(std::size_t field, std::int64_t sample) const;  // or a label
    double number(std::size_t field, std::int64_t sample) const;
    StkBytes bytes(std::size_t field, std::int64_t sample) const;
    TensorView tensor(std::size_t field, std::int64_t sample) const;   // read-only, although `data` is not const
    Shape tensor_shape(std::size_t field, std::int64_t sample) const;  // of remote shards too

    // Range in the file of an image's, byte string's or tensor's payload.
    ByteRange payload_range(std::size_t field, std::int64_t sample) const;

    // See File. Without an open descriptor (see `file_`) in_memory is false and will_need does nothing.
    bool in_memory(std::size_t field, std::int64_t sample) const;
    void will_need(std::size_t field, std::int64_t sample) const;

    // Fills `out`, which has the payload's size. A local payload is read from the file, or copied from the map if the
    // shard keeps no descriptor. A remote payload's hash is checked; on a mismatch it is fetched a second time, then
    // DataError is thrown.
    void read(std::size_t field, std::int64_t sample, std::span<std::byte> out) const;

    // Starts fetching ranges of a remote file; does nothing for a local one.
    void prefetch(std::span<const ByteRange> ranges) const;

    // Compares the sample's payloads with their hashes and checks that the padding after them is zero. Throws
    // DataError.
    void verify(std::int64_t sample) const;

  private:
    void open_map();
    void open_remote(bool anew);
    void open_footer(std::span<const std::byte> bytes, std::uint64_t file_size);
    void check_header(const StkHeader& header) const;
    void open_schema();
    void open_index();
    void check_keys() const;
    void check_places() const;
    void check_column(std::size_t field) const;
    void find_uniform_fields();

    template <typename T>
    const T* column(std::uint64_t begin) const {
        return reinterpret_cast<const T*>(index_ + begin);
    }
    const StkPlace& place(std::size_t field, std::int64_t sample) const;
    std::span<const std::byte> payload(const StkPlace& place) const;
    void need_map() const;
    void fetch(const StkPlace& place, std::int64_t sample, std::span<std::byte> out) const;
    void verify_header() const;
    [[noreturn]] void fail(const StkPlace& place, std::int64_t sample, std::string got) const;
    std::uint64_t offset_of(const void* at) const;  // offset in the file of a part of the index

    std::string path_;  // or URL
    std::unique_ptr<const ByteFile> remote_;
    Buffer tail_;  // a remote file's bytes from the index on
    // Empty if the process has few descriptors left, so that a data set may have more shards than a process may open
    // files.
    std::optional<File> file_;
    MappedFile map_;  // made from file_, so reads and map see the same file
    const std::byte* index_ = nullptr;
    StkFooter footer_;
    StkSchema schema_;
    StkLayout layout_;
    std::vector<std::uint64_t> entry_sizes_;  // by field, in bytes
    // An image field whose entries differ only in hash and offset, with a constant distance between offsets: raw pixels
    // of one size. Such a payload is found without reading the index, which saves a cache miss.
    struct Uniform {
        StkImageEntry first;
        std::uint64_t step = 0;  // bytes from one payload to the next
    };
    std::vector<std::optional<Uniform>> uniform_;  // by field
};

// Inline: reading a small image takes little longer than a function call.

inline std::span<const std::byte> StkShard::payload(const StkPlace& place) const {
    if (remote()) {
        return {};
    }
    return map_.bytes().subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.size));
}

inline StkImage StkShard::image(std::size_t field, std::int64_t sample) const {
    const std::optional<Uniform>& uniform = uniform_[field];
    const StkImageEntry& entry = uniform ? uniform->first : column<StkImageEntry>(layout_.fields[field])[sample];
    StkPlace place = entry.place;
    place.offset += uniform ? static_cast<std::uint64_t>(sample) * uniform->step : 0;
    return {.bytes = payload(place),
            .codec = static_cast<StkCodec>(entry.codec),
            .height = static_cast<int>(entry.height),
            .width = static_cast<int>(entry.width),
            .channels = static_cast<int>(entry.channels),
            .original_file = (entry.flags & kStkOriginalFile) != 0};
}

inline void StkShard::prefetch_entry(std::size_t field, std::int64_t sample) const {
    if (!uniform_[field]) {
        __builtin_prefetch(column<std::byte>(layout_.fields[field]) +
                           static_cast<std::uint64_t>(sample) * entry_sizes_[field]);
    }
}

inline std::int64_t StkShard::integer(std::size_t field, std::int64_t sample) const {
    return column<std::int64_t>(layout_.fields[field])[sample];
}

}  // namespace stoker
