// Indices with a shard of MDS or LitData, in the layout of fuzz/formats/shard_folder.h.
#include "formats/shard_support.h"
#include "fuzz/seeds/seeds.h"
#include "stoker/base/file.h"

namespace stoker::fuzz {
namespace {

using namespace stoker::testing;

const std::string kPng = "\x89PNG\r\n\x1a\n and more";

Input input_of(const std::string& index, const std::string& shard) {
    const std::string text = little_endian(index.size(), 2) + index + shard;
    const auto bytes = as_bytes(text);
    return {bytes.begin(), bytes.end()};
}

std::string pillow(const std::string& mode, const std::string& pixels) {
    return little_endian(1, 4) + little_endian(1, 4) + little_endian(mode.size(), 4) + mode + pixels;
}

std::string list_of(const std::vector<std::string>& images) {
    std::string sizes = little_endian(images.size(), 4);
    std::string bytes;
    for (const std::string& image : images) {
        sizes += little_endian(image.size(), 4);
        bytes += image;
    }
    return sizes + bytes;
}

}  // namespace

std::vector<Input> mds_shards() {
    const std::string shape = std::string("\x08\x02\x01", 3) + little_endian(7, 2) + little_endian(8, 2);
    const std::vector<MdsColumn> columns = {
        {"image", "jpeg"},  {"a", "ndarray"},   {"b", "ndarray:int16"}, {"c", "ndarray:int16:2,1"},
        {"d", "json"},      {"e", "str_float"}, {"f", "pil"},           {"g", "jpegarray"},
        {"h", "list[png]"}, {"i", "str"},       {"j", "bytes"},         {"label", "int", "8"}};
    const auto sample = [&](int label) {
        return columns_of({kPng, "\x11" + shape, shape, shape.substr(3), "[[1, 2.5]]", "0.5", pillow("RGB", "abc"),
                           list_of({kPng, kPng}), little_endian(0, 4) + list_of({kPng}), "text", "bytes"}) +
               little_endian(static_cast<std::uint64_t>(label), 8);
    };
    const std::string shard = shard_of({sample(0), sample(1)}, "{}");
    const std::vector<MdsColumn> few = {{"image", "png"}, {"label", "uint8", "1"}};
    const std::string small = shard_of({columns_of({kPng}) + "\1", columns_of({kPng}) + "\2"});
    const std::string packed = zstd_stored(small);
    return {input_of(mds_index(columns, {{.samples = 2, .raw_size = shard.size()}}), shard),
            input_of(mds_index(few, {{.samples = 2, .raw_size = small.size()}}), small),
            input_of(mds_index(few, {{.file = "y.mds",
                                      .samples = 2,
                                      .raw_size = small.size(),
                                      .packed_file = "x.mds",
                                      .packed_size = packed.size()}}),
                     packed)};
}

std::vector<Input> litdata_chunks() {
    const std::string elements = little_endian(7, 2) + little_endian(8, 2);
    const std::string array = little_endian(1, 4) + little_endian(1, 4) + little_endian(2, 4) + elements;
    const std::string tensor = std::string("\0\0\0\x0d\0\0\0\1\0\0\0\2", 12) + elements;
    const std::string names = R"("jpeg","numpy","tensor","no_header_tensor:13","json","pil","jpeg_array","bool","int")";
    const auto sample = [&](int label) {
        return columns_of({kPng, array, tensor, elements, "\2" + little_endian(1, 4) + little_endian(5, 8),
                           pillow("L", "a"), list_of({kPng, kPng}), "\1",
                           little_endian(static_cast<std::uint64_t>(label), 8)});
    };
    const std::vector<std::string> samples = {sample(0), sample(1), sample(2)};
    std::vector<std::string> packed;
    for (const std::string& one : samples) {
        packed.push_back(zstd_stored(one));
    }
    const std::string spec = lit_dict({"image", "a", "b", "c", "d", "e", "f", "g", "label"});
    const auto index = [&](const std::string& config) { return lit_index(names, spec, {{.samples = 3}}, config); };
    const std::string level = R"(,"compression":"zstd","compression_level":)";
    return {input_of(index(""), shard_of(samples)),
            input_of(index(level + "\"batch\""), lit_framed(samples, 2)),
            input_of(index(level + "\"sample\""), shard_of(packed)),
            input_of(index(level + "null"), zstd_stored(shard_of(samples))),
            input_of(lit_index(R"("no_header_numpy:5")", kLitLeaf, {{.samples = 2, .dim = "7"}}),
                     shard_of({"abcdef", "ghijklmn"})),
            input_of(lit_index(R"("bytes")", kLitLeaf, {{.samples = 1}}),
                     shard_of({""}) + "rows" + little_endian(4, 4) + std::string("LDARW01\0", 8))};
}

}  // namespace stoker::fuzz
