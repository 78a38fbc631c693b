// Which images an image folder holds: names, labels, classes. A million files take seconds to list, so that the
// listing of a large folder is kept in the user's cache, and taken from there while no folder in it has changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/formats/folder/folder_walk.h"

namespace stoker {

struct FolderIndexOptions {
    std::int64_t kept_from = 10'000;  // fewer files are listed in a few milliseconds
    // A change that follows the one before within the granularity of the file system's times (2 s on FAT, some
    // milliseconds elsewhere) does not show. So a listing is kept only if all folders were at rest for that long.
    std::int64_t rest_ns = 2'000'000'000;
};

class FolderIndex {
  public:
    // From the cache where that is known to be what a listing would give; else lists, on all cores that this process
    // may use, and keeps the result. Throws DataError where there are no classes, or classes without an image.
    static FolderIndex open(const std::filesystem::path& root, const FolderIndexOptions& options = {});

    // Lists one folder after the other and keeps nothing: what the other ways are tested against.
    static FolderIndex list(const std::filesystem::path& root);

    std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
    // The path within the root, as "cat/001.jpg"; `index` in [0, size()), as for label.
    std::string_view name(std::int64_t index) const {
        const auto at = static_cast<std::size_t>(index);
        return names_.substr(begins_[at], begins_[at + 1] - begins_[at]);
    }
    std::int32_t label(std::int64_t index) const { return labels_[static_cast<std::size_t>(index)]; }
    std::span<const std::string> classes() const { return classes_; }
    std::int64_t other_images() const { return other_images_; }
    bool from_cache() const { return from_cache_; }

  private:
    struct Header;
    struct Listing;
    struct Parts;

    static FolderIndex make(const std::filesystem::path& root, int threads);
    static Buffer flatten(const Listing& listing);
    static void fill(const std::vector<std::string>& texts, const Listing& listing, const Parts& parts);
    static std::optional<FolderIndex> adopt(Buffer bytes);
    std::string_view text(std::size_t at) const;
    bool unchanged(const std::filesystem::path& root) const;
    bool settled(std::int64_t before_ns) const;

    // Everything in one piece, as it is kept; the rest are views into it.
    Buffer bytes_;
    std::span<const std::uint64_t> begins_;  // of names; one more than there are names
    std::span<const std::int32_t> labels_;
    std::string_view names_;
    std::span<const FolderStamp> stamps_;
    std::span<const std::uint64_t> text_begins_;
    std::string_view texts_;  // classes, folders, links
    std::vector<std::string> classes_;
    std::size_t links_ = 0;
    std::int64_t other_images_ = 0;
    bool from_cache_ = false;
};

}  // namespace stoker
