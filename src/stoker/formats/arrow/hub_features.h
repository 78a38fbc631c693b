// The description of columns that the Hugging Face Hub's libraries write into the metadata of Parquet and Arrow files:
// which are images, and the names of classes.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

struct HubFeature {
    std::string type;                     // Image, Audio, Video, ClassLabel, Value, Array3D, ...
    std::vector<std::string> names = {};  // of classes

    bool operator==(const HubFeature&) const = default;
    // Bytes of a file that Stoker decodes.
    bool is_media() const { return type == "Image" || type == "Audio" || type == "Video"; }
};

// By the column's dotted name; a list has its values' feature. Empty for an empty text. Throws DataError for text that
// is not such a description.
std::map<std::string, HubFeature> read_hub_features(const std::string& json);

}  // namespace stoker
