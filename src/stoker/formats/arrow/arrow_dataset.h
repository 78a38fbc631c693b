// Samples from the columns of Parquet files, Arrow files and tables in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/arrow/arrow_columns.h"
#include "stoker/formats/arrow/arrow_rows.h"
#include "stoker/formats/dataset.h"

namespace stoker {

class ArrowDataset final : public Dataset {
  public:
    // `path`: for messages. `folder`: of files that columns name instead of holding them; empty: none are read.
    // arrow_columns.h chooses image and label. Fields of `names.more` are columns by their names with dots:
    //   image, mask  files (the Hub's Image), binary, or lists of lists of numbers
    //   bytes        text, binary
    //   value, label, tokens, boxes   numbers, and lists of them with one length at each depth
    // Labels are read here: integers, or text, whose sorted distinct values are the classes. Throws DataError and
    // Unsupported for columns that do not fit.
    ArrowDataset(std::unique_ptr<ArrowRows> rows, std::string path, std::string folder, const FieldNames& names,
                 std::string_view format);

    std::int64_t size() const override { return rows_->size(); }
    void read(std::int64_t index, Sample& sample) const override;
    bool has_image() const override { return image_.has_value(); }
    std::span<const Field> fields() const override { return fields_; }
    std::vector<Field> stored_fields() const override;
    std::string key(std::int64_t index) const override { return rows_->key(index); }
    void prefetch(std::span<const std::int64_t> indices) const override { rows_->prefetch(used_, indices); }
    // Empty for a bad label, for which read() throws.
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::vector<std::int64_t> shard_sizes() const override { return parts_; }
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return format_; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return rows_->file_bytes(); }

  private:
    // A column to read. Files have one of their bytes, one of their names, or both.
    struct Source {
        ArrowColumn column;
        const ArrowSource* values = nullptr;
        const ArrowSource* file = nullptr;
    };

    Source add_source(const ArrowColumn& column) const;
    void read_source(const Source& source, std::int64_t index, const Field& field, FieldValue& value) const;
    void read_file(const Source& source, std::int64_t index, FieldValue& value) const;
    void set_frames(const ArrowHeld& list, FieldValue& value) const;
    void set_file(std::optional<std::span<const std::byte>> bytes, std::optional<std::string_view> name,
                  FieldValue& value) const;
    Field describe(const FieldRequest& request, const Source& source) const;
    Field describe_at(const FieldRequest& request, const Source& source, std::int64_t index) const;
    bool holds_images(const ArrowColumn& column) const;
    bool holds_labels(const ArrowColumn& column) const;
    template <typename Look>
    void probe(const ArrowColumn& column, Look look) const;
    void check_image(const ArrowColumn& column) const;
    void read_labels(const ArrowColumn& column);
    void read_text_labels();
    std::int64_t read_number(std::int64_t index) const;

    std::unique_ptr<ArrowRows> rows_;
    std::string path_;
    std::optional<Folder> folder_;
    std::string_view format_;
    bool clips_ = false;
    std::vector<ArrowColumn> columns_;
    std::optional<Source> image_;
    const ArrowSource* label_ = nullptr;
    std::string label_name_;
    std::string image_name_;
    bool text_labels_ = false;
    std::vector<std::int32_t> labels_;
    std::vector<std::string> classes_;
    std::vector<Field> fields_;
    std::vector<Source> sources_;  // of fields_
    std::vector<const ArrowSource*> used_;
    std::vector<std::int64_t> parts_;
};

}  // namespace stoker
