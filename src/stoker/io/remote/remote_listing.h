// The files below a folder behind s3://, gs:// or hf://, page by page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/io/byte_file.h"

namespace stoker {

struct RemoteEntry {
    std::string name;  // the whole name, for open_byte_file
    std::uint64_t size = 0;

    bool operator==(const RemoteEntry&) const = default;
};

// A longer listing is refused.
struct ListingLimits {
    std::size_t pages = 2'000;
    std::size_t files = 1'000'000;
    std::size_t page_bytes = 8 << 20;
    std::size_t name_bytes = 256 << 20;  // of all names
};

// True for the names of services that list their files: s3://, gs://, hf://.
bool can_list(std::string_view name);

// All files in the folder and in folders below it, sorted by name: "s3://bucket", "s3://bucket/folder",
// "hf://datasets/ORG/NAME", "hf://datasets/ORG/NAME@REVISION/folder". An S3 folder without files does not exist, so the
// result may be empty. Throws IoError if the listing cannot be read or is too long, Unsupported for other names.
std::vector<RemoteEntry> list_remote(const std::string& folder, const RemoteOptions& options = {},
                                     const ListingLimits& limits = {});

// The files that match a pattern with '*' (see remote_pattern.h), sorted by name. Throws IoError also if there is none.
std::vector<RemoteEntry> match_remote(const std::string& pattern, const RemoteOptions& options = {},
                                      const ListingLimits& limits = {});

}  // namespace stoker
