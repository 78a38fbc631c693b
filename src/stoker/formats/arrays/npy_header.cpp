// The header is a Python dict as text. This parser accepts only a dict of the three keys, in any order, which is all
// that NumPy writes. Nothing is evaluated.
#include "stoker/formats/arrays/npy.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxDimensions = 64;  // NumPy's own limit

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class DictReader {
  public:
    DictReader(std::string_view text, std::size_t offset) : text_(text), offset_(offset) {}

    NpyHeader read() {
        std::optional<std::string_view> descr;
        std::optional<bool> fortran;
        std::optional<Shape> shape;
        need('{');
        while (!take('}')) {
            const std::size_t at = at_;
            const std::string_view key = string();
            need(':');
            if (key == "descr" && !descr) {
                descr = type();
            } else if (key == "fortran_order" && !fortran) {
                fortran = boolean();
            } else if (key == "shape" && !shape) {
                shape = tuple();
            } else {
                refuse_npy(offset_ + at, "the keys descr, fortran_order and shape, once each", shown_npy(key));
            }
            if (!take(',')) {
                need('}');
                break;
            }
        }
        skip_spaces();
        if (at_ != text_.size()) {
            refuse("nothing after the header's dict");
        }
        if (!descr || !fortran || !shape) {
            refuse_npy(offset_, "the keys descr, fortran_order and shape", shown_npy(text_));
        }
        return {.descr = *descr, .fortran = *fortran, .shape = std::move(*shape)};
    }

  private:
    [[noreturn]] void refuse(std::string expected) const {
        refuse_npy(offset_ + at_, std::move(expected),
                   at_ == text_.size() ? "the header's end" : shown_npy(text_.substr(at_)));
    }

    void skip_spaces() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
            ++at_;
        }
    }

    // A single character is compared directly, which is several times as fast as a call of memcmp.
    bool take(char letter) {
        skip_spaces();
        const bool found = at_ < text_.size() && text_[at_] == letter;
        at_ += found ? 1 : 0;
        return found;
    }

    bool take(std::string_view word) {
        skip_spaces();
        const bool found = text_.substr(at_).starts_with(word);
        at_ += found ? word.size() : 0;
        return found;
    }

    void need(char letter) {
        if (!take(letter)) {
            refuse(fmt::format("'{}'", letter));
        }
    }

    std::string_view string() {
        const char quote = take('"') ? '"' : '\'';
        if (quote == '\'') {
            need(quote);
        }
        const std::size_t end = text_.find(quote, at_);
        if (end == std::string_view::npos) {
            refuse("the end of a string");
        }
        const std::string_view found = text_.substr(at_, end - at_);
        at_ = end + 1;
        return found;
    }

    std::string_view type() {
        skip_spaces();
        if (at_ < text_.size() && text_[at_] == '[') {
            throw Unsupported({.where = "npy",
                               .expected = "elements that are numbers",
                               .got = fmt::format("records of several fields, {}", shown_npy(text_.substr(at_))),
                               .hint = "save each field as a separate array"});
        }
        return string();
    }

    bool boolean() {
        const bool yes = take("True");
        if (!yes && !take("False")) {
            refuse("True or False");
        }
        return yes;
    }

    Shape tuple() {
        Shape shape;
        need('(');
        bool closed = take(')');
        while (!closed) {
            shape.push_back(natural());
            if (shape.size() > kMaxDimensions) {
                refuse(fmt::format("at most {} dimensions", kMaxDimensions));
            }
            const bool comma = take(',');
            closed = take(')');
            if (!comma && (!closed || shape.size() == 1)) {  // (3) is a number, not a tuple
                refuse("',' after a side of the shape");
            }
        }
        return shape;
    }

    std::int64_t natural() {
        skip_spaces();
        std::int64_t value = 0;
        const char* end = text_.data() + text_.size();
        const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
        if (error != std::errc{} || value < 0) {
            refuse("a side of the shape, 0 to 2^63 - 1");
        }
        at_ = static_cast<std::size_t>(stop - text_.data());
        take('L');  // as Python 2 wrote long integers
        return value;
    }

    std::string_view text_;
    std::size_t offset_;
    std::size_t at_ = 0;
};

}  // namespace

void refuse_npy(std::size_t offset, std::string expected, std::string got) {
    throw DataError({.path = "", .offset = static_cast<std::int64_t>(offset)},
                    {.where = "npy", .expected = std::move(expected), .got = std::move(got)});
}

std::string shown_npy(std::string_view text) {
    constexpr std::size_t kMost = 40;
    std::string out(text.substr(0, kMost));
    std::ranges::replace_if(
        out, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
    return fmt::format("\"{}\"{}", out, text.size() > kMost ? "..." : "");
}

NpyHeader read_npy_header(std::span<const std::byte> bytes) {
    constexpr std::size_t kVersion = kMagic.size();
    constexpr std::size_t kLength = kVersion + 2;
    if (bytes.size() < kLength || !as_text(bytes).starts_with(kMagic)) {
        refuse_npy(0, "the magic number of a .npy file", shown_npy(as_text(bytes).substr(0, kLength)));
    }
    const auto major = std::to_integer<int>(bytes[kVersion]);
    const auto minor = std::to_integer<int>(bytes[kVersion + 1]);
    if (major < 1 || major > 3 || minor != 0) {
        throw Unsupported({.where = "npy",
                           .expected = "version 1.0, 2.0 or 3.0 of the format",
                           .got = fmt::format("{}.{}", major, minor)});
    }
    const std::size_t width = major == 1 ? 2 : 4;
    if (bytes.size() < kLength + width) {
        refuse_npy(bytes.size(), fmt::format("{} bytes of header length", width), "the end of the file");
    }
    std::size_t length = 0;
    for (std::size_t i = width; i-- > 0;) {
        length = length << 8 | std::to_integer<std::size_t>(bytes[kLength + i]);
    }
    const std::size_t begin = kLength + width;
    if (length > bytes.size() - begin) {
        refuse_npy(kLength, "a header within the file",
                   fmt::format("a header of {} bytes in a file of {}", length, bytes.size()));
    }
    NpyHeader header = DictReader(as_text(bytes.subspan(begin, length)), begin).read();
    header.data = begin + length;
    return header;
}

}  // namespace stoker
