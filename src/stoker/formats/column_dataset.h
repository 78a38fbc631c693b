// A data set of samples with named columns, each sample's columns one after the other: MDS and LitData. Their indices
// give the shards and the columns.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/column_values.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/sample_shards.h"

namespace stoker {

// A sample begins with a uint32 for each column without a size: that of its bytes in this sample. The columns' bytes
// follow.
struct ColumnLayout {
    std::vector<SampleColumn> columns;
    std::vector<std::optional<std::uint64_t>> sizes;  // by column
};

// The source of a data set.
struct ColumnSource {
    // `place`: the path or URL of the index.
    ColumnSource(std::string_view name, const std::string& place);

    std::string_view format;
    std::string folder;  // a path or URL, for messages
    std::string index;   // the path of the index, next to which classes.txt may be; empty for a remote one
};

class ColumnDataset final : public Dataset {
  public:
    // The image is the column that `fields` names, else the only one in an encoding of images or that of them with a
    // usual name, else an array that may be one. With further fields, and without a name for the image, samples without
    // any are samples without an image. Without a name for the label, it is a column with a usual name whose values are
    // class indices. Throws DataError for columns that are missing, and Unsupported for ones that
    // cannot be read.
    ColumnDataset(ColumnSource source, ColumnLayout layout, std::unique_ptr<const SampleShards> shards,
                  const FieldNames& fields);

    std::int64_t size() const override { return shards_->size(); }
    void read(std::int64_t index, Sample& sample) const override;
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override { shards_->prefetch(indices); }
    std::vector<std::int64_t> shard_sizes() const override { return shards_->shard_sizes(); }
    // From classes.txt next to the index. Without it there are none, since all samples would have to be read for the
    // largest label; training then needs model.classes.
    std::span<const std::string> classes() const override { return classes_; }
    bool has_image() const override { return image_.has_value(); }
    std::span<const Field> fields() const override { return fields_; }
    std::vector<Field> stored_fields() const override;
    std::string_view format() const override { return source_.format; }
    std::string path() const override { return source_.folder; }
    std::string advice() const override;  // compressed shards that memory is too small for
    std::int64_t bytes() const override { return shards_->bytes(); }

  private:
    struct Piece {
        std::size_t offset;  // in the sample's bytes
        std::size_t size;
    };

    // How surely a column has the image.
    enum class ImageRank : std::uint8_t { none, array, encoding };

    std::size_t column_named(const std::string& name) const;
    std::vector<std::string> names() const;
    bool is_further(const FieldNames& fields, const SampleColumn& column) const;
    ImageRank image_rank(std::size_t column) const;
    ImageRank image_rank(const SampleColumn& column, std::span<const std::byte> bytes) const;
    bool gives_labels(std::size_t column) const;
    std::optional<std::string> first_image(const FieldNames& fields) const;
    void find_image(const FieldNames& fields);
    void find_label(const FieldNames& fields);
    [[noreturn]] void refuse_encoding(const SampleColumn& column, const char* expected) const;
    Field describe(const FieldRequest& request, std::size_t column) const;
    std::vector<Piece> pieces(std::span<const std::byte> sample) const;

    std::vector<std::int64_t> few_samples(std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
    std::vector<std::int64_t> probes(bool fixed) const;

    ColumnSource source_;
    ColumnLayout layout_;
    std::unique_ptr<const SampleShards> shards_;
    std::optional<std::size_t> image_;
    std::optional<std::size_t> label_;
    bool clips_;
    std::vector<Field> fields_;
    std::vector<std::size_t> field_columns_;  // of fields_
    std::vector<std::string> classes_;
};

}  // namespace stoker
