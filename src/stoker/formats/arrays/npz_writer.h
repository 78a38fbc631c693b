// NumPy's files of several arrays: a zip archive of .npy members, stored as they are. Written front to back; only
// a member's checksum is put in afterwards. Always zip64, so that one form serves every size.
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

// The magic number and header of a .npy file in C order; `descr` is NumPy's name of the element type: "|u1", "<i8".
std::string npy_header(std::string_view descr, const Shape& shape);

// Code points of a UTF-8 text.
std::size_t text_length(std::string_view utf8);

class NpzWriter {
  public:
    // `file` is empty and outlives the writer.
    explicit NpzWriter(AppendFile& file) : file_(file) {}

    // An array of the name `name` (without ".npy") and `item_size` bytes an element, then its elements in pieces.
    void begin(std::string_view name, std::string_view descr, int item_size, const Shape& shape);
    void append(std::span<const std::byte> elements);
    // The same for an array of `count` texts of at most `width` code points ("<U7").
    void begin_texts(std::string_view name, std::size_t width, std::int64_t count);
    void append_text(std::string_view utf8);

    void end();  // throws InternalError where the elements were not as many as the shape says

    void finish();

  private:
    struct Member {
        std::string name;
        std::uint64_t offset = 0;
        std::uint64_t size = 0;
        std::uint32_t crc = 0;
    };

    AppendFile& file_;
    std::vector<Member> members_;
    std::uint64_t written_ = 0;  // of the member under way
    std::size_t width_ = 0;      // of a text
    std::vector<std::uint32_t> text_;
};

}  // namespace stoker
