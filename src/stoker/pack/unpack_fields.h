// Further fields of unpacked samples: labels.csv, a table with a row for each image, and a folder of files for each
// field of images or masks. `open_dataset` reads the result as a table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

class UnpackFields {
  public:
    // Throws InvalidArgument for fields that a table does not hold: bytes, values of any length, of several dimensions
    // or of half precision.
    explicit UnpackFields(const Dataset& dataset);

    bool any() const { return !fields_.empty(); }
    // True for a field whose values are files.
    static bool is_file(const Field& field) { return has_pixels(field.kind); }

    // The image's place in the folder: in `images` if other fields have folders of files.
    std::filesystem::path image_path(const std::filesystem::path& name) const;
    // The place of a field's file: "mask/cat/001.png" for the image "cat/001.jpg"; "mask/cat/001.jpg.png" if the data
    // set also has "cat/001.png".
    std::filesystem::path file_path(const Field& field, const std::filesystem::path& name,
                                    const std::string& extension) const;

    // The cells of a field of numbers, one for each element. Throws DataError for a value of another size, and for
    // numbers that would not be read back: NaN, infinities and others beyond float32, and the least int64.
    static std::vector<std::string> cells(const Field& field, const FieldValue& value);

    // Adds the next sample's row. `cells`: of all fields, in order; a path for a file.
    void add(const std::filesystem::path& image, std::int64_t label, std::vector<std::string> cells);
    // The table of all rows. A class is its name if that gives the same index when it is read, otherwise its number,
    // -1 for none.
    std::string table() const;
    // classes.txt, which names the numbers of the table; empty if it has names or there are none.
    std::string class_names() const;

  private:
    bool names_give_indices() const;

    struct Row {
        std::string image;
        std::int64_t label = -1;
        std::vector<std::string> cells;
    };

    std::vector<Field> fields_;
    std::vector<std::string> classes_;
    std::vector<std::string> columns_;
    bool files_ = false;
    bool twins_ = false;  // some keys differ in their extension only
    std::vector<Row> rows_;
};

}  // namespace stoker
