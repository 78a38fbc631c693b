// Values of further fields (FieldNames::more) as files hold them: arrays of any element type, encoded images, and
// numbers written as text, in JSON or as Python objects. The readers of several formats share it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/array.h"
#include "stoker/formats/dataset.h"

namespace stoker {

// A format that stores each sample separately has no common shape. If the sizes of the stored values do not show
// whether shapes differ, this many samples, spread evenly, are compared.
inline constexpr std::int64_t kProbedSamples = 64;

// The samples to probe among `count`, in order; the first is 0.
std::vector<std::int64_t> probed_samples(std::int64_t count);

// Changes `common` to a shape that both have: a first side that differs becomes -1. Throws Unsupported, with `where`,
// if other sides differ.
void merge_shape(Shape& common, const Shape& other, const std::string& where);

// The field that those of `samples` have which can be read: `describe` throws DataError for the others. The first gives
// the kind; integers and floats together, one a sample, are floats. Throws the first DataError if none can be read, and
// what merge_shape throws, with `where`.
Field common_field(std::span<const std::int64_t> samples, const std::function<Field(std::int64_t sample)>& describe,
                   const std::string& where);

// array_field for elements of any type that DType has (booleans as uint8). Boxes, bytes and tokens of rank 1 may have
// any length in other samples, which the caller says with `ragged`. Throws Unsupported, with `where`.
Field field_of_array(const FieldRequest& request, const ArrayView& array, bool ragged, const std::string& where);

// The value of a field: pixels for images and masks, otherwise the elements. Throws DataError for another type or shape
// than the field's. `array.bytes` may be part of `value.storage`.
void set_array(const Field& field, const ArrayView& array, FieldValue& value);

// A field of encoded images. `request.kind`: image (default), mask or bytes; throws Unsupported, with `where`, for
// others.
Field field_of_encoded(const FieldRequest& request, const std::string& where);

// ---- Numbers that are not stored as an array: one, a list, or a list of lists of one length ----

struct FieldNumbers {
    Shape shape = {};                         // (), (n) or (n, m)
    std::vector<double> reals = {};           // all of them
    std::vector<std::int64_t> integers = {};  // the same, as long as all are integers
    bool whole = true;                        // all are integers

    void add(std::int64_t number);
    void add(double number);
};

// The number that is all of `text` but white space around it. Throws DataError for other text.
FieldNumbers parse_field_number(std::string_view text);

// int64 for labels and tokens, float32 for boxes, otherwise float64. Boxes have any length, as other lists do if
// `ragged` is true. Throws Unsupported, with `where`, if numbers of this shape do not fit the kind.
Field field_of_numbers(const FieldRequest& request, const Shape& shape, bool ragged, const std::string& where);

// Throws DataError for another shape than the field's, and for a fraction in a field of integers.
void set_numbers(const Field& field, const FieldNumbers& numbers, FieldValue& value);

// ---- What a stored field may mean, for `inspect`: a guess from its name and type ----

// An image or a mask ("mask", "seg_left").
FieldKind guessed_image_kind(std::string_view name);
// `shape`: of one sample.
FieldKind guessed_kind(std::string_view name, DType dtype, const Shape& shape);

}  // namespace stoker
