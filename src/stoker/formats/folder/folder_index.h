// The listing of an image folder: names, labels, classes. Listing a million files takes seconds, so the listing of a
// large folder is stored in the user's cache and used again while no folder in it has changed.
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
#include "stoker/formats/folder_walk.h"

namespace stoker {

struct FolderIndexOptions {
    std::int64_t min_cached_files = 10'000;  // fewer files are listed in a few milliseconds
    // Two changes within the granularity of the file system's times (2 s on FAT, some milliseconds elsewhere) look like
    // one. So a listing is cached only if no folder has changed for this long.
    std::int64_t min_age_ns = 2'000'000'000;
};

// The .csv file in a folder that most likely has the labels for training, with its path; empty if there is none.
std::string labels_table(const std::filesystem::path& folder);

class FolderIndex {
  public:
    // Uses the cached listing if it is still valid. Otherwise lists the folder, on all cores that this process may use,
    // and caches the result. Throws DataError if there are no classes, or classes without images.
    static FolderIndex open(const std::filesystem::path& root, const FolderIndexOptions& options = {});

    // Lists the folder on one thread, without the cache. Tests compare `open` with it.
    static FolderIndex list(const std::filesystem::path& root);

    std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
    // The path within the root, such as "cat/001.jpg". `index` must be in [0, size()), also for label.
    std::string_view name(std::int64_t index) const {
        const auto at = static_cast<std::size_t>(index);
        return names_.substr(begins_[at], begins_[at + 1] - begins_[at]);
    }
    std::int32_t label(std::int64_t index) const { return labels_[static_cast<std::size_t>(index)]; }
    std::span<const std::string> classes() const { return classes_; }
    // One line on the images that were left out; empty if there are none (left_out.h).
    std::string_view left_out() const { return left_out_; }
    bool from_cache() const { return from_cache_; }

  private:
    struct Header;
    struct Listing;
    struct Parts;

    static FolderIndex make(const std::filesystem::path& root, int threads);
    static Buffer serialize(const Listing& listing);
    static std::optional<FolderIndex> parse(Buffer bytes);
    std::string_view text(std::size_t at) const;
    bool unchanged(const std::filesystem::path& root) const;
    bool older_than(std::int64_t time_ns) const;

    // The cache file's bytes, into which the spans and string views below point.
    Buffer bytes_;
    std::span<const std::uint64_t> begins_;  // of names; one more than there are names
    std::span<const std::int32_t> labels_;
    std::string_view names_;
    std::span<const FolderStamp> stamps_;
    std::span<const std::uint64_t> text_begins_;
    std::string_view texts_;  // classes, folders, links, the line on images that were left out
    std::vector<std::string> classes_;
    std::size_t links_ = 0;
    std::string_view left_out_;
    bool from_cache_ = false;
};

}  // namespace stoker
