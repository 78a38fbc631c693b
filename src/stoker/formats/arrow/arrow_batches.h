// The rows of Arrow's record batches: of a table in memory, or of Arrow files (those of datasets' save_to_disk), whose
// maps are used without a copy.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stoker/formats/arrow/arrow_calls.h"
#include "stoker/formats/arrow/arrow_rows.h"
#include "stoker/io/byte_file.h"

namespace stoker {

class ArrowBatches final : public ArrowRows {
  public:
    // A table in memory: all batches of the stream. Throws DataError if the stream fails.
    explicit ArrowBatches(ArrowOwned<ArrowArrayStream> stream);
    // Local files, in order. Throws DataError for damage and for files of different columns, and what arrow_api()
    // throws. Compressed batches are decoded into memory when they are opened.
    ArrowBatches(std::string path, const std::vector<std::string>& files);

    std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
    const ArrowType& type() const override { return type_; }
    const std::string& features() const override { return features_; }
    const ArrowSource* add(const ArrowPath& path) override;
    std::optional<std::span<const std::byte>> bytes(const ArrowSource* source, std::int64_t row,
                                                    Buffer& storage) const override;
    ArrowHeld value(const ArrowSource* source, std::int64_t row) const override;
    std::string key(std::int64_t row) const override;
    std::vector<std::int64_t> parts(std::span<const ArrowSource* const> /*sources*/) const override { return {}; }
    void prefetch(std::span<const ArrowSource* const> /*sources*/,
                  std::span<const std::int64_t> /*rows*/) const override {}
    std::int64_t file_bytes() const override { return bytes_; }

  private:
    struct Batch {
        ArrowOwned<ArrowArray> array;
        std::size_t file = 0;
    };

    void take_batches(ArrowArrayStream& stream, std::size_t file);

    std::string path_;                              // empty: in memory
    std::vector<std::unique_ptr<ByteFile>> files_;  // before the batches that use their maps
    std::vector<std::string> stems_;                // of the files' names
    std::vector<std::int64_t> file_begins_;
    ArrowType type_;
    std::string features_;
    std::vector<Batch> batches_;
    std::vector<std::int64_t> ends_;  // row after the last of each batch
    std::mutex mutex_;
    std::deque<ArrowSource> sources_;
    std::int64_t bytes_ = 0;
};

}  // namespace stoker
