// Chooses the image field and the label field among a data set's named fields.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stoker/formats/dataset.h"

namespace stoker {

// The usual names, in order of preference: images, image, img, x, data, image/encoded, 0; labels, label, y, targets,
// image/class/label, 1 (numbers are positions in a tuple). Names with the split come first: train_images, x_train,
// train/images, ... ("test" or "val" for the test split).
struct FoundFields {
    std::string image;
    std::optional<std::string> label;  // empty if no field has one of the usual names
};

// The names without a split.
std::span<const std::string_view> usual_image_names();
std::span<const std::string_view> usual_label_names();

// Chooses among `present`. Names in `wanted` must be present. Without one of the usual image names, a single field that
// is not the label is the image. A name in `wanted.more` is not taken for the label; with `wanted.unlabelled` there is
// none, and its field is not taken for the image. Throws DataError, which lists the fields, if no image is found.
FoundFields find_fields(std::span<const std::string> present, const FieldNames& wanted, Split split,
                        const std::string& path);

// The one of `present` with a usual name of labels; `image` is not taken for it.
std::optional<std::string> find_label(std::span<const std::string> present, Split split, std::string_view image);

// The name that the field has among `present`: its source, or its own name if `present` lacks the source. Packed data
// have fields under their own names, and a recipe that was written for the source reads them as well.
const std::string& present_name(const FieldRequest& request, std::span<const std::string> present);

// The field that an array of `shape` a sample gives, `any`-length first side: -1. Its kind is the request's, or value.
// Throws Unsupported, with `where`, for elements or a shape that the kind cannot have: images and masks are uint8 (H,
// W) or with channels, boxes float32 (K, 4), labels and tokens integers, bytes uint8 (K).
Field array_field(const FieldRequest& request, DType dtype, const Shape& shape, const std::string& where);

// Throws DataError, with `where`, if two of the names are equal.
void check_unique(std::span<const std::string> names, const std::string& where);

// True if `present` holds usual names of image fields of both splits.
bool fields_have_splits(std::span<const std::string> present);

}  // namespace stoker
