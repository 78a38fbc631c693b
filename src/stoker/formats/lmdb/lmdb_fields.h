// Further fields of pickled records: entries of a dict, or of a tuple by their position.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/pickle/pickle.h"

namespace stoker {

// The entry that the request names. Throws DataError if there is none.
PickleValue find_entry(const PickleValue& record, const std::string& name);

// The field that has this entry as its value in one record. Without a kind in the request: an image for the bytes of
// one, bytes for others and for text, an int64 or float64 for a number, a value for arrays and lists of numbers. Throws
// DataError, and Unsupported with `where` for an entry that does not fit the kind.
Field describe_entry(const FieldRequest& request, const PickleValue& entry, const std::string& where);

// Sets `value` to a copy. Throws DataError.
void read_entry(const Field& field, const PickleValue& entry, FieldValue& value);

// The field that a writer described under "__fields__", {name: [kind, type, side, ...]}, as far as it fits the request;
// otherwise empty. Throws DataError for damaged bytes.
std::optional<Field> find_described_field(std::span<const std::byte> pickled, const FieldRequest& request,
                                          const std::string& where);

// True for a uint8 array of one row or column that holds an encoded image, as cv2.imencode returns one.
bool is_encoded_array(const ArrayView& array);

}  // namespace stoker
