// Tensors in a file as the safetensors format lays them out: eight bytes of header length, a JSON
// header of names, types, shapes and offsets, then the bytes. Nothing in it can run code.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/base/tensor_view.h"

namespace stoker {

struct NamedView {
    std::string name;
    TensorView view;
};

// What a file says of itself beside its tensors.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Writes atomically and durably, tensors in the given order, and gives the hash (XXH3) of the file's bytes. Throws
// IoError.
std::uint64_t write_safetensors(const std::filesystem::path& path, const std::vector<NamedView>& tensors,
                                const SafetensorsMetadata& metadata = {});

// A tensor as a header names it: the types of the format that no DType stands for are there too.
struct SafetensorsEntry {
    std::string name;
    std::string dtype;  // "U8", "F32", ...
    Shape shape;
    std::span<const std::byte> bytes;  // as many as type and shape say
};

// The tensors in the bytes of a safetensors file, in the header's order; their bytes are views. Checks every name,
// type, shape and offset first. Throws DataError. `metadata`, where given, gets what the file has of it.
std::vector<SafetensorsEntry> parse_safetensors(std::span<const std::byte> bytes,
                                                SafetensorsMetadata* metadata = nullptr);

// Of a type as a header names it; empty for those that no DType stands for.
std::optional<DType> safetensors_dtype(std::string_view name);

class SafetensorsFile {
  public:
    // Maps the file and parses it as above; tensors of types that are no DType are refused. Throws DataError.
    explicit SafetensorsFile(const std::filesystem::path& path);

    const std::vector<NamedView>& tensors() const { return tensors_; }
    const SafetensorsMetadata& metadata() const { return metadata_; }
    // Of the whole file.
    std::span<const std::byte> bytes() const { return file_.bytes(); }

    // The tensor of that name; its bytes live as long as this object and are read-only. Throws
    // DataError where there is none.
    const TensorView& at(const std::string& name) const;
    bool contains(const std::string& name) const { return by_name_.contains(name); }

  private:
    std::filesystem::path path_;
    MappedFile file_;
    std::vector<NamedView> tensors_;
    SafetensorsMetadata metadata_;
    std::map<std::string, std::size_t> by_name_;
};

}  // namespace stoker
