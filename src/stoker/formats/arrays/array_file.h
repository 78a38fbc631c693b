// Opens a file of named arrays (.npy, .npz, .safetensors, .pt) behind one interface. A new format is a line in the
// table of array_file.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/array.h"

namespace stoker {

struct ArrayFile {
    std::string_view format;            // "npz"
    std::shared_ptr<const void> owner;  // the views live as long as this
    std::vector<ArrayView> arrays;
    std::map<std::string, std::vector<std::string>> texts;  // one-dimensional arrays and lists of text
    std::int64_t bytes = 0;                                 // of the files

    // Null if the file has none with that name.
    const ArrayView* find(std::string_view name) const;
};

// True for an existing file with one of the extensions, and for a folder with images.npy.
bool is_array_path(const std::string& path);

// The names of all arrays and texts, without reading any. Throws IoError, DataError, Unsupported, each with the path,
// as open_arrays does.
std::vector<std::string> array_names(const std::string& path);

// The arrays and texts with these names; all of them if `wanted` is empty.
//   .npy          The array is named "images". A file of labels next to it is named "labels": NAME_labels.npy for
//                 NAME.npy, else NAME with "labels" in place of "images"; for x.npy also labels.npy and y.npy.
//   .npz          Members NAME.npy, as numpy.savez and savez_compressed write them. Stored members are views into the
//                 map, deflated ones are inflated once. Checksums are verified, except for stored members above 256
//                 MiB: verifying those would take as long as reading the data.
//   .safetensors  Tensors of all types that ArrayType has; a wanted 8-bit float is refused.
//   .pt           pt.h describes it.
ArrayFile open_arrays(const std::string& path, std::span<const std::string> wanted);

}  // namespace stoker
