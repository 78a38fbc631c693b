// What the records of one writer have in common. Pickles of arrays of one shape are the same bytes but for the pixels
// and the label, so that after one has been read opcode by opcode, the next ones are compared with it instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/formats/array.h"
#include "stoker/formats/dataset.h"

namespace stoker {

class RecordPattern {
  public:
    // Of a value, of the sample that it is, and of the label's bytes in it, if they are known. Empty where the pixels
    // do not lie in the value as they are, or may turn out to be something else in another record.
    static std::optional<RecordPattern> of(std::span<const std::byte> value, const Sample& sample,
                                           const std::optional<ArrayView>& label);

    // Sets `sample` from a value that differs from the first one in pixels and label alone; false for any other.
    bool read(std::span<const std::byte> value, Sample& sample) const;

    // A value of this pattern with every bit of pixels and label turned: what has to be read as the pattern says.
    std::span<const std::byte> opposite(std::span<const std::byte> value, Buffer& storage) const;

  private:
    struct Part {
        std::size_t begin = 0;
        std::size_t size = 0;
    };
    std::span<const std::byte> part(std::span<const std::byte> value, Part of) const {
        return value.subspan(of.begin, of.size);
    }

    bool same(std::span<const std::byte> value, std::size_t begin, std::size_t end) const;

    std::size_t size_ = 0;
    std::vector<std::byte> others_;  // all but the pixels
    Part pixels_;
    Part label_;
    ArrayType label_type_;
    std::int64_t fixed_label_ = -1;  // where it has no place of its own: the same bytes mean the same label
    int height_ = 0;
    int width_ = 0;
    int channels_ = 0;
};

}  // namespace stoker
