// A WebDataset: tar shards of samples, as the webdataset library writes them, with the random access that a stream of
// them has not. Each shard is indexed once, in the user's cache; a sample is then one read at its place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/in_place.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/open_options.h"
#include "stoker/formats/webdataset/tar_index.h"
#include "stoker/io/shard_files.h"

namespace stoker {

class WebDataset final : public Dataset {
  public:
    // `spec` as shard_names takes it. Indexes what is not yet in the cache, many shards at a time. Throws DataError
    // for damaged shards, for samples that are torn apart, and where there is no sample with an image or none with
    // the label that `options.fields` names; Unsupported for packed archives.
    explicit WebDataset(const std::string& spec, const OpenOptions& options = {});

    // Of the given shards, opened by `open`; `path` is for messages.
    WebDataset(std::string path, std::vector<std::string> shards, const FieldNames& fields, ShardFiles::Open open,
               std::size_t most_open = spare_descriptors());

    std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
    // A view of the shard's map (in_place.h says when), or one read of the image into `sample.storage`.
    void read(std::int64_t index, Sample& sample) const override;
    // The image's name in the shard; without its extension for an array (.npy).
    std::string key(std::int64_t index) const override;
    // Fetches samples ahead, remote neighbours in one request.
    void prefetch(std::span<const std::int64_t> indices) const override;
    // Empty for a label that is no class index: reading the sample says so.
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::vector<std::int64_t> shard_sizes() const override;
    // From dir/train-classes.txt beside dir/train-000000.tar, or dir/classes.txt, a class a line; else, and for remote
    // shards, "0" to the largest label.
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return "webdataset"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return bytes_; }

    std::int64_t shards() const { return static_cast<std::int64_t>(indices_.size()); }
    std::int64_t other_samples() const;  // without an image, and therefore left out

  private:
    struct Place {
        std::size_t shard;
        std::int64_t sample;  // within it
    };
    Place place(std::int64_t index) const;
    std::span<const std::byte> bytes_of(const TarSample& entry, std::size_t shard, Buffer& storage) const;
    void prefetch_mapped(std::span<const std::int64_t> indices) const;
    void open_shards(const FieldNames& fields);
    void check_fields(const FieldNames& fields) const;
    void find_classes();

    std::string path_;
    ShardFiles files_;
    std::vector<TarIndex> indices_;   // of the shards
    std::vector<std::int64_t> ends_;  // index after the last sample of each
    std::vector<std::string> classes_;
    std::int64_t bytes_ = 0;
    InPlace in_place_;
};

}  // namespace stoker
