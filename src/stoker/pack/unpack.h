// Unpacks any readable data set into a folder of image files with one subfolder per class: the inverse of `pack`, as
// far as the stored bytes allow. Further fields become labels.csv and folders of files (unpack_fields.h), boxes COCO's
// annotations (unpack_coco.h), and token streams one file (unpack_tokens.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "stoker/formats/dataset.h"

namespace stoker {

struct UnpackOptions {
    int workers = 1;
    // Called on the caller's thread with samples done and bytes written. An exception from it ends the unpacking.
    std::function<void(std::int64_t done, std::int64_t bytes)> progress = {};
};

struct UnpackResult {
    std::int64_t samples = 0;
    std::int64_t bytes = 0;        // written
    std::int64_t original = 0;     // files equal, byte for byte, to the packed ones or to the data set's
    std::int64_t same_pixels = 0;  // the other images: the same pixels in a new file
};

// Path of a sample's file within the folder: its key, below its class's subfolder, with an extension by its codec if
// the key has none. Throws DataError for a name that would leave the folder.
std::filesystem::path unpacked_name(const std::string& key, const std::string& class_name, bool raw,
                                    std::span<const std::byte> bytes);

// Writes into `directory`, an existing empty folder. Checks the hashes of stk samples. Throws DataError for bad samples
// and for keys and classes that cannot be file names, InvalidArgument for fields that none of these hold, IoError.
UnpackResult unpack(const Dataset& dataset, const std::filesystem::path& directory, const UnpackOptions& options);

}  // namespace stoker
