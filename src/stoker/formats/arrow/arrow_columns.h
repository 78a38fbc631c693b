// The columns of Parquet and Arrow files, and the choice of image and label among them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/arrow/arrow_rows.h"
#include "stoker/formats/arrow/hub_features.h"
#include "stoker/formats/dataset.h"

namespace stoker {

struct ArrowColumn {
    ArrowPath path;
    std::string name;  // the path with dots
    ArrowType type;    // of the value at the end of the path
    HubFeature feature = {};
    // The struct of bytes and path that the Hub's libraries store a file in: an image, a sound, a video.
    bool media = false;
    bool in_list = false;  // a list that is not the path's end is on the way

    // Images as arrays of numbers: lists of lists, tensors.
    bool has_pixels() const;
    // A class for each row: integers, booleans, text, and whole floats, as pandas makes of integers and nulls.
    bool may_be_label() const;
    // Text, with a usual name of files ("path", "file_name", ...).
    bool may_be_path() const;
};

// In the order of the schema; structs are their fields, unless they are `media`.
std::vector<ArrowColumn> arrow_columns(const ArrowType& root, const std::map<std::string, HubFeature>& features);

struct ArrowRoles {
    const ArrowColumn* image = nullptr;  // null: the samples have no image
    const ArrowColumn* label = nullptr;
};

// The image: the column that `wanted` names, else a usual name (fields.h), else the first that is a file or, as
// `holds_images` says by its values, holds images or their names. The label: the named one, a usual name, or the first
// ClassLabel; of floats only if `holds_labels` says so.
// Throws DataError, which lists the columns, if a named one is missing, or if neither an image is found nor a field
// wanted.
ArrowRoles choose_roles(const std::vector<ArrowColumn>& columns, const FieldNames& wanted,
                        const std::function<bool(const ArrowColumn&)>& holds_images,
                        const std::function<bool(const ArrowColumn&)>& holds_labels, const std::string& path);

// Null if there is none.
const ArrowColumn* find_column(const std::vector<ArrowColumn>& columns, std::string_view name);

// "image struct(bytes, path), label int64", shortened: for messages.
std::string describe_columns(const std::vector<ArrowColumn>& columns);

}  // namespace stoker
