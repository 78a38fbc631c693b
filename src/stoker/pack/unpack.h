// From any readable dataset back to a folder of image files, one subfolder a class: what `pack` was given, as
// far as the bytes allow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "stoker/formats/dataset.h"

namespace stoker {

struct UnpackOptions {
    int workers = 1;
    // Called on the caller's thread with samples done and bytes written. What it throws ends the unpacking.
    std::function<void(std::int64_t done, std::int64_t bytes)> progress = {};
};

struct UnpackResult {
    std::int64_t samples = 0;
    std::int64_t bytes = 0;        // written
    std::int64_t original = 0;     // files that are byte for byte those that were packed, or the dataset's
    std::int64_t same_pixels = 0;  // the others: the pixels of the data set in another file
};

// Where a sample's file goes within the folder: its key, below its class's folder, with the extension that its
// bytes ask for where the key has none. Throws DataError for a name that would leave the folder.
std::filesystem::path unpacked_name(const std::string& key, const std::string& class_name, bool raw,
                                    std::span<const std::byte> bytes);

// Writes into `directory`, which is there and empty. Packed samples are compared with their hashes. Throws DataError
// for bad samples and for keys and classes that are no file names, IoError.
UnpackResult unpack(const Dataset& dataset, const std::filesystem::path& directory, const UnpackOptions& options);

}  // namespace stoker
