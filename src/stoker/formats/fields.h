// Which of a data set's named fields is the image and which the label.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/formats/dataset.h"

namespace stoker {

// The usual names, in order of preference: images, image, x, data, 0; labels, label, y, targets, 1 (numbers are places
// in a tuple). In a data set with splits the split's own come first: train_images, x_train, train/images, ... (test or
// val for the other).
struct FoundFields {
    std::string image;
    std::optional<std::string> label;  // empty where no field has one of the usual names
};

// Chooses among `present`. Names in `wanted` must be present. A single field that is left over is the image, whatever
// its name. Throws DataError, listing what is present, where there is no image.
FoundFields find_fields(std::span<const std::string> present, const FieldNames& wanted, Split split,
                        const std::string& path);

// Where `present` holds fields of the training and of the test split, by the usual names.
bool fields_have_splits(std::span<const std::string> present);

}  // namespace stoker
