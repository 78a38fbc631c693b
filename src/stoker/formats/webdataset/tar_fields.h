// Further fields of WebDataset samples: the member that holds each, and its bytes as a value. The bytes say what they
// are: an encoded image, a .npy array, or text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

// The source of a field: FieldRequest::source() is an extension ("seg.png"), one without its last part ("seg"), or an
// extension and a key of the JSON object in it ("json:score").
struct TarFieldSource {
    explicit TarFieldSource(const FieldRequest& request);

    // 0 for the member that the source names, 1 for one with a further part, such as "seg.png" for "seg"; empty for
    // other members. `member`: an extension in lower case.
    std::optional<std::size_t> rank(std::string_view member) const;

    // True for a member of it that is not an image, so that it is not taken for the sample's: by the kind that was
    // asked for, and without one for arrays (.npy).
    bool is_other_than_image(std::string_view member) const;

    std::string extension;  // lower case
    std::string key;        // of a JSON object; empty: the member is the value
    std::optional<FieldKind> kind;
};

// The field that has `bytes` as its value in one sample. `ragged`: the members of other samples have other sizes.
// Without a kind in the request it is an image, a value (arrays, keys of JSON), a label (cls) or bytes. Throws
// DataError, and Unsupported with `where`.
Field describe_tar_field(const FieldRequest& request, const TarFieldSource& source, std::span<const std::byte> bytes,
                         bool ragged, const std::string& where);

// Sets `value`, whose storage may hold `bytes`. Throws DataError.
void read_tar_field(const Field& field, const TarFieldSource& source, std::span<const std::byte> bytes,
                    FieldValue& value);

// The keys of a JSON object whose values are numbers or lists of numbers; empty for other bytes.
std::vector<std::string> json_number_keys(std::span<const std::byte> bytes);

}  // namespace stoker
