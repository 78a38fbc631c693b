// What a sample's members are called in a WebDataset shard, and back. Python's readers take everything up to the first
// dot of the file name as the sample's name, so a key that would be cut there, or that would run into its neighbour, is
// written with %XX for single bytes. Ordinary keys, such as "cat/001.jpg", stand as they are.
//
// base      a member's name before that dot: escaped key, without the extension where the key ends in it
// "%" last  in the base: the member's extension is not part of the key
#pragma once

#include <string>
#include <string_view>

namespace stoker {

struct TarName {
    std::string base;       // "cat/001": no dot in its last part
    std::string extension;  // "jpg", as the key has it, or as given
};

// Whether a member of this extension holds an encoded image: jpg, jpeg, png, webp, bmp, ppm, pgm or dct, in any case.
bool is_image_extension(std::string_view extension);

// `extension`: of what is stored, "npy" for pixels. Where `before` (the base of the sample before) would be the same,
// the key's own extension goes into the base.
TarName tar_name(std::string_view key, std::string_view extension, std::string_view before);

// The key of a sample whose image lies in `base`.`extension`. What tar_name made is undone; any other base is part of
// the key as it stands.
std::string tar_key(std::string_view base, std::string_view extension);

// Valid UTF-8, as Python's strict decoder has it.
bool is_utf8(std::string_view text);

}  // namespace stoker
