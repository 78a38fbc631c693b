// All shards must have the same columns: a sample's fields are those of the data set.
#include "stoker/formats/mds/mds_index.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/formats/index_json.h"
#include "stoker/formats/mds/mds_encoding.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
constexpr std::uint64_t kMostSamples = (std::uint64_t{1} << 32) - 1;  // offsets are of 32 bits
constexpr std::uint64_t kMostColumns = 4096;

const Json& list_member(const Json& object, const char* name) {
    const Json& list = json_member(object, name);
    if (!list.is_array()) {
        throw DataError({},
                        {.where = "mds", .expected = fmt::format("a list as \"{}\"", name), .got = list.type_name()});
    }
    return list;
}

void require_version(const Json& object, const std::string& where) {
    if (const std::uint64_t version = json_natural_member(object, "version", kMostBytes); version != 2) {
        throw Unsupported({.where = where, .expected = "version 2 of MDS", .got = fmt::format("{}", version)});
    }
}

ColumnLayout parse_columns(const Json& shard) {
    const Json& names = list_member(shard, "column_names");
    const Json& encodings = list_member(shard, "column_encodings");
    const Json& sizes = list_member(shard, "column_sizes");
    if (names.size() != encodings.size() || names.size() != sizes.size() || names.size() > kMostColumns) {
        throw DataError({}, {.where = "mds",
                             .expected = "a name, an encoding and a size for each column",
                             .got = fmt::format("{}, {} and {}", names.size(), encodings.size(), sizes.size())});
    }
    ColumnLayout layout;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const bool sized = sizes[i].is_number_unsigned() && sizes[i].get<std::uint64_t>() > 0;
        if (!names[i].is_string() || !encodings[i].is_string() || (!sized && !sizes[i].is_null())) {
            throw DataError({}, {.where = "mds",
                                 .expected = "columns with a name, an encoding, and a size or null",
                                 .got = json_text(Json{names[i], encodings[i], sizes[i]}).substr(0, 100)});
        }
        layout.columns.push_back(mds_column(names[i].get<std::string>(), encodings[i].get<std::string>()));
        layout.sizes.push_back(sized ? std::optional(sizes[i].get<std::uint64_t>()) : std::nullopt);
    }
    return layout;
}

MdsFile parse_file(const Json& file) {
    return {.name = json_text_member(file, "basename"), .size = json_natural_member(file, "bytes", kMostBytes)};
}

ShardPacking packing_named(std::string_view name, const std::string& where) {
    const std::string_view algorithm = name.substr(0, name.find(':'));  // without its level
    if (algorithm == "zstd") {
        return ShardPacking::zstd;
    }
    if (algorithm == "gz") {
        return ShardPacking::gzip;
    }
    throw Unsupported({.where = where,
                       .expected = "shards without compression, or compressed by zstd or gz",
                       .got = fmt::format("{:?}", name),
                       .hint = "write them again with compression=\"zstd\""});
}

MdsShard parse_shard(const Json& json, const std::string& where) {
    const std::string format = json_text_member(json, "format");
    if (format != "mds") {
        throw Unsupported({.where = where,
                           .expected = "shards of the format mds",
                           .got = fmt::format("{:?}", format),
                           .hint = "write them again with MDSWriter"});
    }
    require_version(json, where);
    MdsShard shard;
    shard.samples = static_cast<std::int64_t>(json_natural_member(json, "samples", kMostSamples));
    shard.raw = parse_file(json_member(json, "raw_data"));
    if (const Json* packed = json_optional_member(json, "zip_data")) {
        shard.packed = parse_file(*packed);
        shard.packing = packing_named(json_text_member(json, "compression"), where);
    }
    return shard;
}

bool same_columns(const Json& one, const Json& other) {
    return list_member(one, "column_names") == list_member(other, "column_names") &&
           list_member(one, "column_encodings") == list_member(other, "column_encodings") &&
           list_member(one, "column_sizes") == list_member(other, "column_sizes");
}

}  // namespace

MdsIndex parse_mds_index(const Json& json, const std::string& where) {
    require_version(json, where);
    MdsIndex index;
    const Json& shards = list_member(json, "shards");
    for (std::size_t i = 0; i < shards.size(); ++i) {
        index.shards.push_back(parse_shard(shards[i], where));
        if (i > 0 && !same_columns(shards[0], shards[i])) {
            throw Unsupported({.where = where,
                               .expected = "shards with the same columns",
                               .got = fmt::format("others in {}", index.shards.back().raw.name)});
        }
    }
    if (!shards.empty()) {
        index.layout = parse_columns(shards[0]);
    }
    return index;
}

}  // namespace stoker
