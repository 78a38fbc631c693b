// Stoker's own format: a folder of shards, mapped into memory, or read by range requests from a URL. StkReader gives
// every field of a sample, StkDataset is the same data set as the pipeline sees it: an image and a label.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/in_place.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/stk/stk_shard.h"
#include "stoker/io/byte_file.h"

namespace stoker {

struct StkManifest;

class StkReader {
  public:
    // Opens every shard and checks all of it but the payloads' hashes. Throws DataError for a folder that is not
    // finished or damaged, Unsupported for another version, IoError.
    explicit StkReader(const std::filesystem::path& directory);

    // Of a data set behind http(s):// or s3://. Payloads have no views there (see StkShard) and are checked as they
    // are read.
    StkReader(const std::string& url, const RemoteOptions& options);

    bool remote() const { return shards_.front().remote(); }
    const std::string& name() const { return name_; }  // path or URL, for messages
    std::int64_t size() const { return size_; }
    std::int64_t bytes() const { return bytes_; }  // of all files
    const StkSchema& schema() const { return shards_.front().schema(); }
    const std::string& origin() const { return origin_; }  // JSON, as its writer left it
    const std::vector<StkShard>& shards() const { return shards_; }

    // The place of a field in the schema. Throws InvalidArgument where it is absent or of another kind.
    std::size_t field(std::string_view name, StkKind kind) const;

    // `field` as `field()` gave it. Views live as long as the reader. Throw InvalidArgument for an index that
    // is not in [0, size()).
    std::string_view key(std::int64_t index) const;
    StkImage image(std::size_t field, std::int64_t index) const;
    std::int64_t integer(std::size_t field, std::int64_t index) const;  // of a label too
    double number(std::size_t field, std::int64_t index) const;
    StkBytes bytes(std::size_t field, std::int64_t index) const;
    TensorView tensor(std::size_t field, std::int64_t index) const;  // read-only

    // The size of the payload of a field of kind image, bytes or tensor, and the payload, read into `out` of that
    // size.
    std::size_t payload_size(std::size_t field, std::int64_t index) const;
    void read(std::size_t field, std::int64_t index, std::span<std::byte> out) const;

    // Tells a remote set which payloads of a field are wanted next; a local one has nothing to do.
    void prefetch(std::size_t field, std::span<const std::int64_t> indices) const;

    // Compares the sample's payloads with their hashes. Throws DataError with path, key and offset.
    void verify(std::int64_t index) const;

    // Where a sample is.
    struct Place {
        const StkShard& shard;
        std::int64_t sample;
    };
    Place place(std::int64_t index) const;

  private:
    void check_field(std::size_t field, StkKind kind) const;
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
    // The first image and the first label of the schema. Throws what StkReader throws, and DataError where there
    // is no image.
    explicit StkDataset(const std::filesystem::path& directory);
    StkDataset(const std::string& url, const RemoteOptions& options);

    std::int64_t size() const override { return reader_.size(); }
    // A view into the map (in_place.h says when); else, and of a remote set, a copy in `sample.storage`
    // (StkShard::read).
    void read(std::int64_t index, Sample& sample) const override;
    // Ranges of a remote set; of a local one large payloads into memory, and small ones into the processor's cache:
    // shuffled reading waits for memory more than for anything else.
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::vector<std::int64_t> shard_sizes() const override;
    std::string key(std::int64_t index) const override { return std::string(reader_.key(index)); }
    std::span<const std::string> classes() const override;
    std::string_view format() const override { return "stk"; }
    std::string path() const override { return reader_.name(); }
    std::int64_t bytes() const override { return reader_.bytes(); }

    const StkReader& reader() const { return reader_; }
    StkImage image(std::int64_t index) const { return reader_.image(image_, index); }
    std::optional<std::int64_t> label(std::int64_t index) const override {
        return label_ ? reader_.integer(*label_, index) : -1;
    }

    // Samples of each codec, and of each class, from the index alone.
    std::map<std::string, std::int64_t> codecs() const;
    std::vector<std::int64_t> class_counts() const;

  private:
    void find_fields();

    StkReader reader_;
    std::size_t image_ = 0;
    std::optional<std::size_t> label_;
    InPlace in_place_;
};

}  // namespace stoker
