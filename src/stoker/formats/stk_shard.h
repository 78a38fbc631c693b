// One shard of an stk data set, mapped into memory. Everything that says where something lies is checked when
// it is opened, so finding a sample is arithmetic: no allocation, no copy, no system call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/file.h"
#include "stoker/formats/stk_layout.h"
#include "stoker/formats/stk_value.h"

namespace stoker {

class StkShard {
  public:
    // Checks header, footer, schema and the whole index, their hashes included; the payloads' hashes are for
    // `verify`. Throws DataError with the offset; Unsupported for another version of the format.
    explicit StkShard(const std::filesystem::path& path);

    std::int64_t samples() const { return static_cast<std::int64_t>(footer_.samples); }
    std::uint64_t first() const { return footer_.first; }
    std::uint32_t number() const { return footer_.shard; }
    std::uint64_t hash() const { return footer_.hash; }
    std::uint64_t bytes() const { return footer_.file_size; }
    const StkSchema& schema() const { return schema_; }

    // `field` is a place in the schema, `sample` one in [0, samples()); the caller has checked both, and the
    // field's kind. Views live as long as the shard. At least 128 bytes after each payload can be read.
    std::string_view key(std::int64_t sample) const;
    StkImage image(std::size_t field, std::int64_t sample) const;
    void prefetch_image(std::size_t field, std::int64_t sample) const;   // its entry alone, into the processor's cache
    std::int64_t integer(std::size_t field, std::int64_t sample) const;  // of a label too
    double number(std::size_t field, std::int64_t sample) const;
    StkBytes bytes(std::size_t field, std::int64_t sample) const;
    TensorView tensor(std::size_t field, std::int64_t sample) const;  // read-only, whatever its type says

    // A payload's bytes, which lie in the map, read from the file instead; copied from the map where descriptors are
    // scarce, so that a data set may have more shards than a process open files.
    void read(std::span<const std::byte> payload, std::span<std::byte> out) const;

    // Compares the sample's payloads with their hashes, and what lies between them with zeros. Throws DataError.
    void verify(std::int64_t sample) const;

  private:
    void open_ends();
    void open_schema();
    void open_index();
    void check_keys() const;
    void check_places() const;
    void check_column(std::size_t field) const;

    template <typename T>
    const T* column(std::uint64_t begin) const {
        return reinterpret_cast<const T*>(file_.bytes().data() + footer_.index_offset + begin);
    }
    const StkPlace& place(std::size_t field, std::int64_t sample) const;
    std::span<const std::byte> payload(const StkPlace& place) const;
    std::int64_t offset_of(const void* at) const;

    std::string path_;
    std::optional<File> reads_;  // none where descriptors are scarce
    MappedFile file_;            // of the same descriptor: what was checked is what is read
    StkFooter footer_;
    StkSchema schema_;
    StkLayout layout_;
    std::vector<std::uint64_t> entry_sizes_;  // of each field's column
};

}  // namespace stoker
