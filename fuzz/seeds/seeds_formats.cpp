// Small data sets in each format, made by the writers of the tests.
#include <filesystem>
#include <fstream>

#include "formats/arrays/npz_support.h"
#include "formats/pt2/pt2_support.h"
#include "formats/stk/stk_support.h"
#include "fuzz/seeds/seeds.h"
#include "stoker/formats/stk/stk_manifest.h"
#include "stoker/io/gzip.h"
#include "support/temp_dir.h"

namespace stoker::fuzz {
namespace {

using namespace stoker::testing;

Input input_of(std::string_view text) {
    const auto bytes = as_bytes(text);
    return {bytes.begin(), bytes.end()};
}

std::vector<std::string> npys() {
    const std::string pixels = random_bytes(60, 1);
    return {npy("|u1", "(5, 4, 3)", pixels),
            npy("|u1", "(5, 2, 2, 3)", pixels, true),
            npy("|u1", "(1, 3, 4, 5)", pixels, false, 2),
            npy(">i4", "(3,)", std::string("\0\0\0\2\0\0\0\0\0\0\0\1", 12)),
            npy("<i8", "(2, 1)", little_endian(7, 8) + little_endian(1, 8)),
            npy("<f4", "(2, 2)", little_endian(0x3F800000, 4) + std::string(8, '\0') + little_endian(0x3F800000, 4)),
            npy("<U2", "(2,)", little_endian('a', 4) + std::string(4, '\0') + little_endian(0x1F525, 4) + "b\0\0\0"),
            npy("|S3", "(2,)", "catdog", false, 3)};
}

std::vector<std::string> npzs() {
    std::vector<std::string> files;
    for (const bool deflate : {false, true}) {
        const std::string images = npy("|u1", "(2, 2, 2)", "abcdefgh");
        const std::string labels = npy("|u1", "(2,)", std::string("\1\0", 2));
        files.push_back(zip({{"x.npy", images, deflate},
                             {"y.npy", labels, deflate},
                             {"classes.npy", npy("|S1", "(2,)", "ab"), deflate},
                             {"keys.npy", npy("|S2", "(2,)", "k0k1"), deflate},
                             {"mask.npy", images, deflate},
                             {"box.npy", npy("<f4", "(2, 1, 4)", std::string(32, '\1')), deflate},
                             {"flag.npy", npy("|b1", "(2,)", std::string("\1\0", 2)), deflate}}));
        files.push_back(zip({{"x_train.npy", images, deflate},
                             {"y_train.npy", labels, deflate},
                             {"x_test.npy", images, deflate},
                             {"y_test.npy", labels, deflate}}));
    }
    return files;
}

std::vector<std::string> safetensors() {
    std::vector<std::string> files;
    for (const std::string& header :
         {std::string(R"({"images":{"dtype":"U8","shape":[2,2,2],"data_offsets":[0,8]},)"
                      R"("labels":{"dtype":"I64","shape":[2],"data_offsets":[8,24]}})"),
          std::string(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}})"),
          std::string(R"({"x":{"dtype":"U8","shape":[1,3,2,2],"data_offsets":[0,12]},)"
                      R"("y":{"dtype":"BF16","shape":[1,6],"data_offsets":[12,24]}})")}) {
        files.push_back(little_endian(header.size(), 8) + header + std::string(24, '\0'));
    }
    return files;
}

// The length of the labels' file, that file, the images' file.
std::string idx_pair(const std::string& labels, const std::string& images) {
    const auto length = static_cast<unsigned>(labels.size());
    return std::string{static_cast<char>(length >> 8), static_cast<char>(length)} + labels + images;
}

// Whole files, and graphs alone.
std::vector<std::string> pt2s() {
    return {zip(pt2_members()),
            zip(pt2_members({{"net/models/eval.json", pt2_graph("torch.ops.higher_order.cond")}})),
            pt2_graph(),
            pt2_graph("torch.ops.aten.convolution.default", R"({"as_ints": [1, 2]})"),
            pt2_graph("torch.ops.higher_order.executorch_call_delegate", R"({"as_graph": {"name": "g", "graph": {}}})"),
            pt2_graph("torch.ops.aten.cat.default", R"({"as_tensors": [{"name": "w"}]})"),
            pt2_graph("_operator.mul", R"({"as_sym_int": {"as_name": "s0"}})")};
}

std::string gzipped(const std::string& text) {
    const std::span<const std::byte> piece = as_bytes(text);
    const Buffer packed = gzip(std::span(&piece, 1));
    return text_of(packed.bytes());
}

std::vector<std::string> idxs() {
    const std::string labels("\0\0\10\1\0\0\0\2\1\3", 10);
    const std::string gray = std::string("\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3", 16) + random_bytes(12, 2);
    const std::string color = std::string("\0\0\10\4\0\0\0\2\0\0\0\2\0\0\0\2\0\0\0\3", 20) + random_bytes(24, 3);
    return {idx_pair(labels, gray), idx_pair(labels, color), idx_pair(gzipped(labels), gzipped(gray)),
            idx_pair(labels, gzipped(color))};
}

// One byte that chooses, then a shard or the manifest.
std::vector<std::string> stks() {
    std::vector<std::string> files;
    for (const std::int64_t count : {1, 4}) {
        const TempDir dir;
        write_every_kind(dir / "d.stk", count, 1 << 20);
        const std::string shard = read_text(dir / "d.stk" / stk_shard_name(0));
        files.push_back(std::string(1, '\0') + shard);
        files.push_back("\2" + shard);
        files.push_back("\1" + read_text(dir / "d.stk" / kStkManifest));
    }
    return files;
}

std::vector<std::string> csvs() {
    return {"path,label\na.png,cat\nb/c.png,dog\n",
            "\xef\xbb\xbf"
            "file,class,age\r\n\"a,\"\"1\"\".png\",3,0.5\r\nb.png,1.0,\r\n,-1,NaN\r\n",
            "image,x,y\n\"two\nlines.png\",True,1e3\n../a.png,0,1\n"};
}

// A byte for the context and the element type, then the file.
std::vector<std::string> token_streams() {
    return {std::string("\3\1\0\2\0\3\0\4\0\5\0\6\0\7\0", 15), std::string("\x81\1\0\0\0\2\0\0\0\3\0\0\0", 13),
            '\1' + npy("<i4", "(3,)", little_endian(7, 4) + little_endian(8, 4) + little_endian(0xFFFFFFFF, 4)),
            '\2' + little_endian(20240520, 4) + little_endian(1, 4) + little_endian(3, 4) + std::string(1012, '\0') +
                "abcdef"};
}

std::vector<std::string> cocos() {
    return {R"({"images": [{"id": 1, "file_name": "a.jpg"}], "categories": [{"id": 3, "name": "cat"}], "annotations": [
                {"image_id": 1, "category_id": 3, "bbox": [1, 2.5, 3e1, 4], "iscrowd": 0, "segmentation": [[1, 2]]}]})",
            R"({"info": {"a": "]\"}"}, "annotations": [], "images": [{"file_name": "\u00e9/b.png", "id": -2}],
                "categories": [{"name": "x", "id": 0}, {"id": 1, "name": "y"}]})"};
}

}  // namespace

std::map<std::string, std::vector<Input>> format_seeds() {
    std::map<std::string, std::vector<Input>> seeds;
    const std::pair<const char*, std::vector<std::string>> all[] = {
        {"npy", npys()}, {"npz", npzs()}, {"pt2", pt2s()},   {"safetensors", safetensors()}, {"idx", idxs()},
        {"stk", stks()}, {"csv", csvs()}, {"coco", cocos()}, {"tokens", token_streams()}};
    for (const auto& [target, files] : all) {
        for (const std::string& file : files) {
            seeds[target].push_back(input_of(file));
        }
    }
    return seeds;
}

}  // namespace stoker::fuzz
