// Reads one value of an LMDB database: an encoded image, a pickle, or Caffe's Datum. The first bytes tell which.
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

    // Fills the sample from a value. The result depends on the value alone, not on earlier ones. A pickle holds a dict
    // (its fields are found as fields.h says), a tuple or list (image, label), or the image: a uint8 array, or an
    // encoded image as bytes or as an array of them. A label that is not an integer counts as none. `sample.bytes`
    // points into `value` or into the sample's storage; `value` may be in that storage. Throws DataError for damaged
    // bytes and for other values, Unsupported for unsafe pickles.
    void read(std::span<const std::byte> value, Sample& sample);

    // The fields that `read` also fills, each from the entry that the request at its place in FieldNames::more names.
    void set_fields(std::vector<Field> fields) { more_ = std::move(fields); }

    // The field of one entry as this value has it (lmdb_fields.h). Throws as describe_entry does, and DataError for a
    // value that is not a pickle.
    Field describe(std::span<const std::byte> value, const FieldRequest& request, const std::string& where);
    // The names of a dict's entries that are neither image nor label; empty for other values.
    std::vector<std::string> further_names(std::span<const std::byte> value);

    // The text in the field `name` of a pickled dict. Throws DataError if there is none.
    std::string text(std::span<const std::byte> value, std::string_view name);

    // The number of pickles that were read by a RecordPattern, without their opcodes.
    std::int64_t compared() const { return compared_; }

  private:
    struct Parsed {
        std::optional<ArrayView> label;  // its bytes in the value
        std::string_view text;           // of a field that is neither image nor label; in the value
        bool apart = true;               // no field's name shares bytes with the pixels, the label or the text
    };
    struct Known {
        RecordPattern pattern;
        bool matched = false;  // by a later value
    };

    void read_pickle(std::span<const std::byte> value, Sample& sample);
    Parsed read_opcodes(std::span<const std::byte> value, Sample& sample);
    Parsed read_dict(const PickleValue& dict, Sample& sample);
    void find_names(const PickleValue& dict);
    void read_fields(const PickleValue& whole, Sample& sample) const;
    void learn(std::span<const std::byte> value, const Sample& sample, const Parsed& parsed);

    FieldNames wanted_;
    Split split_;
    std::vector<Field> more_;  // of wanted_.more, in that order
    Pickle pickle_;
    // The entries' names of the last dict and the fields found among them: most dicts have the same names.
    std::vector<std::string> fields_;
    std::optional<FoundFields> found_;
    static constexpr std::size_t kMaxKnown = 8;
    static constexpr int kMaxLearned = 64;  // attempts to make a pattern
    std::vector<Known> known_;
    int learned_ = 0;
    std::int64_t compared_ = 0;
};

// ---- Datum, Caffe's record of one image (datum.cpp): a protobuf message of sides, label, and raw planes or an encoded
// image ----

// True if the first byte is the tag of a field with which a Datum may begin.
bool may_be_datum(std::span<const std::byte> bytes);

// Reads a Datum into the sample. Raw pixels (C, H, W) become (H, W, C). The message does not say the order of the
// channels, which stays as stored: blue, green, red in files of Caffe's convert_imageset. Throws DataError with the
// offset for damaged bytes, Unsupported for pixels that are floats.
void read_datum(std::span<const std::byte> bytes, Sample& sample);

}  // namespace stoker
