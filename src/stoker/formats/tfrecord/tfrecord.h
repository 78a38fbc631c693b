// TFRecord: shards of tf.train.Example, as TensorFlow and TensorFlow Datasets write them, with random access. Each
// shard is indexed once and the index kept in the user's cache, so reading a sample takes one read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/open.h"
#include "stoker/formats/part_cache.h"
#include "stoker/formats/shard_reader.h"
#include "stoker/formats/tfrecord/tf_fields.h"
#include "stoker/formats/tfrecord/tf_index.h"
#include "stoker/formats/tfrecord/tf_names.h"
#include "stoker/io/shard_files.h"

namespace stoker {

class TfRecordDataset final : public Dataset {
  public:
    // `spec`: see tfrecord_shards. Indexes shards that are not in the cache, many in parallel. Throws DataError for a
    // damaged shard, for records that are not Examples, and if none has the image, label or a field that
    // `options.fields` names; Unsupported for SequenceExamples. With further fields and without a name for the image,
    // records without any image are samples without one.
    explicit TfRecordDataset(const std::string& spec, Split split = Split::train, const OpenOptions& options = {});

    // For the given shards, opened with `open`; `path` is for messages.
    TfRecordDataset(std::string path, TfRecordShards shards, const FieldNames& fields, ShardFiles::Open open,
                    std::size_t most_open = spare_descriptors());

    std::int64_t size() const override { return shards_.size(); }
    // Image and fields of bytes are views of the shard's map (map_or_read.h says when). Otherwise the image is part of
    // one read into the storage, and fields are copies.
    void read(std::int64_t index, Sample& sample) const override;
    // "x.tfrecord-00000-of-00010/17": the shard's name within the folder of all shards, and the record's number.
    std::string key(std::int64_t index) const override;
    // Fetches remote neighbours in one request; brings local samples into memory.
    void prefetch(std::span<const std::int64_t> indices) const override;
    // Empty for a bad label, for which read() throws.
    std::optional<std::int64_t> label(std::int64_t index) const override;
    // Empty if all shards are local and plain.
    std::vector<std::int64_t> shard_sizes() const override;
    // From LABEL.labels.txt in the folder of the shards, as TensorFlow Datasets writes it, from x-classes.txt next to
    // x.tfrecord and x-00000-of-00010, or from classes.txt. Otherwise, and for remote shards: "0" to the largest label.
    std::span<const std::string> classes() const override { return classes_; }
    bool has_image() const override { return images_; }
    std::span<const Field> fields() const override { return fields_; }
    std::vector<Field> stored_fields() const override;
    std::string_view format() const override { return "tfrecord"; }
    std::string path() const override { return path_; }
    std::string advice() const override;  // shards that are left out, and many compressed ones
    std::int64_t bytes() const override { return shards_.bytes(); }

  private:
    using Place = ShardReader::Place;

    Place place(std::int64_t index) const;
    const TfRecordPlace& entry(const Place& at) const { return indices_[at.shard][at.sample]; }
    DataPlace where(const Place& at) const;
    bool compressed(std::size_t shard) const { return indices_[shard].form() != TfForm::plain; }
    // The record's data, whose checksum is right.
    std::span<const std::byte> data_of(const Place& at, Buffer& storage) const;
    void open_shards();
    void name_shards();
    // Samples that are cheap to read, kProbedSamples at most.
    std::vector<std::int64_t> probes() const;
    void find_features();
    void choose_image(std::span<const std::string> images, std::span<const std::string> all);
    void find_label(std::span<const std::string> all);
    void find_fields();
    void find_classes();
    Field describe(const FieldRequest& request, const TfFieldSource& source) const;

    std::string path_;
    ShardReader shards_;
    std::vector<std::string> left_out_;
    FieldNames names_;  // as asked for
    TfLabelNames label_names_;
    std::vector<TfIndex> indices_;        // by shard
    std::vector<std::string> key_names_;  // of the shards, within the folder of all; unique
    std::string image_;                   // the image's feature, whose name may be empty
    bool images_ = false;                 // false: samples have further fields only
    std::string label_;                   // the label's, if a sample that was looked at has it
    std::vector<std::string> all_;        // the features that were found
    std::vector<std::string> classes_;
    std::vector<Field> fields_;
    std::vector<TfFieldSource> sources_;        // of fields_
    std::vector<std::string> wanted_;           // names of all features that are read: of the sources, then the image's
    std::unique_ptr<PartCache<Buffer>> parts_;  // compressed shards, decoded
    bool decodes_again_ = false;                // they do not all fit into parts_
};

}  // namespace stoker
