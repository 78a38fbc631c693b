// LibTorch loads the file that was checked, not another one that has its name by then.
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/pt2/pt2_support.h"
#include "stoker/base/file.h"
#include "stoker/models/exported_model.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using namespace testing;

// pt2_graph with the structure of inputs and outputs that LibTorch parses: one tensor each.
std::string loadable_graph() {
    const std::string leaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";
    const std::string tuple = R"({\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [)";
    const std::string dict = R"({\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []})";
    std::string graph = pt2_graph();
    const std::string specs = R"("in_spec": "", "out_spec": "")";
    return graph.replace(
        graph.find(specs), specs.size(),
        R"("in_spec": "[1, )" + tuple + tuple + leaf + "]}, " + dict + R"(]}]", "out_spec": "[1, )" + leaf + "]\"");
}

TEST(ExportedFile, StaysTheOneThatWasChecked) {
    const TempDir folder;
    const std::string path = folder / "net.pt2";
    const std::string description =
        R"({"version": 1, "compiled": false, "device": "cpu", "input": [2, 3], "smallest_batch": 1,)"
        R"("parameters": [], "buffers": []})";
    write_file(path, zip(pt2_members({{"net/models/train.json", loadable_graph()},
                                      {"net/extra/stoker.json", description},
                                      {"net/extra/weights.safetensors", little_endian(2, 8) + "{}"}})));
    const ExportedFile checked = read_exported_file(path);
    write_file(path, "not a model");
    EXPECT_NO_THROW(ExportedGraph(*checked.zip, path, "train", false, at::kCPU));
    EXPECT_THROW(read_exported_file(path), Error);
}

// Both are read before the file's graphs are checked.
TEST(ExportedFile, DeepJsonIsRefused) {
    const TempDir folder;
    const std::string path = folder / "net.pt2";
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    const std::string header = R"({"a":{"dtype":"U8","shape":)" + deep + R"(,"data_offsets":[0,1]}})";
    write_file(path,
               zip(pt2_members({{"net/extra/weights.safetensors", little_endian(header.size(), 8) + header + "x"}})));
    EXPECT_THROW(read_exported_file(path), DataError);
    const std::string description =
        R"({"version": 2, "compiled": false, "device": "cpu", "inputs": [{"dtype": "C64", "shape": )" + deep + "}]}";
    write_file(path, zip(pt2_members({{"net/extra/stoker.json", description},
                                      {"net/extra/weights.safetensors", little_endian(2, 8) + "{}"}})));
    EXPECT_THROW(read_exported_file(path), DataError);
}

}  // namespace
}  // namespace stoker
