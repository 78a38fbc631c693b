// Reader and writer of the safetensors format: eight bytes of header length, a JSON header of names, types, shapes and
// offsets, then the tensors' bytes. Nothing in a file can run code.
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
#include "stoker/formats/array.h"

namespace stoker {

struct NamedView {
    std::string name;
    TensorView view;
};

// The key-value texts of the header's __metadata__.
using SafetensorsMetadata = std::map<std::string, std::string>;

// A file before it is written: its first bytes, the position of each tensor, and its size.
struct SafetensorsLayout {
    std::string header;
    std::vector<std::uint64_t> begins;
    std::uint64_t size = 0;
};
SafetensorsLayout lay_out_safetensors(const std::vector<NamedView>& tensors, const SafetensorsMetadata& metadata = {});

// Writes atomically and durably, tensors in the given order. Returns the hash (XXH3) of the file's bytes. Throws
// IoError.
std::uint64_t write_safetensors(const std::filesystem::path& path, const std::vector<NamedView>& tensors,
                                const SafetensorsMetadata& metadata = {});

// A tensor as the header describes it. Its type may be one that DType does not have.
struct SafetensorsEntry {
    std::string name;
    std::string dtype;  // "U8", "F32", ...
    Shape shape;
    std::span<const std::byte> bytes;  // exactly the size that type and shape need
};

// The tensors in the bytes of a safetensors file, in the header's order; their bytes are views. Checks every name,
// type, shape and offset first. Throws DataError, also for a key that occurs twice and for tensors that overlap.
// `metadata`, if given, is filled with the file's.
std::vector<SafetensorsEntry> parse_safetensors(std::span<const std::byte> bytes,
                                                SafetensorsMetadata* metadata = nullptr);

// The DType or ArrayType for a type name of the format ("F32"); empty for types that these do not have.
std::optional<DType> safetensors_dtype(std::string_view name);
std::optional<ArrayType> safetensors_array_type(std::string_view name);

class SafetensorsFile {
  public:
    // Maps the file and parses it as above. Throws DataError, also for tensors of types that DType does not have.
    explicit SafetensorsFile(const std::filesystem::path& path);

    const std::vector<NamedView>& tensors() const { return tensors_; }
    const SafetensorsMetadata& metadata() const { return metadata_; }
    // The whole file.
    std::span<const std::byte> bytes() const { return file_.bytes(); }

    // The tensor of that name; its bytes live as long as this object and are read-only. Throws DataError if there is
    // none.
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
