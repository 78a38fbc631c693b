// Values of LMDB records: Datums and pickles, of a few bytes each. Protocol 2 pickles are written out by hand, since
// nothing of ours writes any.
#include <string>

#include "seeds.h"

namespace stoker::fuzz {
namespace {

using namespace std::string_literals;

const std::string kImage = "P5 2 1 255\nab";

std::string text(const std::string& content) {
    return "X" + std::string(1, static_cast<char>(content.size())) + "\0\0\0"s + content;
}

std::string bytes(const std::string& content) {
    return "C" + std::string(1, static_cast<char>(content.size())) + content;
}

std::string pickle(const std::string& content) {
    return "\x80\4" + content + ".";
}

// What NumPy writes for a uint8 array, by default (2, 1, 3).
std::string array(const std::string& shape = "K\2K\1K\3", const std::string& content = "abcdef") {
    return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" + bytes("b") + "\x87R(K\1" + shape +
           "\x87" + "cnumpy\ndtype\n" + text("u1") + "\x89\x88\x87R(K\3" + text("|") +
           "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff" + "K\0tb\x89" + bytes(content) + "tb";
}

}  // namespace

std::vector<std::vector<std::byte>> lmdb_records() {
    const std::string sides = "\x08\3\x10\1\x18\2"s;
    const std::string dict = "}(" + text("image") + bytes(kImage) + text("label") + "K\3u";
    const std::string planes = array("K\2K\1K\5", "abcdefghij");
    const std::string all[] = {kImage,
                               sides + "\x22\6rRgGbB\x28\5",
                               "\x22" + std::string(1, static_cast<char>(kImage.size())) + kImage + "\x28\7\x38\1",
                               sides +
                                   "\x35"
                                   "1234" +
                                   "\x49"
                                   "12345678",
                               pickle(dict),
                               pickle(bytes(kImage) + "K\1\x86"),
                               pickle("]" + bytes(kImage) + "a"),
                               pickle(array()),
                               pickle("}(" + text("x") + array() + text("y") + "K\2u"),
                               pickle("}(" + text("image") + planes + text("label") + "K\2u"),
                               pickle(planes + "K\5\x86")};
    std::vector<std::vector<std::byte>> records;
    for (const std::string& one : all) {
        const auto* begin = reinterpret_cast<const std::byte*>(one.data());
        records.emplace_back(begin, begin + one.size());
    }
    return records;
}

}  // namespace stoker::fuzz
