// Index of a WebDataset shard: for each sample its key, label and the locations of its image and further fields. It is
// built by reading the shard's headers and labels once. It is one block of memory, which the user's cache stores as is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "stoker/base/buffer.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/webdataset/label_parser.h"
#include "stoker/io/byte_file.h"

namespace stoker {

struct TarIndexEntry {
    std::uint64_t offset = 0;  // of the image, in the shard; of a clip, its first frame's place among all frames
    std::uint32_t size = 0;    // of a clip, its number of frames
    std::int32_t label = kNoTarLabel;  // or kBadTarLabel
    std::uint32_t key_end = 0;         // end of the key in the text of all keys
    std::uint32_t image = 0;           // a TarImage
};

// The location of a further field's value, or of a frame.
struct TarFieldPlace {
    std::uint64_t offset = 0;  // in the shard
    std::uint32_t size = 0;
    std::uint32_t present = 0;  // 0: the sample lacks this member
};

class TarIndex {
  public:
    // Returns empty for bytes that are not an index or that do not fit a shard of `shard_size` bytes.
    static std::optional<TarIndex> parse(Buffer bytes, std::uint64_t shard_size);

    std::int64_t size() const { return static_cast<std::int64_t>(samples_.size()); }
    std::int32_t max_label() const { return max_label_; }  // -1 without labels
    bool has_labels() const { return has_labels_; }        // valid or bad ones
    std::size_t fields() const { return fields_; }         // of each sample
    const TarFieldPlace& field(std::int64_t sample, std::size_t at) const {
        return places_[static_cast<std::size_t>(sample) * fields_ + at];
    }
    // Those of a clip.
    std::span<const TarFieldPlace> frames(const TarIndexEntry& entry) const {
        return frames_.subspan(static_cast<std::size_t>(entry.offset), entry.size);
    }
    std::span<const TarIndexEntry> samples() const { return samples_; }
    bool has_images() const { return has_images_; }
    const TarIndexEntry& operator[](std::int64_t sample) const { return samples_[static_cast<std::size_t>(sample)]; }
    std::string_view key(std::int64_t sample) const;
    std::string_view extensions() const {
        return extensions_;
    }  // the shard's first distinct extensions, separated by ", "
    // Samples that have a label and no image, or several that may be it; and the key of the first.
    std::int64_t left_out() const { return left_out_; }
    std::string_view left_out_key() const { return left_out_key_; }
    std::span<const std::byte> bytes() const { return bytes_.bytes(); }

  private:
    TarIndex() = default;
    bool check(std::uint64_t shard_size);

    Buffer bytes_;
    std::span<const TarIndexEntry> samples_;
    std::span<const TarFieldPlace> places_;
    std::span<const TarFieldPlace> frames_;
    std::size_t fields_ = 0;
    std::string_view keys_;
    std::string_view extensions_;
    std::int64_t left_out_ = 0;
    std::string_view left_out_key_;
    std::int32_t max_label_ = -1;
    bool has_labels_ = false;
    bool has_images_ = false;
};

// Builds the index. If further fields are wanted and no image is named, the samples of a shard without any image have
// no images. Throws what TarReader and SampleGrouper throw.
TarIndex make_tar_index(const ByteFile& shard, const FieldNames& wanted);

// The same, through the user's cache. A cached index is used only if the shard has not changed since.
TarIndex cached_tar_index(const ByteFile& shard, const FieldNames& wanted);

}  // namespace stoker
