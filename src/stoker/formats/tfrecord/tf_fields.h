// Further fields of TFRecords: which features hold each, and their values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/tfrecord/tf_example.h"

namespace stoker {

// The source of a field: a feature's name, or for boxes the names of four, separated by commas: x1, y1, x2, y2, or in
// any order if they end with xmin, ymin, xmax and ymax. Those of TensorFlow's object detection (image/object/bbox/xmin,
// ...) are fractions of image/width and image/height.
struct TfFieldSource {
    // `present`: the names of features; a name among them is one name, whatever it contains. Throws Unsupported, with
    // `where`, for several names that are not those of boxes; DataError for one of these fractions that is named twice.
    TfFieldSource(const FieldRequest& request, std::span<const std::string> present, const std::string& where);

    std::vector<std::string> names;
    bool columns = false;    // of boxes
    bool fractions = false;  // the last two names are those of the image's width and height
};

using FoundTfFeatures = std::span<const std::optional<TfFeature>>;

// The field as the features of one sample say, in the order of the source's names. Without a kind in the request: an
// image, or bytes; a value. Throws DataError if one is missing or damaged, Unsupported, with `where`, if it does not
// fit the kind.
Field describe_tf_field(const FieldRequest& request, const TfFieldSource& source, FoundTfFeatures features,
                        const std::string& where);

// A list of one number in all samples that were looked at is a number.
void make_scalar(Field& field, const FieldRequest& request);

// Sets `value`. `stays`: the record is part of the data set; otherwise `value` gets copies, because the sample's image
// may replace the record's memory. Throws DataError.
void read_tf_field(const Field& field, const TfFieldSource& source, FoundTfFeatures features, bool stays,
                   FieldValue& value);

}  // namespace stoker
