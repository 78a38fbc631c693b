// Converts sample keys to member names of a WebDataset shard and back. WebDataset readers split a file name at its
// first dot, so a key is escaped with %XX where that dot would cut it. Ordinary keys, such as "cat/001.jpg" in a data
// set of .jpg files, stay unchanged. Different keys give different names; docs/pack-targets.md has a table of examples.
#pragma once

#include <string>
#include <string_view>

#include "stoker/base/utf8.h"  // IWYU pragma: export

namespace stoker {

struct TarMemberName {
    // "cat/001": the escaped key, without its extension if that is the usual one. No dot in its last part. A "%" at the
    // end says that the member's extension is not part of the key.
    std::string base;
    std::string extension;  // "jpg": the key's or the given one
};

// The usual extension of a data set, which members need not mark with "%": that of the first key if it is an image's,
// "npy" if the first sample is stored as pixels (`extension`), else empty.
std::string usual_extension(std::string_view first_key, std::string_view extension);

// `extension`: of the stored image, "npy" for pixels; `usual`: the data set's usual_extension().
TarMemberName tar_member_name(std::string_view key, std::string_view extension, std::string_view usual);

// The key of the sample with the image `base`.`extension`: the inverse of tar_member_name. A base that tar_member_name
// does not produce is taken literally.
std::string tar_member_key(std::string_view base, std::string_view extension);

}  // namespace stoker
