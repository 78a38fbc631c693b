// WebDataset: tar shards of samples, as the webdataset library writes them, with random access. Each shard is indexed
// once and the index kept in the user's cache, so reading a sample takes one read, and one for each further field.
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
#include "stoker/formats/shard_reader.h"
#include "stoker/formats/webdataset/tar_fields.h"
#include "stoker/formats/webdataset/tar_index.h"
#include "stoker/io/shard_files.h"

namespace stoker {

class WebDataset final : public Dataset {
  public:
    // `spec`: see shard_names. Indexes shards that are not in the cache, many in parallel. Throws DataError for a
    // damaged shard, a sample whose members are not consecutive, and if no sample has an image, or none the label or
    // a field that `options.fields` names; Unsupported for compressed archives. tar_fields.h describes further fields;
    // with some, and without a name for the image, shards without any image are samples without one.
    explicit WebDataset(const std::string& spec, const OpenOptions& options = {});

    // For the given shards, opened with `open`; `path` is for messages.
    WebDataset(std::string path, std::vector<std::string> shards, const FieldNames& fields, ShardFiles::Open open,
               std::size_t most_open = spare_descriptors());

    std::int64_t size() const override { return shards_.size(); }
    // Views of the shard's map (map_or_read.h says when), or one read of the image, and of each field, into the
    // storages.
    void read(std::int64_t index, Sample& sample) const override;
    // The image's name in the shard, unescaped (tar_member_name.h); without the extension for an array (.npy).
    std::string key(std::int64_t index) const override;
    // Fetches remote neighbours in one request; brings local samples into memory.
    void prefetch(std::span<const std::int64_t> indices) const override;
    // Empty for a bad label, for which read() throws.
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::vector<std::int64_t> shard_sizes() const override;
    // From dir/train-classes.txt next to dir/train-000000.tar, or from dir/classes.txt, one class per line. Without
    // such a file, and for remote shards: "0" to the largest label.
    std::span<const std::string> classes() const override { return classes_; }
    bool has_image() const override { return images_; }
    std::span<const Field> fields() const override { return fields_; }
    // The fields of the first shard; reads its headers again.
    std::vector<Field> stored_fields() const override;
    std::string_view format() const override { return "webdataset"; }
    std::string path() const override { return path_; }
    std::string advice() const override;  // samples that are left out
    std::int64_t bytes() const override { return shards_.bytes(); }

  private:
    using Place = ShardReader::Place;

    Place place(std::int64_t index) const;
    DataPlace where(const Place& at, std::uint64_t offset) const;
    void read_image(const Place& at, const TarIndexEntry& entry, Sample& sample) const;
    void read_frames(const Place& at, const TarIndexEntry& entry, Sample& sample) const;
    void read_field(const Place& at, std::size_t field, Sample& sample) const;
    void open_shards();
    bool take_own_names();
    void check_fields(const FieldNames& fields) const;
    std::string extensions() const;
    void find_fields(const std::vector<FieldRequest>& requests);
    // The samples that have the member of field `at`.
    struct FieldMembers {
        std::vector<std::int64_t> first;  // kProbedSamples of them at most
        bool sizes_differ = false;
    };
    FieldMembers find_members(std::size_t at) const;
    Field describe(const FieldRequest& request, std::size_t at) const;
    void find_classes();

    std::string path_;
    ShardReader shards_;
    std::vector<TarIndex> indices_;  // by shard
    FieldNames names_;               // as asked for
    std::vector<std::string> classes_;
    std::vector<Field> fields_;
    std::vector<TarFieldSource> sources_;  // of fields_
    bool images_ = false;                  // false: the samples have further fields only
};

}  // namespace stoker
