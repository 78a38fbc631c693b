// A table of images: labels.csv with a row for each image, next to a folder of images. Columns are the image's path,
// its class, and further fields by their names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/sample_files.h"
#include "stoker/formats/table/image_stems.h"
#include "stoker/formats/table/table_column.h"

namespace stoker {

// True for a folder with labels.csv, and for a file x.csv.
bool is_table_path(const std::string& path);

// A table that is not a file.
struct TableText {
    std::string folder;  // of the images
    std::string csv;
};

class TableDataset final : public Dataset {
  public:
    // Reads the table: a header, then a row for each sample. Files are opened when they are read. `fields.image` names
    // the column of paths, relative to the table's folder or absolute and in it (default: path, file, image, filename,
    // file_name, else the first column), `fields.label` that of classes (default: label, class, target;
    // table_column.h), whose indices class_names.h names. A field of `fields.more` is the column of its name. Its
    // `from` may list several, as in "x,y". Kinds:
    //   value        float32; a column gives a scalar, K columns give (K); the default
    //   label        int64; one column also of class names
    //   boxes        float32 (1, 4) of four columns
    //   image, mask  a column of paths
    // Throws DataError with the line for cells that are not values, rows of another length and paths that leave the
    // folder, and if the header names an image of the folder; Unsupported for other kinds.
    explicit TableDataset(const std::string& path, const FieldNames& fields = {});
    explicit TableDataset(const TableText& table, const FieldNames& fields = {});

    std::int64_t size() const override { return files_->size(); }
    // An empty cell of the class means that the label is missing, -1. Throws DataError, with the line, for an empty
    // cell of a field and a missing file.
    void read(std::int64_t index, Sample& sample) const override;
    std::span<const Field> fields() const override { return fields_; }
    // The columns but those of paths and classes. The first row says which are numbers, classes and paths of images.
    std::vector<Field> stored_fields() const override { return stored_; }
    std::string advice() const override;  // names a column of text where no column has labels and none was asked for
    // The path from the table's folder. Rows of the same image have the same key, so a share of the data has all of
    // them.
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override { files_->prefetch(indices); }
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override;
    std::string_view format() const override { return "table"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return files_->bytes(); }

  private:
    // The source of a field's values: `values`, or, for images and masks, column `file` of files_.
    struct Source {
        std::vector<std::size_t> cells;  // positions in a row
        std::unique_ptr<TableColumn> values = nullptr;
        std::size_t file = 0;
    };

    void parse(std::string_view csv, const FieldNames& fields);
    void choose_columns(const std::vector<std::string>& header, const FieldNames& names);
    void add_field(const std::vector<std::string>& header, const FieldRequest& request);
    void guess_fields(const std::vector<std::string>& header, std::span<const std::string_view> cells);
    // `part` is what the row gives a value to: for messages.
    void add_row(std::span<const std::string_view> cells, std::string_view& part);
    void add_file(std::size_t column, std::string_view name);
    std::string_view within_folder(std::string_view name);
    std::string_view with_ending(std::string_view name);
    std::string hint_for(const std::string& file, std::string_view part) const;

    std::string path_;                     // the table's file, or the folder of a table in memory
    std::string folder_;                   // of the images, "" for the current one
    std::vector<std::string> roots_ = {};  // the folder from "/" with a slash at the end: as given, without links
    std::optional<ImageStems> stems_;      // made for the first path without an ending
    std::size_t image_ = 0;                // position of the path in a row
    std::string image_column_ = {};
    std::unique_ptr<SampleFiles> files_;
    std::size_t file_columns_ = 1;      // of files_: the first has the images
    std::vector<std::int64_t> lines_;   // of each row
    std::optional<std::size_t> label_;  // position of the class in a row
    bool unlabelled_ = false;           // no class was wanted
    ClassColumn labels_;
    std::vector<Field> fields_;
    std::vector<Source> sources_;  // of fields_
    std::vector<Field> stored_;
    std::vector<std::string_view> chosen_;  // scratch of add_row
};

}  // namespace stoker
