// Members of a tar archive put together to samples, as the webdataset library does it: what comes before the first
// dot of the base name is the key, what follows it the extension, and neighbours with one key are one sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "stoker/formats/open_options.h"
#include "stoker/formats/webdataset/tar.h"
#include "stoker/formats/webdataset/tar_label.h"

namespace stoker {

// A sample that has an image.
struct TarImage {
    std::string key;    // as Dataset::key gives it: with the image's extension, but for npy
    ByteRange payload;  // of the image
    std::int32_t label = kNoTarLabel;
    bool npy = false;
};

struct TarNameParts {
    std::string_view key;
    std::string_view extension;
};

// Both empty for a member that belongs to no sample: without a key or a dot, or one of the library's own, which are
// called "__...__" or lie in a folder of such a name.
TarNameParts split_tar_name(std::string_view name);

class TarSamples {
  public:
    // `found` is called for each sample with an image, in the archive's order; `wanted` as in OpenOptions.
    TarSamples(std::string path, const FieldNames& wanted, std::function<void(const TarImage&)> found);

    // Takes the next member; `bytes` gives its payload and is called only where that may be the label. Throws
    // DataError for an extension that a sample has twice, and for a key that comes again after another.
    void add(const TarMember& member, const std::function<std::span<const std::byte>()>& bytes);

    // To be called after the last member.
    void finish();

    std::int64_t others() const { return others_; }  // samples without an image
    // Of all members, each once, in their order; the first twenty of them.
    const std::vector<std::string>& extensions() const { return extensions_; }

  private:
    void begin(const TarMember& member, std::string_view key);
    void check_new(const TarMember& member, std::string_view key, const std::string& extension);
    void offer_image(const TarMember& member, const std::string& extension);
    void offer_label(const TarMember& member, const std::string& extension,
                     const std::function<std::span<const std::byte>()>& bytes);
    void list(const std::string& extension);

    std::string path_;
    std::string wanted_image_;  // an extension, lower case
    std::vector<TarLabelMember> label_members_;
    std::function<void(const TarImage&)> found_;
    std::unordered_set<std::uint64_t> seen_;  // hashes of keys, and of members
    std::vector<std::string> extensions_;
    std::int64_t others_ = 0;

    // The sample that is being put together.
    bool open_ = false;
    std::string key_;
    TarImage image_;
    std::size_t image_rank_ = 0;
    std::size_t label_rank_ = 0;
    std::size_t tails_ = 0;  // members such as key.left.jpg
};

}  // namespace stoker
