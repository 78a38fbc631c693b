// Reads stk data sets: a folder of shards, mapped into memory, or a URL, read by range requests. StkReader gives access
// to every field; StkDataset gives the pipeline one image and one label per sample, and further fields that are asked
// for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/map_or_read.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/stk/stk_shard.h"
#include "stoker/io/byte_file.h"

namespace stoker {

struct StkManifest;

class StkReader {
  public:
    // Opens every shard and checks everything except the payloads' hashes. Throws DataError for an unfinished or
    // damaged folder, Unsupported for another version, IoError.
    explicit StkReader(const std::filesystem::path& directory);

    // Opens a data set behind a URL. Its payloads have no views (see StkShard) and are checked when read.
    StkReader(const std::string& url, const RemoteOptions& options);

    bool remote() const { return shards_.front().remote(); }
    const std::string& name() const { return name_; }  // path or URL, for messages
    std::int64_t size() const { return size_; }
    std::int64_t bytes() const { return bytes_; }  // of all files
    const StkSchema& schema() const { return shards_.front().schema(); }
    const std::string& origin() const { return origin_; }  // JSON from the manifest
    const std::vector<StkShard>& shards() const { return shards_; }

    // Index of a field in the schema. Throws InvalidArgument if it is absent or of another kind.
    std::size_t field(std::string_view name, StkKind kind) const;

    // `field` comes from field(). Views live as long as the reader. Throw InvalidArgument for a field of another kind
    // or an index outside [0, size()).
    std::string_view key(std::int64_t index) const;
    StkImage image(std::size_t field, std::int64_t index) const;
    std::int64_t integer(std::size_t field, std::int64_t index) const;  // of a label too
    double number(std::size_t field, std::int64_t index) const;
    StkBytes bytes(std::size_t field, std::int64_t index) const;
    TensorView tensor(std::size_t field, std::int64_t index) const;  // read-only

    // Starts fetching payloads of a field from a remote data set; does nothing for a local one.
    void prefetch(std::size_t field, std::span<const std::int64_t> indices) const;

    // Compares the sample's payloads with their hashes. Throws DataError with path, key and offset.
    void verify(std::int64_t index) const;

    // The shard of a sample and its index there. Throws InvalidArgument for an index outside [0, size()).
    struct Place {
        const StkShard& shard;
        std::int64_t sample;
    };
    Place place(std::int64_t index) const;

  private:
    Place place(std::size_t field, StkKind kind, std::int64_t index) const;
    void add_shard(StkShard shard, const StkManifest& manifest);

    std::string name_;
    std::string origin_;
    std::vector<StkShard> shards_;
    std::vector<std::int64_t> ends_;  // index after the last sample of each shard
    std::int64_t size_ = 0;
    std::int64_t bytes_ = 0;
};

class StkDataset final : public Dataset {
  public:
    // Uses the first image, if there is one, and the first label of the schema. Fields of `more` are int64 and float64
    // scalars, uint8 of any length for bytes, images (also as masks), and tensors, whose shapes may differ in the first
    // side. Throws what StkReader throws, DataError if a field is missing, and Unsupported for other
    // shapes.
    explicit StkDataset(const std::filesystem::path& directory, const std::vector<FieldRequest>& more = {})
        : StkDataset(StkReader(directory), more) {}
    StkDataset(const std::string& url, const RemoteOptions& options, const std::vector<FieldRequest>& more = {})
        : StkDataset(StkReader(url, options), more) {}

    std::int64_t size() const override { return reader_.size(); }
    // Returns a view into the map if map_or_read.h allows it. Otherwise, and for a remote data set, reads into
    // `sample.storage`.
    void read(std::int64_t index, Sample& sample) const override;
    // Remote: fetches ranges. Local: brings large payloads into memory and small ones into the processor's cache, since
    // shuffled reads mostly wait for memory.
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::optional<std::int64_t> entries(std::int64_t index, std::size_t at) const override;
    std::vector<std::int64_t> shard_sizes() const override;
    std::span<const Field> fields() const override { return fields_; }
    std::string key(std::int64_t index) const override { return std::string(reader_.key(index)); }
    std::span<const std::string> classes() const override;
    std::string_view format() const override { return "stk"; }
    std::string path() const override { return reader_.name(); }
    std::int64_t bytes() const override { return reader_.bytes(); }

    const StkReader& reader() const { return reader_; }
    bool has_image() const override { return image_.has_value(); }
    // Throws InvalidArgument if the samples have none.
    StkImage image(std::int64_t index) const;
    std::optional<std::int64_t> label(std::int64_t index) const override {
        return label_ ? reader_.integer(*label_, index) : -1;
    }

    // Numbers of samples by codec ("none" without images), read from the index alone.
    std::map<std::string, std::int64_t> codecs() const;
    std::vector<Field> stored_fields() const override;

  private:
    StkDataset(StkReader reader, const std::vector<FieldRequest>& more);
    Shape common_shape(std::size_t column) const;
    void add_field(const FieldRequest& request);
    void read_field(std::size_t at, const StkReader::Place& place, Sample& sample) const;

    StkReader reader_;
    std::optional<std::size_t> image_;
    std::optional<std::size_t> label_;
    std::vector<Field> fields_;         // the fields other than image and label
    std::vector<std::size_t> columns_;  // their places in the schema
    MapOrRead map_or_read_;
};

}  // namespace stoker
