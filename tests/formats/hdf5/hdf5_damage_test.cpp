// Damaged HDF5 files: random bytes anywhere in small files, and systematic damage of the structures that are read
// without the library. Each file must be readable or give a stoker::Error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "formats/hdf5/hdf5_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/rng.h"
#include "stoker/formats/hdf5/hdf5.h"
#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_info.h"
#include "stoker/formats/hdf5/hdf5_library.h"
#include "stoker/formats/hdf5/hdf5_records.h"
#include "support/put.h"
#include "support/refused_call.h"
#include "support/slow.h"
#include "support/temp_dir.h"

#ifdef __SANITIZE_ADDRESS__
// libhdf5 leaks memory after a damaged file. liblmdb 0.9.24 leaks 1 MB for each transaction of more than 512 MB, as in
// LmdbWriter.TheMapGrows. Leaks of our code are still reported.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
    return "leak:libhdf5\nleak:mdb_midl_alloc\n";
}
#endif

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Opens the file and reads everything, with all further fields. Returns "" or the message of a stoker::Error.
std::string result_of(const std::filesystem::path& path) {
    try {
        FieldNames names;
        for (const Field& field : Hdf5Dataset(path.string(), Split::train, {}).stored_fields()) {
            names.more.push_back({.name = field.name, .kind = field.name == "caption" ? FieldKind::bytes : field.kind});
        }
        const Hdf5Dataset dataset(path.string(), Split::train, names);
        Sample sample;
        for (std::int64_t i = 0; i < std::min<std::int64_t>(dataset.size(), 50); ++i) {
            dataset.read(i, sample);
            EXPECT_LE(dataset.key(i).size(), std::size_t{1} << 20);
        }
        return "";
    } catch (const Error& error) {
        EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
        return error.what();
    }
}

Bytes steps(std::size_t count) {
    Bytes bytes(count);
    for (std::size_t i = 0; i < count; ++i) {
        bytes[i] = static_cast<std::uint8_t>(i * i / 7);
    }
    return bytes;
}

// Small files of each layout, with labels, keys, classes and a further field.
std::vector<std::string> sound_files(const TempDir& dir) {
    std::vector<std::string> contents;
    const Form forms[] = {{},
                          {.storage = Storage::compact},
                          {.storage = Storage::chunked, .chunk = {2, 3, 4}, .filters = "sdf"},
                          {.storage = Storage::chunked, .chunk = {1, 6, 4}}};
    for (const bool version_18 : {false, true}) {
        for (const Form& form : forms) {
            {
                H5Writer file(dir / "a.h5", {.version_18 = version_18});
                file.add_bytes("images", {8, 6, 4}, steps(8 * 24), form);
                file.add_integers("labels", {0, 1, 0, 1, 0, 1, 0, 1}, H5T_STD_I16BE);
                file.add_bytes("mask", {8, 6, 4}, steps(8 * 24), form);
                file.add_texts("keys", {"a", "b", "c", "d", "e", "f", "g", "h"});
                file.add_classes("/labels", {"cat", "dog"}, version_18 ? 0 : 4);
            }
            contents.push_back(read_text(dir / "a.h5"));
        }
        {
            H5Writer file(dir / "a.h5", {.version_18 = version_18});
            file.add_sequences("images", {steps(5), steps(700), {}, steps(20'000), steps(3)});
            file.add_sequences("caption", {steps(1), {}, steps(90), steps(2), steps(3)}, {.storage = Storage::compact});
        }
        contents.push_back(read_text(dir / "a.h5"));
    }
    return contents;
}

std::string replaced(const std::string& content, std::size_t at, std::string_view bytes) {
    std::string changed = content;
    changed.replace(at, bytes.size(), bytes);
    return changed;
}

TEST(Hdf5Damage, FlippedBytesAnywhere) {
    const TempDir dir;
    Rng rng({.seed = 21});
    int failed = 0;
    int rounds = 0;
    for (const std::string& content : sound_files(dir)) {
        put(dir / "b.h5", content);
        ASSERT_EQ(result_of(dir / "b.h5"), "");
        for (int round = 0; round < 150; ++round, ++rounds) {
            std::string damaged = content;
            for (std::uint32_t change = 1 + rng.below(3); change > 0; --change) {
                const std::size_t at = rng.below(static_cast<std::uint32_t>(content.size()));
                damaged[at] = static_cast<char>(rng.chance(0.5f) ? rng.next() : damaged[at] ^ (1 << rng.below(8)));
            }
            put(dir / "b.h5", damaged);
            failed += result_of(dir / "b.h5").empty() ? 0 : 1;
        }
    }
    EXPECT_GT(failed, 0);
    EXPECT_LT(failed, rounds);
}

TEST(Hdf5Damage, CutShortAnywhere) {
    const TempDir dir;
    for (const std::string& content : sound_files(dir)) {
        for (std::size_t length = 0; length < content.size(); length += content.size() / 40 + 1) {
            put(dir / "b.h5", content.substr(0, length));
            EXPECT_NE(result_of(dir / "b.h5"), "") << "cut to " << length;
        }
    }
}

// Sets each byte, and each 8 bytes, after a signature to extreme values.
void forge(const TempDir& dir, const std::string& content, std::string_view signature, std::size_t length) {
    std::size_t found = 0;
    for (std::size_t at = content.find(signature); at != std::string::npos; at = content.find(signature, at + 1)) {
        ++found;
        for (std::size_t i = 0; i < length && at + i < content.size(); ++i) {
            for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
                put(dir / "b.h5", replaced(content, at + i, std::string(1, static_cast<char>(value))));
                result_of(dir / "b.h5");
                put(dir / "b.h5", replaced(content, at + i,
                                           std::string(8, static_cast<char>(value))
                                               .substr(0, std::min<std::size_t>(8, content.size() - at - i))));
                result_of(dir / "b.h5");
            }
        }
    }
    EXPECT_GT(found, 0u) << signature;
}

TEST(Hdf5Damage, DamagedTreesAndHeaps) {
    STOKER_SLOW_TEST();
    const TempDir dir;
    const std::vector<std::string> contents = sound_files(dir);
    const std::string tree_of_chunks{'T', 'R', 'E', 'E', 1};
    forge(dir, contents[2], tree_of_chunks, 24 + 3 * 48);
    forge(dir, contents[4], "GCOL", 16 + 3 * 16);
}

// A B-tree node that is its own child, and chunks outside the file or the dataset.
TEST(Hdf5Damage, DamagedTreesAreReported) {
    const TempDir dir;
    const std::string content = sound_files(dir)[2];
    const std::string signature{'T', 'R', 'E', 'E', 1};
    const std::size_t tree = content.find(signature);
    ASSERT_NE(tree, std::string::npos);
    std::string address(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) {
        address[i] = static_cast<char>(tree >> (8 * i));
    }
    const std::size_t key_bytes = 8 + 8 * 4;
    const std::size_t child = tree + 24 + key_bytes;
    std::string circle = replaced(content, child, address);
    circle[tree + 5] = 1;  // a level above the leaves, though it is a leaf
    put(dir / "b.h5", circle);
    EXPECT_THAT(result_of(dir / "b.h5"), HasSubstr("expected each B-tree node once"));
    put(dir / "b.h5", replaced(content, child, std::string_view("\xff\xff\xff\x7f\0\0\0\0", 8)));
    EXPECT_THAT(result_of(dir / "b.h5"), HasSubstr("the address of a chunk within"));
    put(dir / "b.h5", replaced(content, tree + 24, std::string_view("\xff\xff\xff\x7f", 4)));
    EXPECT_THAT(result_of(dir / "b.h5"), HasSubstr("expected 2147483647 bytes of a chunk"));
    put(dir / "b.h5", replaced(content, tree + 24 + 8, std::string_view("\x01", 1)));
    EXPECT_THAT(result_of(dir / "b.h5"), HasSubstr("the first element of a chunk"));
}

// The message has the bytes that were found in place of a signature, or the level.
TEST(Hdf5Damage, MessagesShowWhatWasFound) {
    const TempDir dir;
    const std::vector<std::string> contents = sound_files(dir);
    const std::string_view chunks("TREE\x01", 5);
    const auto result = [&](const std::string& content, std::string_view signature, std::size_t at,
                            std::string_view bytes) {
        put(dir / "b.h5", replaced(content, content.find(signature) + at, bytes));
        return result_of(dir / "b.h5");
    };
    EXPECT_THAT(result(contents[2], chunks, 0, "LEAF"),
                HasSubstr("expected a B-tree node of chunks, got 5 bytes: 4c 45 41 46 01"));
    EXPECT_THAT(result(contents[4], "GCOL", 4, "\x09"),
                HasSubstr("expected a heap collection of version 1, got 5 bytes: 47 43 4f 4c 09"));
    const std::size_t tree = contents[2].find(chunks);
    const std::size_t child = tree + 24 + 8 + 8 * 4;
    std::string grown = contents[2] + contents[2].substr(tree);  // the child is a copy of its parent, a leaf
    grown[tree + 5] = 2;
    for (std::size_t i = 0; i < 8; ++i) {
        grown[child + i] = static_cast<char>(contents[2].size() >> (8 * i));
    }
    put(dir / "b.h5", grown);
    EXPECT_THAT(result_of(dir / "b.h5"), HasSubstr("a B-tree node of level 1, one below its parent, got level 0"));
    put(dir / "b.h5", std::string("JPEG!") + std::string(64, '\0'));
    const Hdf5Bytes file((dir / "b.h5").string());
    EXPECT_THAT([&] { find_attribute(file, 0, "classes"); },
                ThrowsMessage<DataError>(
                    HasSubstr("expected an object header of version 1 or 2, got 5 bytes: 4a 50 45 47 21")));
}

// A header of version 1 whose messages are all continuations: at the header itself, twice at one place, or at 2000
// places.
TEST(Hdf5Damage, EndlessHeadersAreRefused) {
    const TempDir dir;
    const auto number = [](std::uint64_t value, std::size_t bytes) {
        std::string text;
        for (std::size_t i = 0; i < bytes; ++i) {
            text += static_cast<char>(value >> (8 * i));
        }
        return text;
    };
    const auto header = [&](std::size_t messages, std::uint64_t first, std::uint64_t step) {
        std::string text = "\1" + number(0, 7) + number(messages * 24, 4) + number(0, 4);
        for (std::size_t i = 0; i < messages; ++i) {
            text += number(0x10, 2) + number(16, 2) + number(0, 4) + number(first + i * step, 8) + number(16, 8);
        }
        return text + std::string(64, '\0');
    };
    for (const std::string& content : {header(3, 16, 0), header(2, 64, 0), header(2000, 17, 1)}) {
        put(dir / "b.h5", content);
        const Hdf5Bytes file((dir / "b.h5").string());
        EXPECT_THROW(find_attribute(file, 0, "classes"), DataError);
    }
    put(dir / "b.h5", header(2, 64, 8));
    const Hdf5Bytes file((dir / "b.h5").string());
    EXPECT_EQ(find_attribute(file, 0, "classes"), std::nullopt);
}

TEST(Hdf5Damage, ChecksumsAndSizesOfChunks) {
    const auto bytes_of = [](const Bytes& bytes) { return std::as_bytes(std::span(bytes)); };
    const std::vector<Hdf5Filter> checked = {{.id = H5Z_FILTER_FLETCHER32, .name = "fletcher32"}};
    Bytes chunk = steps(33);
    const std::uint32_t sum = hdf5_fletcher32(bytes_of(chunk));
    for (int i = 0; i < 4; ++i) {
        chunk.push_back(static_cast<std::uint8_t>(sum >> (8 * i)));
    }
    EXPECT_EQ(undo_filters(checked, 0, bytes_of(chunk), 33).size(), 33u);
    EXPECT_THROW(undo_filters(checked, 0, bytes_of(chunk), 34), DataError);
    chunk[5] ^= 1;
    EXPECT_THROW(undo_filters(checked, 0, bytes_of(chunk), 33), DataError);
    EXPECT_EQ(undo_filters(checked, 1, bytes_of(chunk), 37).size(), 37u);  // the filter was not applied
    EXPECT_THROW(undo_filters(checked, 0, bytes_of({1, 2}), 0), DataError);
    const std::vector<Hdf5Filter> packed = {{.id = H5Z_FILTER_DEFLATE, .name = "deflate"}};
    EXPECT_THROW(undo_filters(packed, 0, bytes_of(chunk), 33), DataError);
    EXPECT_THROW(undo_filters(packed, 0, bytes_of(chunk), std::uint64_t{1} << 40), DataError);
}

// Shapes that the file cannot hold are refused before memory is allocated.
TEST(Hdf5Damage, HugeShapesAreRefused) {
    const TempDir dir;
    H5Writer(dir / "a.h5")
        .add("images", H5T_STD_U8LE, {2, 65'000, 65'000, 4},
             {.storage = Storage::chunked, .chunk = {1, 100, 100, 4}, .filters = "d"}, [](hid_t) {});
    EXPECT_THAT(result_of(dir / "a.h5"), HasSubstr("bytes can hold"));
    {
        H5Writer file(dir / "a.h5");
        const Form form{.storage = Storage::chunked, .chunk = {1, 10, 10}};
        file.add("images", H5T_STD_U8LE, {1 << 30, 10, 10}, form, [](hid_t) {});
        file.add("labels", H5T_STD_I64LE, {1 << 30}, {.storage = Storage::chunked, .chunk = {100}}, [](hid_t) {});
    }
    EXPECT_THAT(result_of(dir / "a.h5"), HasSubstr("expected no more than a file of"));
}

// Makes the `nth` B-tree node of this type (0: of groups, 1: of chunks) the parent of itself.
std::string with_own_child(std::string content, char type, int nth, std::size_t key_bytes) {
    const std::string node{'T', 'R', 'E', 'E', type};
    std::size_t at = content.find(node);
    for (; nth > 0 && at != std::string::npos; --nth) {
        at = content.find(node, at + 1);
    }
    EXPECT_NE(at, std::string::npos);
    content.at(at + 5) = '\1';  // its level
    for (std::size_t i = 0; i < 8; ++i) {
        content.at(at + 24 + key_bytes + i) = static_cast<char>(at >> (8 * i));
    }
    return content;
}

// libhdf5 1.10 overflows the stack on both.
TEST(Hdf5Damage, ANodeThatIsItsOwnChildIsRefused) {
    const TempDir dir;
    {
        H5Writer file(dir / "a.h5");
        file.add_bytes("train/images", {8, 6, 4}, steps(8 * 24));
        file.add_integers("train/labels", {0, 1, 0, 1, 0, 1, 0, 1}, H5T_STD_I64LE,
                          {.storage = Storage::chunked, .chunk = {2}});
        file.add_bytes("test/images", {2, 6, 4}, steps(2 * 24));
        must(H5Lcreate_hard(file.file(), "/", file.file(), "train/back", H5P_DEFAULT, H5P_DEFAULT));
        must(H5Lcreate_soft("/train/images", file.file(), "link", H5P_DEFAULT, H5P_DEFAULT));
    }
    const std::string sound = read_text(dir / "a.h5");
    EXPECT_EQ(result_of(dir / "a.h5"), "");
    for (const int nth : {0, 1, 2}) {
        put(dir / "a.h5", with_own_child(sound, '\0', nth, 8));
        EXPECT_THAT(result_of(dir / "a.h5"), HasSubstr("expected each B-tree node once, got the same node twice"));
    }
    put(dir / "a.h5", with_own_child(sound, '\1', 0, 8 + 16));
    EXPECT_THAT(result_of(dir / "a.h5"), HasSubstr("expected each B-tree node once, got the same node twice"));
}

// Groups with links in their headers lead to groups with trees.
TEST(Hdf5Damage, GroupsBelowCompactLinksAreChecked) {
    const TempDir dir;
    {
        H5Writer file(dir / "a.h5", {.version_18 = true});
        file.add_bytes("train/images", {8, 6, 4}, steps(8 * 24));
    }
    {
        const Hdf5Id file = open_hdf5(dir / "a.h5");
        Hdf5Bytes bytes(dir / "a.h5");
        bytes.set_superblock(read_superblock(file, bytes.path()));
        const Hdf5GroupLinks root = read_group_links(bytes, hdf5_header_of(file, bytes.path()));
        EXPECT_FALSE(root.tree);
        ASSERT_EQ(root.headers.size(), 1u);
        EXPECT_EQ(read_group_links(bytes, root.headers[0]).headers.size(), 1u) << "images";
    }
    EXPECT_EQ(result_of(dir / "a.h5"), "");
}

TEST(Hdf5Damage, AFailingDiskIsSaidInWords) {
    const TempDir dir;
    H5Writer(dir / "a.h5").add_bytes("images", {8, 6, 4}, steps(8 * 24));
    std::string error;
    std::thread([&] {
        if (refuse_call(__NR_pread64, EIO)) {
            try {
                open_hdf5(dir / "a.h5");
            } catch (const IoError& thrown) {
                error = thrown.what();
            }
        }
    }).join();
    EXPECT_THAT(error, ::testing::AllOf(HasSubstr("a.h5] expected an HDF5 file, but "),
                                        ::testing::Not(HasSubstr("errno")), ::testing::Not(HasSubstr("time"))));
}

}  // namespace
}  // namespace stoker
