// Writes .npz files: zip archives of uncompressed .npy members. Written front to back, except for a member's checksum,
// which is filled in when the member ends. Always zip64, so that one layout serves every size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/tensor_view.h"
#include "stoker/io/append_file.h"

namespace stoker {

// The magic number and header of a .npy file in C order. `descr` is NumPy's name of the element type: "|u1", "<i8".
std::string npy_header(std::string_view descr, const Shape& shape);

// NumPy's name of the same elements, "<f4"; empty for bfloat16, which NumPy does not have.
std::string_view npy_descr(DType dtype);

// The number of code points of a UTF-8 text.
std::size_t text_length(std::string_view utf8);

class NpzWriter {
  public:
    // `file` must be empty and outlive the writer.
    explicit NpzWriter(AppendFile& file) : file_(file) {}

    // Begins the array `name` (without ".npy") with elements of `item_size` bytes. Its elements follow in pieces.
    void begin(std::string_view name, std::string_view descr, int item_size, const Shape& shape);
    void append(std::span<const std::byte> elements);
    // The same for `count` texts of at most `width` code points ("<U7").
    void begin_texts(std::string_view name, std::size_t width, std::int64_t count);
    void append_text(std::string_view utf8);

    void end();  // ends the array; throws InternalError if the elements do not fill the shape

    void finish();  // writes the zip directory

  private:
    struct Member {
        std::string name;
        std::uint64_t offset = 0;
        std::uint64_t size = 0;
        std::uint32_t crc = 0;
    };

    AppendFile& file_;
    std::vector<Member> members_;
    std::uint64_t written_ = 0;  // of the current member
    std::size_t width_ = 0;      // of a text, in code points
    std::vector<std::uint32_t> text_;
};

}  // namespace stoker
