// Writes HDF5 datasets front to back, in pieces: fixed arrays as one contiguous block, so that readers may read
// them without the library, lists of byte strings as variable-length elements.
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

enum class Hdf5Type : std::uint8_t { uint8, int64, vlen_uint8, text };  // text: UTF-8 of any length, without a NUL

class Hdf5Writer {
  public:
    explicit Hdf5Writer(std::filesystem::path path);  // replaces what is there; throws IoError, as all calls do
    Hdf5Writer(const Hdf5Writer&) = delete;
    Hdf5Writer& operator=(const Hdf5Writer&) = delete;
    ~Hdf5Writer();

    // A dataset, which `append` then fills along its first axis. `shape` of the two variable types: {count}.
    void begin(const std::string& name, Hdf5Type type, const Shape& shape);
    void append(std::span<const std::byte> elements);                   // whole rows of uint8 or int64
    void append(std::span<const std::span<const std::byte>> elements);  // of the variable types
    // On the dataset under way.
    void attribute(const std::string& name, std::span<const std::string> texts);
    void end();  // throws InternalError where rows are missing

    // Closes the file and brings it to the disk.
    void finish();

  private:
    struct Handles;

    void write(std::int64_t rows, const void* data);
    [[noreturn]] void fail(const char* expected) const;

    std::filesystem::path path_;
    std::unique_ptr<Handles> handles_;
};

}  // namespace stoker
