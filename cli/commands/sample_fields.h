// The further fields of a sample, for `stoker show`: values for the table and for JSON, and overlays on the image.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/image_grid.h"
#include "cli/commands/training_data.h"

namespace stoker::cli {

struct SampleFields {
    std::vector<std::string> cells;  // one for each of shown_fields()
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
};

// All fields but further images, which have no value to print.
std::vector<Field> shown_fields(const Dataset& dataset);

// The fields of the sample that `data.pixels` gave last, as the model receives them: masks as the classes in them,
// boxes as numbers in pixels of the image after the ops. Throws DataError for a damaged mask.
SampleFields sample_fields(TrainingData& data);

// Tints the image if masks have a class above 0, and adds the boxes. Throws DataError for a damaged mask.
void add_overlays(TrainingData& data, GridImage& to);

}  // namespace stoker::cli
