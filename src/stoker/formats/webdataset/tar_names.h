// What a sample's members are called in a WebDataset shard, and back. Python's readers take everything up to the first
// dot of the file name as the sample's name, so bytes of a key that would be cut there are written as %XX. Ordinary
// keys, such as "cat/001.jpg" in a data set of .jpg files, stand as they are. No two keys give the same name.
//
// base      a member's name before that dot: the escaped key, without the extension where it has the usual one
// "%" last  in the base: the member's extension is not part of the key
#pragma once

#include <string>
#include <string_view>

#include "stoker/base/utf8.h"  // IWYU pragma: export

namespace stoker {

struct TarName {
    std::string base;       // "cat/001": no dot in its last part
    std::string extension;  // "jpg", as the key has it, or as given
};

// Whether a member of this extension holds an encoded image: jpg, jpeg, png, webp, bmp, ppm, pgm or dct, in any case.
bool is_image_extension(std::string_view extension);

// The extension that keys of a data set have, so that their members need no mark: that of the first key, where it is
// an image's; "npy" where the first sample is stored as pixels (`extension`); else empty.
std::string usual_extension(std::string_view first_key, std::string_view extension);

// `extension`: of what is stored, "npy" for pixels; `usual`: what usual_extension said.
TarName tar_name(std::string_view key, std::string_view extension, std::string_view usual);

// The key of a sample whose image lies in `base`.`extension`. What tar_name made is undone; any other base is part of
// the key as it stands.
std::string tar_key(std::string_view base, std::string_view extension);

}  // namespace stoker
