// What a WebDataset shard holds: for each sample its key, the place of its image and its label, in one piece of memory
// that is kept in the user's cache as it stands. Made by reading the shard's headers and labels once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "stoker/base/buffer.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/webdataset/tar_label.h"
#include "stoker/io/byte_file.h"

namespace stoker {

struct TarSample {
    std::uint64_t offset = 0;  // of the image in the shard
    std::uint32_t size = 0;
    std::int32_t label = kNoTarLabel;  // or kBadTarLabel
    std::uint32_t key_end = 0;         // in the text of all keys
    std::uint32_t npy = 0;             // 1: an array, 0: an encoded image
};

class TarIndex {
  public:
    // Empty where the bytes are no index, or one of another shard: every place is checked against `shard_size`.
    static std::optional<TarIndex> parse(Buffer bytes, std::uint64_t shard_size);

    std::int64_t size() const { return static_cast<std::int64_t>(samples_.size()); }
    std::int64_t others() const { return others_; }        // samples without an image
    std::int32_t max_label() const { return max_label_; }  // -1 where there is none
    bool has_labels() const { return has_labels_; }        // good or bad ones
    const TarSample& operator[](std::int64_t sample) const { return samples_[static_cast<std::size_t>(sample)]; }
    std::string_view key(std::int64_t sample) const;
    std::string_view extensions() const { return extensions_; }  // of the first members, separated by ", "
    std::span<const std::byte> bytes() const { return bytes_.bytes(); }

  private:
    TarIndex() = default;
    bool check(std::uint64_t shard_size);

    Buffer bytes_;
    std::span<const TarSample> samples_;
    std::string_view keys_;
    std::string_view extensions_;
    std::int64_t others_ = 0;
    std::int32_t max_label_ = -1;
    bool has_labels_ = false;
};

// Reads the shard. Throws what TarReader and TarSamples throw.
TarIndex make_tar_index(const ByteFile& shard, const FieldNames& wanted);

// The same from the user's cache, where it is there for this state of the shard; else made and put there.
TarIndex cached_tar_index(const ByteFile& shard, const FieldNames& wanted);

}  // namespace stoker
