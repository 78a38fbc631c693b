// What one value of an LMDB database means: an encoded image, a pickle, or Caffe's Datum. Told by the first bytes,
// which no two of these share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/lmdb/record_pattern.h"
#include "stoker/formats/pickle/pickle.h"

namespace stoker {

class LmdbRecord {
  public:
    explicit LmdbRecord(FieldNames wanted = {}, Split split = Split::train)
        : wanted_(std::move(wanted)), split_(split) {}

    // Fills the sample from a value: a function of the value alone; what is kept is memory. A pickle holds a dict whose
    // fields go by fields.h, a tuple (image, label), or just the image: a uint8 array, an encoded image as bytes or as
    // an array of its bytes. Integers are labels; a label of any other type is none. `bytes` of the sample points into
    // `value` or into its storage; `value` may lie in that storage.
    // Throws DataError for damaged bytes and for values that are none of these, Unsupported for unsafe pickles.
    void read(std::span<const std::byte> value, Sample& sample);

    // The text under a name in a pickled dict. Throws DataError where there is none.
    std::string text(std::span<const std::byte> value, std::string_view name);

    // Values that were not read opcode by opcode, but compared with an earlier one: record_pattern.h.
    std::int64_t compared() const { return compared_; }

  private:
    // What a pattern is made of.
    struct Parsed {
        std::optional<ArrayView> label;
        bool apart = true;  // no name of a field lies in the pixels or in the label
    };
    struct Known {
        RecordPattern pattern;
        bool met = false;  // a second time
    };

    void read_pickle(std::span<const std::byte> value, Sample& sample);
    Parsed read_opcodes(std::span<const std::byte> value, Sample& sample);
    Parsed read_dict(const PickleValue& dict, Sample& sample);
    void learn(std::span<const std::byte> value, const Sample& sample, const std::optional<ArrayView>& label);

    FieldNames wanted_;
    Split split_;
    Pickle pickle_;
    // The fields of the dict before, and which of them were chosen: nearly always the next one has the same.
    std::vector<std::string> fields_;
    std::optional<FoundFields> found_;
    static constexpr std::size_t kMostKnown = 8;
    static constexpr int kMostLearned = 64;  // records of many kinds are not learned for ever
    std::vector<Known> known_;
    int learned_ = 0;
    std::int64_t compared_ = 0;
};

// The number that a text of decimal digits, with a sign or without, stands for; empty for any other text.
std::optional<std::int64_t> decimal(std::string_view text);

}  // namespace stoker
