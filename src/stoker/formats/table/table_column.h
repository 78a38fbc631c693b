// The columns of a table that become labels or fields: numbers, and classes by number or by name. A sample with an
// empty cell is bad, or has no label.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

class TableColumn {
  public:
    virtual ~TableColumn() = default;

    // The cells of the next row. Throws DataError for text that is not a value.
    virtual void add(std::span<const std::string_view> cells) = 0;

    // Called behind the last row. Throws DataError for values that do not fit together.
    virtual void finish() {}

    // Throws DataError if the row has an empty cell.
    virtual void read(std::int64_t row, FieldValue& value) const = 0;

    virtual DType dtype() const = 0;
};

// True for text that a column of numbers may have, and for an empty cell.
bool is_table_number(std::string_view cell);

// The numbers of one or more columns, as float32 or int64. "true" and "false" are 1 and 0.
std::unique_ptr<TableColumn> make_number_column(bool integers);

// Classes. If all cells are integers (also as "3.0", which pandas writes if other cells are empty), they are the
// indices. Otherwise each text is a class, and its index is its place among all, sorted bytewise, as in image folders.
class ClassColumn final : public TableColumn {
  public:
    void add(std::span<const std::string_view> cells) override;
    // Throws DataError for numbers with fractions, and for indices below -1, which means "no label".
    void finish() override;
    void read(std::int64_t row, FieldValue& value) const override;
    DType dtype() const override { return DType::int64; }

    // Empty for an empty cell, which `read` refuses.
    std::optional<std::int64_t> at(std::int64_t row) const;
    // The names, or the numbers from 0 on; empty if there would be too many.
    const std::vector<std::string>& classes() const { return classes_; }
    bool numbered() const { return numbered_; }  // the cells are indices
    // Names for indices.
    void set_names(std::vector<std::string> names) { classes_ = std::move(names); }

  private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    static constexpr std::int64_t kEmpty = std::numeric_limits<std::int64_t>::min();

    std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> codes_;  // of each text, until finish()
    std::vector<std::int64_t> labels_;                                            // until finish(): codes
    std::vector<std::string> classes_;
    bool numbered_ = false;
};

}  // namespace stoker
