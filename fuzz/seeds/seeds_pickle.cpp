// Pickles as Python writes them, and zip files that hold them, made by the writers of the tests.
#include <span>
#include <string>
#include <utility>

#include "formats/arrays/npz_support.h"
#include "formats/pickle/pickle_support.h"
#include "fuzz/seeds/seeds.h"

namespace stoker::fuzz {
namespace {

using namespace stoker::testing;

std::vector<std::string> pickles() {
    const std::string pixels = "abcdefghijkl";
    const std::string tensor = pickled_tensor("ByteStorage", "0", 0, {2, 2, 3}, {6, 3, 1});
    const std::string strided = pickled_tensor("ShortStorage", "1", 3, {2, 4}, {1, 5});
    const std::string encoded =
        pickled_name("_codecs", "encode") + pickled_text("a\u00e9") + pickled_text("latin1") + "\x86R";
    const std::vector<std::string> bodies = {
        pickled_dict({pickled_text("image"), pickled_array(pickled_dtype("u1", "|"), {2, 2, 3}, pixels),
                      pickled_text("label"), "K\3"}),
        pickled_dict({pickled_text("x"), pickled_buffer(pickled_dtype("i4", ">"), {3}, pixels, true)}),
        pickled_dict({pickled_text("images"), tensor, pickled_text("labels"), "](K\1K\2e"}),
        pickled_tuple({tensor, strided, pickled_tuple({pickled_text("cat"), pickled_text("dog")})}),
        pickled_name("torch._utils", "_rebuild_parameter") + tensor + "\x88N\x87R",
        pickled_name("numpy.core.multiarray", "scalar") + pickled_dtype("i4", "<") + pickled_bytes("abcd") + "\x86R",
        "\x80\x02}q\1(U\4dataq\2" + encoded +
            "U\6labels](K\1M\2\3J\4\5\6\7e"
            "u",
        "(dp0\nS'da\\x74a'\np1\nI01\nsS\"l\"\n(lp2\nI5\naL7L\naF1.5\nasVu\\u00e9\ng2\ns",
        "\x80\x04\x95" + little_endian(14, 8) + "]\x94(\x88\x89Nh" + std::string(1, '\0') +
            "\x8a\1\7)\x85\x86"
            "2e",
        pickled_name("collections", "OrderedDict") + ")R(\x8c\1a]q\1\x8c\1b(h\1h\1lu}b",
        pickled_name("builtins", "bytearray") + pickled_bytes("ab") + "\x85R",
    };
    std::vector<std::string> all;
    for (const std::string& body : bodies) {
        all.push_back(body + ".");
    }
    return all;
}

std::vector<std::string> zips() {
    std::vector<std::string> files;
    for (const std::string& structure : pickles()) {
        for (const bool deflate : {false, true}) {
            files.push_back(zip({{"d/data.pkl", structure, deflate},
                                 {"d/byteorder", deflate ? "big" : "little", false},
                                 {"d/data/0", "abcdefghijkl", deflate},
                                 {"d/data/1", std::string(24, '\1'), deflate}}));
        }
    }
    files.push_back(zip({}));
    return files;
}

}  // namespace

std::map<std::string, std::vector<Input>> pickle_seeds() {
    std::map<std::string, std::vector<Input>> seeds;
    for (const auto& [target, files] : {std::pair("pickle", pickles()), std::pair("zip", zips())}) {
        for (const std::string& file : files) {
            const auto bytes = std::as_bytes(std::span(file));
            seeds[target].emplace_back(bytes.begin(), bytes.end());
        }
    }
    return seeds;
}

}  // namespace stoker::fuzz
