// The answers of services that list files: S3's ListObjectsV2 (XML), which Google's service has as well, and the tree
// of a repository on the Hugging Face hub (JSON).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

struct ListedFile {
    std::string path;  // the key in the bucket, or the path in the repository
    std::uint64_t size = 0;

    bool operator==(const ListedFile&) const = default;
};

struct ListingPage {
    std::vector<ListedFile> files;
    std::string next = {};  // the token of the next page; empty: this is the last, or (JSON) a header has it
};

// Nothing for text that is not a complete listing: folders must not seem to have fewer files than they have. Keys that
// end with '/' stand for folders and are left out.
std::optional<ListingPage> parse_bucket_listing(std::string_view xml);
std::optional<ListingPage> parse_tree_listing(std::string_view json);

// The URL with rel="next" of a Link header (RFC 8288); empty if there is none.
std::string next_link(std::string_view header);

}  // namespace stoker
