// The exports of libstoker_arrow-RELEASE.so: plain types, since it is opened at run time and built once for each
// release of Apache Arrow, whose C++ interface differs between releases. Its headers are included nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stoker/formats/arrow/arrow_c_data.h"

namespace stoker {

// A file's bytes. They stay valid until the file is closed; `read` may be called by several threads at once.
struct ArrowBytes {
    void* user = nullptr;
    std::uint64_t size = 0;
    const std::uint8_t* map = nullptr;  // all of them, or null
    // False: they cannot be read.
    bool (*read)(void* user, std::uint64_t offset, std::uint8_t* out, std::uint64_t size) = nullptr;
};

struct ArrowText {
    char text[512] = "";
    bool out_of_memory = false;
};

struct ParquetHandle;  // an open file

struct ParquetInfo {
    std::int64_t rows = 0;
    std::int32_t groups = 0;  // of rows
    std::int32_t leaves = 0;  // columns without the structs and lists around them
};

struct ParquetLeaf {
    const char* path = "";  // "image.bytes"
    // Its values are byte arrays, one a row: parquet_values reads them.
    bool is_bytes = false;
};

// The values that a leaf has in a row group.
struct ParquetChunk {
    std::uint64_t begin = 0;  // in the file, with the dictionary's page
    std::uint64_t size = 0;
    std::uint64_t data = 0;         // the first page of values
    std::int64_t decoded_size = 0;  // of its pages, as the file says
    std::int64_t values = 0;        // at least the rows
    bool compressed = false;
    // Pages of values that refer to the dictionary: the first ones. -1: unknown, and any page may.
    std::int32_t dictionary_pages = 0;
};

struct ParquetPage {
    std::uint64_t offset = 0;    // of its header
    std::uint64_t size = 0;      // with its header
    std::int64_t first_row = 0;  // in the row group
};

struct ArrowApi {
    std::uint32_t version = 1;  // of this struct
    // Null, with a reason in `error`, if it is not a Parquet file. `most_memory`: bytes that a call may allocate.
    ParquetHandle* (*open_parquet)(const ArrowBytes* bytes, std::int64_t most_memory, ArrowText* error) = nullptr;
    void (*close_parquet)(ParquetHandle* file) = nullptr;
    // The functions below may be called by several threads at once. False: a reason is in `error`.
    void (*parquet_info)(const ParquetHandle* file, ParquetInfo* info) = nullptr;
    bool (*parquet_schema)(const ParquetHandle* file, ArrowSchema* out, ArrowText* error) = nullptr;
    void (*parquet_leaf)(const ParquetHandle* file, std::int32_t leaf, ParquetLeaf* out) = nullptr;
    std::int64_t (*group_rows)(const ParquetHandle* file, std::int32_t group) = nullptr;
    bool (*parquet_chunk)(const ParquetHandle* file, std::int32_t group, std::int32_t leaf, ParquetChunk* out,
                          ArrowText* error) = nullptr;
    // Calls `take` for each page of values, by their index in the file, else by reading the pages' headers.
    bool (*parquet_pages)(const ParquetHandle* file, std::int32_t group, std::int32_t leaf,
                          void (*take)(void* user, const ParquetPage* page), void* user, ArrowText* error) = nullptr;
    // Calls `take` with the values of `rows` rows in the bytes [offset, offset + size), which are pages of a leaf with
    // is_bytes. A size of -1: null. The values are in the file's map if it has one and they are stored plainly, else
    // they are valid during the call.
    bool (*parquet_values)(const ParquetHandle* file, std::int32_t group, std::int32_t leaf, std::uint64_t offset,
                           std::uint64_t size, std::int64_t rows,
                           void (*take)(void* user, const std::uint8_t* value, std::int64_t size), void* user,
                           ArrowText* error) = nullptr;
    // The leaves of a row group, as a struct of their outermost columns, which have these leaves alone. `array` owns
    // its memory.
    bool (*parquet_columns)(const ParquetHandle* file, std::int32_t group, const std::int32_t* leaves,
                            std::size_t count, ArrowSchema* schema, ArrowArray* array, ArrowText* error) = nullptr;
    // The batches of an Arrow file or stream in mapped memory, which must stay valid until they are released.
    bool (*open_ipc)(const ArrowBytes* bytes, std::int64_t most_memory, ArrowArrayStream* out,
                     ArrowText* error) = nullptr;
};

inline constexpr std::uint32_t kArrowApiVersion = 1;
inline constexpr const char* kArrowApi = "stoker_arrow_api";  // const ArrowApi* stoker_arrow_api()

}  // namespace stoker
