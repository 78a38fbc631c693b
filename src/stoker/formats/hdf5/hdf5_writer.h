// Writes HDF5 datasets in pieces, from the first row to the last. Arrays are contiguous, so that they can be read
// without the library; lists of byte strings are variable-length elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/tensor_view.h"

namespace stoker {

// text: UTF-8 without NUL.
enum class Hdf5Type : std::uint8_t { uint8, uint16, int16, int32, int64, float16, float32, float64, vlen_uint8, text };

// Throws InvalidArgument for bfloat16, which HDF5 does not have.
Hdf5Type hdf5_type(DType dtype);

class Hdf5Writer {
  public:
    explicit Hdf5Writer(std::filesystem::path path);  // replaces an existing file; all calls throw IoError
    Hdf5Writer(const Hdf5Writer&) = delete;
    Hdf5Writer& operator=(const Hdf5Writer&) = delete;
    ~Hdf5Writer();

    // Begins a dataset; `append` fills it along the first axis. `shape` is {count} for the variable-length types.
    void begin(const std::string& name, Hdf5Type type, const Shape& shape);
    void append(std::span<const std::byte> elements);                   // complete rows of numbers
    void append(std::span<const std::span<const std::byte>> elements);  // variable-length elements
    // Adds an attribute to the dataset that was begun.
    void attribute(const std::string& name, std::span<const std::string> texts);
    void end();  // throws InternalError if rows are missing

    // Closes the file and syncs it to the disk.
    void finish();

  private:
    struct Handles;

    void write(std::int64_t rows, const void* data);
    [[noreturn]] void fail(const char* expected) const;

    std::filesystem::path path_;
    std::unique_ptr<Handles> handles_;
};

}  // namespace stoker
