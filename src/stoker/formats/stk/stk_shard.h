// One shard of an stk data set, mapped into memory, or behind a network with its index in memory. Everything that says
// where something lies is checked when it is opened, so finding a sample is arithmetic.
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
#include "stoker/formats/stk/stk_value.h"
#include "stoker/io/byte_file.h"

namespace stoker {

class StkShard {
  public:
    // Checks header, footer, schema and the whole index, their hashes included; the payloads' hashes are for
    // `verify`. Throws DataError with the offset; Unsupported for another version of the format.
    explicit StkShard(const std::filesystem::path& path);

    // Of a remote file: reads footer, index and schema, not the header, which repeats the footer. What fails a check
    // is fetched anew once. Throws Unsupported for an index of more than a GiB too.
    explicit StkShard(std::unique_ptr<const ByteFile> file);

    bool remote() const { return remote_ != nullptr; }
    const std::string& path() const { return path_; }  // or URL
    std::int64_t samples() const { return static_cast<std::int64_t>(footer_.samples); }
    std::uint64_t first() const { return footer_.first; }
    std::uint32_t number() const { return footer_.shard; }
    std::uint64_t hash() const { return footer_.hash; }
    std::uint64_t bytes() const { return footer_.file_size; }
    const StkSchema& schema() const { return schema_; }

    // `field` is a place in the schema, `sample` one in [0, samples()); the caller has checked both, and the
    // field's kind. Views live as long as the shard. At least 128 bytes after each payload can be read. A remote
    // shard has no views of payloads: an image's bytes are then empty, and `bytes` and `tensor` throw Unsupported.
    std::string_view key(std::int64_t sample) const;
    StkImage image(std::size_t field, std::int64_t sample) const;
    // Its entry alone, into the processor's cache.
    void prefetch_entry(std::size_t field, std::int64_t sample) const;
    std::int64_t integer(std::size_t field, std::int64_t sample) const;  // of a label too
    double number(std::size_t field, std::int64_t sample) const;
    StkBytes bytes(std::size_t field, std::int64_t sample) const;
    TensorView tensor(std::size_t field, std::int64_t sample) const;  // read-only, whatever its type says

    // Where the payload of a field that has one lies.
    ByteRange payload_range(std::size_t field, std::int64_t sample) const;

    // As of a File; where descriptors are scarce, a payload is not known to be in memory.
    bool in_memory(std::size_t field, std::int64_t sample) const;
    void will_need(std::size_t field, std::int64_t sample) const;

    // Fills `out` with a payload, and is as long. Locally it is read from the file, or copied from the map where
    // descriptors are scarce, so that a data set may have more shards than a process open files. From a remote file the
    // payload's hash is compared, once more with bytes fetched anew: throws DataError.
    void read(std::size_t field, std::int64_t sample, std::span<std::byte> out) const;

    // Tells a remote file what is wanted next.
    void prefetch(std::span<const ByteRange> ranges) const;

    // Compares the sample's payloads with their hashes, and what lies between them with zeros. Throws DataError.
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
    void find_even();

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
    std::int64_t offset_of(const void* at) const;  // of what lies in the index

    std::string path_;  // or URL
    std::unique_ptr<const ByteFile> remote_;
    Buffer tail_;                // of a remote file, from the index on
    std::optional<File> reads_;  // none where descriptors are scarce
    MappedFile file_;            // of the same descriptor: what was checked is what is read
    const std::byte* index_ = nullptr;
    StkFooter footer_;
    StkSchema schema_;
    StkLayout layout_;
    std::vector<std::uint64_t> entry_sizes_;  // of each field's column
    // Of an image field whose entries differ in offset and hash alone, and in offset by as much from each to the next:
    // raw pixels of one size. They are found without the index, which would be another wait for memory.
    struct Even {
        StkImageEntry first;
        std::uint64_t step = 0;
    };
    std::vector<std::optional<Even>> even_;
};

// Reading a small image takes not much longer than a call does.

inline std::span<const std::byte> StkShard::payload(const StkPlace& place) const {
    if (remote()) {
        return {};
    }
    return file_.bytes().subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.size));
}

inline StkImage StkShard::image(std::size_t field, std::int64_t sample) const {
    const std::optional<Even>& even = even_[field];
    const StkImageEntry& entry = even ? even->first : column<StkImageEntry>(layout_.fields[field])[sample];
    StkPlace place = entry.place;
    place.offset += even ? static_cast<std::uint64_t>(sample) * even->step : 0;
    return {.bytes = payload(place),
            .codec = static_cast<StkCodec>(entry.codec),
            .height = static_cast<int>(entry.height),
            .width = static_cast<int>(entry.width),
            .channels = static_cast<int>(entry.channels),
            .original_file = (entry.flags & kStkOriginalFile) != 0};
}

inline void StkShard::prefetch_entry(std::size_t field, std::int64_t sample) const {
    if (!even_[field]) {
        __builtin_prefetch(column<std::byte>(layout_.fields[field]) +
                           static_cast<std::uint64_t>(sample) * entry_sizes_[field]);
    }
}

inline std::int64_t StkShard::integer(std::size_t field, std::int64_t sample) const {
    return column<std::int64_t>(layout_.fields[field])[sample];
}

}  // namespace stoker
