// Image files in a folder that a table, a list or a second folder names: one file for each sample, or several, such as
// image and mask. Names are kept in one text, because a list may have millions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/file_prefetcher.h"

namespace stoker {

// True for a path that stays within a folder: relative, without ".." and bytes of value 0.
bool stays_within_folder(std::string_view path);

class SampleFiles {
  public:
    // `columns`: files of a sample. Throws IoError if the folder cannot be opened.
    SampleFiles(const std::filesystem::path& folder, std::size_t columns);

    // Appends the next sample's file. `name` stays within the folder, or is empty if the sample lacks such a file.
    void add(std::size_t column, std::string_view name);

    std::int64_t size() const { return static_cast<std::int64_t>(columns_.front().ends.size()); }
    std::string_view name(std::size_t column, std::int64_t index) const;

    // Reads the whole file into `value` as an encoded image. Throws DataError, with the name as key, if the file cannot
    // be read, and IoError if the disk fails. Thread-safe.
    void read(std::size_t column, std::int64_t index, FieldValue& value) const;

    // While readers have to wait for files, threads bring the announced samples' files into the page cache.
    void prefetch(std::span<const std::int64_t> indices) const { prefetcher_.announce(indices); }

    // The size of all files, one system call each; files that are missing count as 0.
    std::int64_t bytes() const;

  private:
    struct Names {
        std::string text;
        std::vector<std::uint64_t> ends;  // of each name in `text`
    };

    bool fetch(std::int64_t index) const;

    std::filesystem::path path_;
    Folder folder_;
    std::vector<Names> columns_;
    mutable FilePrefetcher prefetcher_;  // last: its threads use the members above
};

}  // namespace stoker
