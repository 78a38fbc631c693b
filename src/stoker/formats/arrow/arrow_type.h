// The type of an Arrow column, read from the C data interface.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/array.h"
#include "stoker/formats/arrow/arrow_c_data.h"

namespace stoker {

enum class ArrowKind : std::uint8_t {
    boolean,
    number,       // also dates, times and durations, as the integers that are stored
    decimal,      // read as float64
    bytes,        // text, binary
    byte_view,    // the same, stored in pieces
    fixed_bytes,  // `count` bytes
    list,         // of any length
    fixed_list,   // `count` values
    structure,
    dictionary,  // indices of children[0]'s values
    other,       // maps, unions and so on, which are not read
};

struct ArrowType {
    std::string name;
    std::string format;  // for messages: "+l"
    ArrowKind kind = ArrowKind::other;
    ArrayType element = {};  // of a number; of a dictionary's indices; of a decimal its bytes
    bool text = false;       // bytes are UTF-8
    bool wide = false;       // offsets have 8 bytes instead of 4
    std::int64_t count = 0;  // of fixed_bytes and fixed_list
    int scale = 0;           // of a decimal: digits after the point
    std::vector<ArrowType> children = {};
    std::string extension = {};           // the name of an extension type, such as "arrow.fixed_shape_tensor"
    Shape tensor = {};                    // of that one: its sides as stored
    std::vector<std::size_t> order = {};  // and the stored side that each of its sides is; empty: the same

    bool is_bytes() const {
        return kind == ArrowKind::bytes || kind == ArrowKind::byte_view || kind == ArrowKind::fixed_bytes;
    }
    bool is_list() const { return kind == ArrowKind::list || kind == ArrowKind::fixed_list; }
    // Bytes, or a dictionary of bytes.
    bool has_bytes() const { return is_bytes() || (kind == ArrowKind::dictionary && children.front().is_bytes()); }
    // Null for a name that it lacks.
    const ArrowType* child(std::string_view wanted) const;
};

// Throws DataError for a schema that is not valid, and for types nested deeper than 16.
ArrowType read_arrow_type(const ArrowSchema& schema);

// True if names and types are equal, and those of nested columns.
bool same_columns(const ArrowType& a, const ArrowType& b);

// The value of a key in a schema's metadata; empty if it has none.
std::string arrow_metadata(const ArrowSchema& schema, std::string_view key);

// "list of float32", "struct(bytes, path)": for messages.
std::string arrow_type_name(const ArrowType& type);

}  // namespace stoker
