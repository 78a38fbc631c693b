// Reads and writes IDX, the format of MNIST: a big-endian magic number and sizes, then the elements. Plain files are
// mapped, gzip files are inflated into memory once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/tensor_view.h"

namespace stoker {

// One IDX file of uint8 elements with 1 to 4 dimensions. Throws DataError if header and size disagree, before memory
// is allocated, and Unsupported for other element types.
class IdxFile {
  public:
    explicit IdxFile(const std::filesystem::path& path);
    IdxFile(const IdxFile&) = delete;
    IdxFile& operator=(const IdxFile&) = delete;

    const Shape& shape() const { return shape_; }
    std::span<const std::byte> bytes() const { return bytes_; }  // the elements, row-major
    std::int64_t file_bytes() const { return file_bytes_; }

  private:
    void map_plain(const std::string& path);
    void inflate(const std::string& path);

    MappedFile file_;
    Buffer inflated_;
    Shape shape_;
    std::span<const std::byte> bytes_;
    std::int64_t file_bytes_ = 0;
};

// Writes uint8 elements with 1 to 4 dimensions, as gzip if the name ends in .gz. Throws InvalidArgument for other
// tensors, IoError if the file cannot be written.
void write_idx(const std::filesystem::path& path, const TensorView& tensor);

}  // namespace stoker
