// The columns of further fields in a file of columns (HDF5, npz): spooled sample by sample, then read back one column
// after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pack/packed_fields.h"
#include "stoker/pack/sample_spool.h"

namespace stoker {

class TableFields {
  public:
    using Json = SampleSpool::Json;

    // Throws InvalidArgument, with `where`, for a field whose values have any length, for one of bfloat16, and for one
    // without elements. Bytes are refused if `bytes` is false.
    TableFields(std::span<const Field> fields, const std::filesystem::path& folder, bool bytes,
                const std::string& where);

    std::size_t size() const { return columns_.size(); }
    const Field& field(std::size_t at) const { return columns_[at].field; }
    // One sample's array, as the first sample has it; empty for encoded images and bytes.
    const std::optional<StoredArray>& array(std::size_t at) const { return columns_[at].array; }

    // The number of the field whose value is not stored as that of the first sample is; empty if all are. `any`: there
    // was a sample before. Encoded images do not fit if `encoded` is false.
    std::optional<std::size_t> misfit(std::span<const StkValue> values, bool any, bool encoded) const;

    // See StagedTarget. `state` is an element of the target's state.
    void resume(const Json* state);
    void add(std::span<const StkValue> values);
    Json save(std::uint64_t& hash);
    std::uint64_t read_hash(const Json* before, const Json& state, std::uint64_t hash) const;

    // Reads the values of the first `count` samples as the images of batches.
    void read(std::size_t at, std::int64_t count, const std::function<void(const SpoolBatch&)>& take) const;

  private:
    struct Column {
        Field field;
        SampleSpool spool;
        std::optional<StoredArray> array = std::nullopt;
    };

    std::vector<Column> columns_;
    bool any_ = false;
};

// "uint8 of (32, 32)", "encoded bytes": for messages.
std::string stored_text(const std::optional<StoredArray>& array);

}  // namespace stoker
