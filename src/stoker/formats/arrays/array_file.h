// Files of named arrays, each read by a class of its own, and what they have in common. A new one (`arrays()`,
// `bytes()`) is a line in the table of array_file.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/formats/array.h"
#include "stoker/io/zip.h"

namespace stoker {

using Texts = std::map<std::string, std::vector<std::string>>;

// A .npy file as the field "images", and its labels, as "labels", where they lie beside it: for NAME.npy in
// NAME_labels.npy, else in the file that has "labels" for the "images" in NAME, and for x.npy in labels.npy or y.npy.
class NpyFile {
  public:
    explicit NpyFile(const std::filesystem::path& path);

    const std::vector<ArrayView>& arrays() const { return arrays_; }
    std::int64_t bytes() const { return bytes_; }  // of both files

  private:
    struct Part {
        explicit Part(const std::filesystem::path& path) : file(path), map(file) {}
        File file;
        MappedFile map;
    };
    void add(const std::filesystem::path& path, std::string name);

    std::deque<Part> parts_;
    std::vector<ArrayView> arrays_;
    std::int64_t bytes_ = 0;
};

// The members NAME.npy of a zip file, as numpy.savez writes it; `wanted` names those that are read, if it has any.
// Stored members are views into the map, deflated ones are inflated once. Both are compared with their checksums, but
// for stored ones of more than kCheckedBytes: opening would take as long as reading them.
class NpzFile {
  public:
    static constexpr std::uint64_t kCheckedBytes = std::uint64_t{256} << 20;

    explicit NpzFile(const std::filesystem::path& path, std::span<const std::string> wanted = {});

    const std::vector<ArrayView>& arrays() const { return arrays_; }
    const Texts& texts() const { return texts_; }  // the arrays of text in one dimension
    std::int64_t bytes() const { return static_cast<std::int64_t>(zip_.bytes().size()); }

    // Without reading any.
    static std::vector<std::string> names(const std::filesystem::path& path);

  private:
    void add(const ZipEntry& entry);

    ZipFile zip_;
    std::deque<Buffer> inflated_;
    std::vector<ArrayView> arrays_;
    Texts texts_;
};

// Tensors of the types that an ArrayView has: bfloat16 and narrower floats are refused where they are wanted.
class SafetensorsArrays {
  public:
    explicit SafetensorsArrays(const std::filesystem::path& path, std::span<const std::string> wanted = {});

    const std::vector<ArrayView>& arrays() const { return arrays_; }
    std::int64_t bytes() const { return static_cast<std::int64_t>(map_.bytes().size()); }

    static std::vector<std::string> names(const std::filesystem::path& path);

  private:
    File file_;
    MappedFile map_;
    std::vector<ArrayView> arrays_;
};

// What any of them holds. The views live as long as `owner`.
struct ArrayFile {
    std::string_view format;  // "npz"
    std::shared_ptr<const void> owner;
    std::vector<ArrayView> arrays;
    Texts texts;
    std::int64_t bytes = 0;

    // Null where there is none of that name.
    const ArrayView* find(std::string_view name) const;
};

// True for a file that is there and ends as one of these do, and for a folder with images.npy.
bool is_array_path(const std::string& path);

// The names of the arrays, and the arrays of these names. Throws IoError, DataError, Unsupported, each with the path.
std::vector<std::string> array_names(const std::string& path);
ArrayFile open_arrays(const std::string& path, std::span<const std::string> wanted);

}  // namespace stoker
