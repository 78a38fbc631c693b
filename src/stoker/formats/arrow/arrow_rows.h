// Rows of columns: those of Parquet files (parquet_rows.h), or of Arrow's batches in memory or in mapped files
// (arrow_batches.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/formats/arrow/arrow_type.h"
#include "stoker/formats/arrow/arrow_values.h"

namespace stoker {

// The names from the outermost column to a nested one: {"image", "bytes"}.
using ArrowPath = std::vector<std::string>;

// A value, and what holds its memory. A path may end within a list of structs: `inside` are its last names.
struct ArrowHeld {
    ArrowCell cell;
    std::span<const std::string> inside = {};
    std::shared_ptr<const void> holder = nullptr;
};

// A column that is read.
struct ArrowSource {
    virtual ~ArrowSource() = default;
    ArrowPath path;
};

class ArrowRows {
  public:
    virtual ~ArrowRows() = default;

    virtual std::int64_t size() const = 0;
    // A struct of all columns.
    virtual const ArrowType& type() const = 0;
    // The description that the Hugging Face Hub's libraries add to the schema: JSON, or empty.
    virtual const std::string& features() const = 0;

    // Announces a column that is read. The result is valid as long as this object. Throws DataError if there is none.
    // This function and the two below are thread-safe; these throw DataError for damage.
    virtual const ArrowSource* add(const ArrowPath& path) = 0;

    // Text or binary outside of lists; empty if it is null. In a map, or in `storage`.
    virtual std::optional<std::span<const std::byte>> bytes(const ArrowSource* source, std::int64_t row,
                                                            Buffer& storage) const = 0;
    // The value; a null one if a struct around it is null.
    virtual ArrowHeld value(const ArrowSource* source, std::int64_t row) const = 0;

    // "train-00000-of-00005/17": unique, without the folder.
    virtual std::string key(std::int64_t row) const = 0;
    // The rows of parts that are best read together, for readers of these columns; empty if every order is equally
    // good.
    virtual std::vector<std::int64_t> parts(std::span<const ArrowSource* const> sources) const = 0;
    virtual void prefetch(std::span<const ArrowSource* const> sources, std::span<const std::int64_t> rows) const = 0;
    virtual std::int64_t file_bytes() const = 0;
};

// The value at the end of a path in a struct's row; `inside` gets the names that are left at a list.
ArrowHeld value_at(ArrowCell row, std::span<const std::string> path);

// The type at the end of a path, through lists as well; null if there is none.
const ArrowType* type_at(const ArrowType& root, std::span<const std::string> path);

// "image.bytes".
std::string dotted(std::span<const std::string> path);

}  // namespace stoker
