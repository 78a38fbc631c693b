// Shards and indices of MDS and LitData, written field by field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/arrays/npy_support.h"

namespace stoker::testing {

// A count, the offsets, `head`, and the samples.
inline std::string shard_of(const std::vector<std::string>& samples, const std::string& head = "") {
    std::uint64_t offset = 4 * (samples.size() + 2) + head.size();
    std::string table = little_endian(samples.size(), 4) + little_endian(offset, 4);
    std::string bytes;
    for (const std::string& sample : samples) {
        offset += sample.size();
        table += little_endian(offset, 4);
        bytes += sample;
    }
    return table + head + bytes;
}

// A sample: sizes of the columns that have any size, then all columns.
inline std::string columns_of(const std::vector<std::string>& sized, const std::string& fixed_first = "") {
    std::string sizes;
    std::string bytes;
    for (const std::string& column : sized) {
        sizes += little_endian(column.size(), 4);
        bytes += column;
    }
    return sizes + fixed_first + bytes;
}

// A zstd frame of one block that is not compressed, of at most 128 KiB.
inline std::string zstd_stored(const std::string& content) {
    return std::string("\x28\xb5\x2f\xfd\xa0", 5) + little_endian(content.size(), 4) +
           little_endian(content.size() << 3 | 1, 3) + content;
}

struct MdsColumn {
    std::string name;
    std::string encoding;
    std::string size = "null";
};

struct MdsShardText {
    std::string file = "x.mds";
    std::size_t samples = 0;
    std::size_t raw_size = 0;
    std::string packed_file = {};  // empty: not compressed
    std::size_t packed_size = 0;
    std::string compression = "zstd";
};

inline std::string mds_index(const std::vector<MdsColumn>& columns, const std::vector<MdsShardText>& shards) {
    const auto list = [&](auto text) {
        std::string all;
        for (const MdsColumn& column : columns) {
            all += (all.empty() ? "" : ",") + text(column);
        }
        return "[" + all + "]";
    };
    const auto file = [](const std::string& name, std::size_t size) {
        return R"({"basename":")" + name + R"(","bytes":)" + std::to_string(size) + R"(,"hashes":{}})";
    };
    std::string all;
    for (const MdsShardText& shard : shards) {
        const bool packed = !shard.packed_file.empty();
        all += std::string(all.empty() ? "" : ",") + R"({"column_encodings":)" +
               list([](const MdsColumn& column) { return '"' + column.encoding + '"'; }) + R"(,"column_names":)" +
               list([](const MdsColumn& column) { return '"' + column.name + '"'; }) + R"(,"column_sizes":)" +
               list([](const MdsColumn& column) { return column.size; }) + R"(,"compression":)" +
               (packed ? '"' + shard.compression + '"' : "null") + R"(,"format":"mds","hashes":[],"raw_data":)" +
               file(shard.file, shard.raw_size) + R"(,"samples":)" + std::to_string(shard.samples) +
               R"(,"size_limit":1,"version":2,"zip_data":)" +
               (packed ? file(shard.packed_file, shard.packed_size) : "null") + "}";
    }
    return R"({"shards":[)" + all + R"(],"version":2})";
}

struct LitChunkText {
    std::string file = "x.bin";
    std::size_t samples = 0;
    std::string dim = "null";
};

// `config`: further members, each after a comma. `spec`: the node of the structure, with \" for quotes.
inline std::string lit_index(const std::string& serializers, const std::string& spec,
                             const std::vector<LitChunkText>& chunks, const std::string& config = "") {
    std::string all;
    for (const LitChunkText& chunk : chunks) {
        all += std::string(all.empty() ? "" : ",") + R"({"chunk_bytes":1,"chunk_size":)" +
               std::to_string(chunk.samples) + R"(,"dim":)" + chunk.dim + R"(,"filename":")" + chunk.file + "\"}";
    }
    return R"({"chunks":[)" + all + R"(],"config":{"chunk_bytes":null,"data_format":[)" + serializers +
           R"(],"data_spec":"[1, )" + spec + "]\"" + config + "}}";
}

inline constexpr const char* kLitLeaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";

// A dict of leaves with these keys.
inline std::string lit_dict(const std::vector<std::string>& keys) {
    std::string names;
    std::string leaves;
    for (const std::string& key : keys) {
        names += std::string(names.empty() ? "" : ", ") + R"(\\\")" + key + R"(\\\")";
        leaves += std::string(leaves.empty() ? "" : ", ") + kLitLeaf;
    }
    return R"({\"type\": \"builtins.dict\", \"context\": \"[)" + names + R"(]\", \"children_spec\": [)" + leaves + "]}";
}

// The header and tables of a chunk with frames of `rows` samples, and the frames.
inline std::string lit_framed(const std::vector<std::string>& samples, std::size_t rows) {
    std::string offsets = little_endian(0, 4);
    std::uint64_t end = 0;
    for (const std::string& sample : samples) {
        end += sample.size();
        offsets += little_endian(end, 4);
    }
    const std::size_t count = (samples.size() + rows - 1) / rows;
    std::uint64_t at = 24 + offsets.size() + 24 * count;
    std::string table;
    std::string frames;
    for (std::size_t first = 0; first < samples.size(); first += rows) {
        std::string content;
        const std::size_t last = std::min(first + rows, samples.size());
        for (std::size_t i = first; i < last; ++i) {
            content += samples[i];
        }
        const std::string frame = zstd_stored(content);
        table += little_endian(first, 4) + little_endian(last - first, 4) + little_endian(at, 8) +
                 little_endian(frame.size(), 4) + little_endian(content.size(), 4);
        at += frame.size();
        frames += frame;
    }
    return std::string("LDFZ01\0\0", 8) + little_endian(1, 2) + little_endian(0, 2) + little_endian(samples.size(), 4) +
           little_endian(rows, 4) + little_endian(count, 4) + offsets + table + frames;
}

}  // namespace stoker::testing
