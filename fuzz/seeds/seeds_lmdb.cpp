// Values of LMDB records: Datums and pickles of a few bytes each. Pickles of protocol 2 are written by hand, because we
// have no writer for it. Also pages of B-trees, smaller than those of liblmdb.
#include <cstdint>
#include <cstring>
#include <string>

#include "fuzz/seeds/seeds.h"

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

// The pickle that NumPy writes for a uint8 array, by default (2, 1, 3).
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

namespace {

constexpr std::size_t kPage = 256;

template <typename Number>
void put(std::string& page, std::size_t at, Number number) {
    std::memcpy(page.data() + at, &number, sizeof number);
}

struct Node {
    std::string key;
    std::string value;        // of a leaf
    std::uint64_t page = 0;   // of a branch, or where a large value begins
    std::uint32_t large = 0;  // bytes of such a value
};

std::string page(std::uint64_t number, std::uint16_t kind, const std::vector<Node>& nodes) {
    std::string bytes(kPage, '\0');
    put(bytes, 0, number);
    put(bytes, 10, kind);
    std::size_t end = kPage;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const Node& node = nodes[i];
        const std::string value =
            node.large > 0 ? std::string(reinterpret_cast<const char*>(&node.page), sizeof node.page) : node.value;
        end -= (8 + node.key.size() + value.size() + 1) / 2 * 2;
        const std::uint32_t low = kind == 1        ? static_cast<std::uint32_t>(node.page)
                                  : node.large > 0 ? node.large
                                                   : static_cast<std::uint32_t>(value.size());
        put(bytes, end, low);
        put(bytes, end + 4, static_cast<std::uint16_t>(node.large > 0 ? 1 : 0));
        put(bytes, end + 6, static_cast<std::uint16_t>(node.key.size()));
        bytes.replace(end + 8, node.key.size() + value.size(), node.key + value);
        put(bytes, 16 + 2 * i, static_cast<std::uint16_t>(end));
    }
    put(bytes, 12, static_cast<std::uint16_t>(16 + 2 * nodes.size()));
    put(bytes, 14, static_cast<std::uint16_t>(end));
    return bytes;
}

}  // namespace

std::vector<std::vector<std::byte>> lmdb_trees() {
    const std::string first(2 * kPage, '\0');
    const std::string leaf = page(2, 2, {{"a", "1"}, {"b", "22"}, {"c", "", 3, 300}});
    const std::string large(2 * kPage, 'v');
    const std::string root = page(7, 1, {{"", "", 2}, {"image-1", "", 6}, {"x", "", 5}});
    const std::string leaves = leaf + large + page(5, 2, {{"x", ""}, {"y", "v"}}) +
                               page(6, 2, {{"image-1", "1"}, {"image-2", "2"}, {"label-1", "3"}});
    const std::string top = page(8, 1, {{"", "", 7}, {"z", "", 9}}) + page(9, 1, {{"", "", 10}, {"zz", "", 11}}) +
                            page(10, 2, {{"z", "1"}}) + page(11, 2, {{"zz", "2"}, {"zzz", "3"}});
    const std::string all[] = {"\xff\0\0\0"s + first, "\2\0\1\0"s + first + leaf + large,
                               "\7\0\2\0"s + first + leaves + root, "\x08\0\3\0"s + first + leaves + root + top,
                               "\2\0\1\1"s + first + page(2, 2, {{"ba", "1"}, {"ab", "2"}})};
    std::vector<std::vector<std::byte>> trees;
    for (const std::string& one : all) {
        const auto* begin = reinterpret_cast<const std::byte*>(one.data());
        trees.emplace_back(begin, begin + one.size());
    }
    return trees;
}

}  // namespace stoker::fuzz
