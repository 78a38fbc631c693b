// Groups the members of a tar archive into samples, like group_by_keys of the webdataset library. The part of the file
// name before its first dot is the key, the rest the extension; consecutive members with one key form a sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/webdataset/label_parser.h"
#include "stoker/formats/webdataset/tar_fields.h"
#include "stoker/formats/webdataset/tar_reader.h"

namespace stoker {

// How a sample's image is stored; the numbers are those of the index.
enum class TarImage : std::uint32_t { encoded = 0, npy = 1, none = 2, frames = 3 };

// A frame of a clip: the member key.NUMBER.jpg or key/NUMBER.jpg.
struct TarFrame {
    std::uint64_t number = 0;
    ByteRange payload;
};

struct GroupedSample {
    std::string key;    // as Dataset::key: with the image's extension, except for npy and samples without an image
    ByteRange payload;  // of the image
    std::int32_t label = kNoTarLabel;
    TarImage image = TarImage::none;
    std::vector<std::optional<ByteRange>> fields = {};  // FieldNames::more, in order; empty: the sample lacks it
    std::vector<TarFrame> frames = {};                  // by number
};

struct TarMemberNameParts {
    std::string_view key;
    std::string_view extension;
};

// Both empty for a member that belongs to no sample: one without a key or a dot, or one of WebDataset's metadata, whose
// first path component has the form "__...__".
TarMemberNameParts split_tar_member_name(std::string_view name);

class SampleGrouper {
  public:
    // Calls `found` for each sample with an image, in the archive's order; if `imageless` is true also for one
    // without an image that has one of the further fields. `wanted`: see OpenOptions.
    SampleGrouper(std::string path, const FieldNames& wanted, bool imageless,
                  std::function<void(const GroupedSample&)> found);

    // Adds the next member. `bytes` returns its payload and is called only if the member may hold the label. Throws
    // DataError for a repeated extension in a sample and for a key that appears again after another one.
    void add(const TarMember& member, const std::function<std::span<const std::byte>()>& bytes);

    // Ends the last sample; call it after the last member.
    void finish();

    // The first twenty distinct extensions, in order.
    const std::vector<std::string>& extensions() const { return extensions_; }
    // Samples that have a label and no image, or several that may be it, and the key of the first.
    std::uint32_t left_out() const { return left_out_; }
    const std::string& left_out_key() const { return left_out_key_; }

  private:
    void begin(const TarMember& member, std::string_view key);
    void check_new(const TarMember& member, std::string_view key, const std::string& extension);
    void check_size(const TarMember& member) const;
    void offer_image(const TarMember& member, const std::string& extension);
    void offer_label(const TarMember& member, const std::string& extension,
                     const std::function<std::span<const std::byte>()>& bytes);
    void offer_fields(const TarMember& member, const std::string& extension);
    void list(const std::string& extension);

    std::string path_;
    bool clips_;
    std::string wanted_image_;  // extension in lower case, or empty
    std::vector<LabelMember> label_members_;
    std::vector<TarFieldSource> sources_;  // of the further fields
    bool imageless_;
    std::function<void(const GroupedSample&)> found_;
    std::unordered_set<std::uint64_t> seen_;  // hashes of keys and of (key, extension)
    std::vector<std::string> extensions_;
    std::uint32_t left_out_ = 0;
    std::string left_out_key_;

    // The current sample.
    bool open_ = false;
    std::string key_;
    GroupedSample sample_;
    std::size_t image_rank_ = 0;
    std::size_t label_rank_ = 0;
    std::vector<std::size_t> field_ranks_;
    std::size_t suffixed_ = 0;  // number of members such as key.left.jpg
};

}  // namespace stoker
