// Damaged and hostile shards. Opening or verifying finds any changed byte of any file. Forged shards with correct
// hashes and wrong content are refused too. All give a DataError, none a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "formats/stk/stk_support.h"
#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/rng.h"
#include "stoker/formats/stk/stk_manifest.h"
#include "stoker/formats/stk/stk_schema.h"
#include "support/memory_room.h"
#include "support/put.h"
#include "support/slow.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr std::uint64_t kHuge = ~std::uint64_t{0};

// Reads and verifies all samples.
void read_all(const fs::path& directory) {
    const StkDataset source(directory);
    Sample sample;
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < source.size(); ++i) {
        source.read(i, sample);
        sum += hash_bytes(sample.bytes) + source.key(i).size();
        const StkReader& reader = source.reader();
        for (std::size_t field = 0; field < reader.schema().fields.size(); ++field) {
            if (reader.schema().fields[field].kind == StkKind::tensor) {
                const TensorView tensor = reader.tensor(field, i);
                sum += hash_bytes({tensor.data, tensor.bytes()});
            }
        }
        reader.verify(i);
    }
    EXPECT_NE(sum, 1u);
}

// The error of reading, or "". An exception that is not a stoker::Error fails the test.
std::string result_of(const fs::path& directory) {
    try {
        read_all(directory);
        return "";
    } catch (const DataError& error) {
        return error.what();
    } catch (const Unsupported& error) {
        return error.what();
    }
}

TEST(StkDamage, EveryChangedByteOfAShardIsFound) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 6, 1 << 20);
    const fs::path path = dir / "x.stk/shard-000000.stk";
    const std::string good = read_text(path);
    ASSERT_EQ(result_of(dir / "x.stk"), "");
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
        put(path, bad);
        const std::string error = result_of(dir / "x.stk");
        ASSERT_NE(error, "") << "byte " << at;
        ASSERT_EQ(error.find('\n'), std::string::npos);
        ASSERT_THAT(error, HasSubstr("shard-000000.stk")) << "byte " << at;
    }
}

TEST(StkDamage, EveryTruncationIsFound) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 6, 1 << 20);
    const fs::path path = dir / "x.stk/shard-000000.stk";
    const std::string good = read_text(path);
    for (std::size_t size = 0; size < good.size(); size += size < 300 ? 1 : 17) {
        put(path, good.substr(0, size));
        ASSERT_NE(result_of(dir / "x.stk"), "") << size;
    }
    put(path, good + std::string(64, '\0'));
    EXPECT_NE(result_of(dir / "x.stk"), "");
}

TEST(StkDamage, ChangesOfTheManifestAreFoundOrHarmless) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 20, 1000);
    const fs::path path = dir / "x.stk/stk.json";
    const std::string good = read_text(path);
    const StkManifest manifest = read_manifest(path);
    std::size_t accepted = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string bad = good;
            bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
            put(path, bad);
            if (const std::string error = result_of(dir / "x.stk"); error.empty()) {
                ++accepted;
                ASSERT_EQ(read_manifest(path).origin, manifest.origin) << bad;
                ASSERT_EQ(read_manifest(path).shards, manifest.shards) << bad;
            } else {
                ASSERT_EQ(error.find('\n'), std::string::npos) << error;
            }
        }
    }
    EXPECT_LT(accepted, 8 * std::string_view("\"self_hash\": ").size()) << "only the name of the hash may change";
    for (const char* text : {"", "{}", "[]", "nonsense", R"({"format":"stk"})", R"({"format":"stk","version":1})",
                             R"({"format":"stk","version":1,"samples":0,"shards":[]})",
                             R"({"format":"stk","version":1,"samples":-1,"shards":[]})",
                             R"({"format":"stk","version":1,"samples":1,"shards":[1]})",
                             R"({"format":"stk","version":1,"samples":1,"shards":[{"samples":1}]})",
                             R"({"format":"stk","version":1,"samples":1,"shards":{"samples":1}})"}) {
        put(path, text);
        EXPECT_THAT(result_of(dir / "x.stk"), HasSubstr("stk.json")) << text;
    }
    put(path, R"({"format":"stk","version":2})");
    EXPECT_THAT(result_of(dir / "x.stk"), HasSubstr("expected version 1 of the stk format, got version 2"));
}

// A class without a name takes 4 bytes of the file and 32 of memory.
TEST(StkDamage, ASchemaThatTakesTooMuchMemoryIsRefused) {
    const std::string text = encode_schema(stk_image_schema(std::vector<std::string>(2'000'000)));
    EXPECT_EQ(decode_schema(as_bytes(text)).fields.back().classes.size(), 2'000'000U);
    const MemoryRoom room(60 * kMiB);
    EXPECT_THROW(decode_schema(as_bytes(text)), MemoryError);
}

// A deeply nested JSON text would overflow the stack of its parser.
TEST(StkDamage, AManifestTooDeepIsRefused) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 20, 1000);
    std::string good = read_text(dir / "x.stk/stk.json");
    good.replace(good.find("self_hash"), 9, "no_hash__");  // as written before there was a hash
    const std::string empty = "\"origin\": {}";
    ASSERT_NE(good.find(empty), std::string::npos);
    const auto with = [&](const std::string& value) {
        return std::string(good).replace(good.find(empty), empty.size(), "\"origin\": {\"a\": " + value + "}");
    };
    const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    for (const char* name : {"stk.json", "stk.part.json"}) {
        const fs::path path = dir / "x.stk" / name;
        put(path, with(nested(62)));
        EXPECT_EQ(read_manifest(path).shards.size(), StkReader(dir / "x.stk").shards().size());
        put(path, with("\"" + nested(300) + "\\\"" + nested(300) + "\\\\\""));  // in a string they are text
        EXPECT_NO_THROW(read_manifest(path));
        for (const std::string& deep :
             {nested(63), nested(200'000), std::string(200'000, '['), "\"\\\\\", " + nested(70)}) {
            put(path, with(deep));
            EXPECT_THAT([&] { read_manifest(path); },
                        ThrowsMessage<DataError>(AllOf(HasSubstr(name), HasSubstr("at most 64 levels"))));
        }
        put(path, good);
    }
}

// The writer refuses a manifest that no reader would open.
TEST(StkDamage, ANoteTooDeepIsNotWritten) {
    const TempDir dir;
    const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    const auto write = [&](const std::string& origin) {
        write_manifest(dir / "stk.json", {.shards = {{.samples = 1}}, .notes = {origin}, .origin = origin});
    };
    write("{\"a\":" + nested(60) + "}");
    EXPECT_EQ(read_manifest(dir / "stk.json").origin, "{\"a\":" + nested(60) + "}");
    EXPECT_THROW(write("{\"a\":" + nested(61) + "}"), InvalidArgument);
    EXPECT_THROW(compact_json(nested(200'000)), InvalidArgument);
}

// A million shards with the largest numbers fit into a manifest.
TEST(StkDamage, TheLargestManifestCanBeRead) {
    STOKER_SLOW_TEST();
    const TempDir dir;
    StkManifest manifest;
    manifest.shards.assign(10'000, {.samples = kStkMaxSamples, .bytes = kHuge, .hash = kHuge});
    write_manifest(dir / "stk.json", manifest);
    EXPECT_EQ(read_manifest(dir / "stk.json").shards, manifest.shards);
    constexpr std::uintmax_t kMost = std::uintmax_t{128} << 20;
    EXPECT_LT(fs::file_size(dir / "stk.json") * 100, kMost);
    fs::resize_file(dir / "stk.json", kMost + 1);
    EXPECT_THAT([&] { read_manifest(dir / "stk.json"); }, ThrowsMessage<DataError>(HasSubstr("134217729 bytes")));
    manifest.shards.resize(1'000'001);
    EXPECT_THROW(write_manifest(dir / "stk.json", manifest), InvalidArgument);
    manifest.shards.resize(1);
    manifest.origin = "{\"a\":\"" + std::string(kMost, 'a') + "\"}";
    EXPECT_THROW(write_manifest(dir / "stk.json", manifest), InvalidArgument);
}

TEST(StkDamage, ShardsOfAnotherDataSetAreRefused) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 20, 1000);
    write_every_kind(dir / "y.stk", 21, 900);
    fs::copy_file(dir / "y.stk/shard-000001.stk", dir / "x.stk/shard-000001.stk", fs::copy_options::overwrite_existing);
    EXPECT_THAT(result_of(dir / "x.stk"),
                AllOf(HasSubstr("shard-000001.stk"), HasSubstr("belongs to another data set")));
    fs::remove(dir / "x.stk/shard-000001.stk");
    EXPECT_THROW(StkReader(dir / "x.stk"), IoError);
}

TEST(StkDamage, RandomChangesNeverCrash) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 12, 1500);
    std::vector<fs::path> paths;
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(dir / "x.stk")) {
        paths.push_back(entry.path());
        files.push_back(read_text(entry.path()));
    }
    Rng rng({.seed = 17});
    const auto below = [&](std::size_t limit) { return std::size_t{rng.below(static_cast<std::uint32_t>(limit))}; };
    int found = 0;
    for (int round = 0; round < 1500; ++round) {
        const std::size_t file = below(files.size());
        std::string bad = files[file];
        for (std::size_t change = below(8); change < 8; ++change) {
            const std::size_t at = below(bad.size());
            switch (below(4)) {
                case 0:
                    bad[at] = static_cast<char>(below(256));
                    break;
                case 1:
                    bad.replace(at, 8, std::string(8, below(2) == 0 ? '\0' : '\xff'));
                    break;
                case 2:
                    bad.erase(at, below(100));
                    break;
                default:
                    bad.insert(at, bad.substr(below(bad.size()), below(100)));
            }
            if (bad.empty()) {
                break;
            }
        }
        put(paths[file], bad);
        found += static_cast<int>(!result_of(dir / "x.stk").empty());
        put(paths[file], files[file]);
    }
    EXPECT_GT(found, 1400);  // the others changed nothing, or only white space of the manifest
}

// ---- Forged shards: wrong content with correct hashes ----

class Forged {
  public:
    explicit Forged(std::string bytes) : bytes_(std::move(bytes)) { footer_ = at<StkFooter>(end()); }

    StkFooter& footer() { return footer_; }
    template <typename T>
    T at(std::uint64_t offset) const {
        T value;
        std::memcpy(&value, bytes_.data() + offset, sizeof value);
        return value;
    }
    template <typename T>
    void set(std::uint64_t offset, const T& value) {
        std::memcpy(bytes_.data() + offset, &value, sizeof value);
    }
    // The offset of sample `sample`'s entry of field `field`.
    std::uint64_t entry(std::size_t field, std::uint64_t sample) const {
        return footer_.index_offset + stk_layout(every_kind(), footer_.samples).fields[field] +
               sample * stk_entry_size(every_kind().fields[field]);
    }
    // Corrects all hashes whose ranges lie within the file.
    std::string sealed() {
        const auto hash = [&](std::uint64_t offset, std::uint64_t size) {
            return offset <= bytes_.size() && size <= bytes_.size() - offset
                       ? hash_text(std::string_view(bytes_).substr(offset, size))
                       : 0;
        };
        footer_.index_hash = hash(footer_.index_offset, footer_.index_size);
        footer_.schema_hash = hash(footer_.schema_offset, footer_.schema_size);
        set(end(), footer_);
        footer_.hash = hash(end(), kStkFooterHashed);
        set(end(), footer_);
        return bytes_;
    }

  private:
    std::uint64_t end() const { return bytes_.size() - sizeof(StkFooter); }

    std::string bytes_;
    StkFooter footer_;
};

struct Forgery {
    const char* name;
    std::function<void(Forged&)> change;
    const char* error;
};

const Forgery kForgeries[] = {
    {"offset out of range", [](Forged& f) { f.set(f.entry(0, 1), kHuge - 63); }, "a payload at"},
    {"offset of another", [](Forged& f) { f.set(f.entry(0, 1), f.at<std::uint64_t>(f.entry(0, 0))); }, "a payload at"},
    {"size out of range", [](Forged& f) { f.set(f.entry(0, 1) + 8, kHuge); }, "a payload at"},
    {"size that overlaps", [](Forged& f) { f.set(f.entry(0, 1) + 8, f.at<std::uint64_t>(f.entry(0, 1) + 8) + 64); },
     "a payload at"},
    {"last size short",
     [](Forged& f) {
         const std::uint64_t last = f.entry(5, f.footer().samples - 1);
         f.set(last + 8, std::uint64_t{0});
     },
     "payloads up to"},
    {"raw shape too large", [](Forged& f) { f.set(f.entry(0, 3) + 28, std::uint32_t{3}); }, "an entry of field image"},
    {"raw shape overflows",
     [](Forged& f) {
         f.set(f.entry(0, 3) + 28, std::array{~0u, ~0u, 4u});
     },
     "an entry of field image"},
    {"raw shape of nothing", [](Forged& f) { f.set(f.entry(0, 3) + 28, 0u); }, "an entry of field image"},
    {"encoded with a shape", [](Forged& f) { f.set(f.entry(0, 0) + 28, 1u); }, "an entry of field image"},
    {"unknown flag", [](Forged& f) { f.set(f.entry(0, 0) + 26, std::uint16_t{2}); }, "an entry of field image"},
    {"label too large", [](Forged& f) { f.set(f.entry(1, 2), std::int64_t{3}); }, "label 3 of 3 classes"},
    {"label below -1", [](Forged& f) { f.set(f.entry(1, 2), std::int64_t{-2}); }, "label -2"},
    {"tensor too large", [](Forged& f) { f.set(f.entry(5, 1) + 24, std::int64_t{2}); }, "an entry of field boxes"},
    {"tensor overflows",
     [](Forged& f) {
         f.set(f.entry(5, 1) + 24, std::array{std::int64_t{1} << 32, std::int64_t{1} << 32});
     },
     "an entry of field boxes"},
    {"tensor of negative side", [](Forged& f) { f.set(f.entry(5, 1) + 24, std::int64_t{-1}); }, "of field boxes"},
    {"tensor without elements but with bytes", [](Forged& f) { f.set(f.entry(5, 1) + 24, std::int64_t{0}); },
     "an entry of field boxes"},
    {"keys backwards", [](Forged& f) { f.set(f.footer().index_offset + 8, std::uint64_t{1}); },
     "keys that follow each other"},
    {"key too long", [](Forged& f) { f.set(f.footer().index_offset, kHuge); }, "keys that follow each other"},
    {"keys beyond the index",
     [](Forged& f) {
         const std::uint64_t last = f.footer().index_offset + 8 * (f.footer().samples - 1);
         f.set(last, f.at<std::uint64_t>(last) + 1);
     },
     "keys that fill the index"},
    {"count overflows", [](Forged& f) { f.footer().samples = kHuge; }, "a footer that describes this file"},
    {"count of 2^61", [](Forged& f) { f.footer().samples = std::uint64_t{1} << 61; }, "describes this file"},
    {"no samples", [](Forged& f) { f.footer().samples = 0; }, "describes this file"},
    {"one sample more", [](Forged& f) { ++f.footer().samples; }, ""},
    {"one sample less", [](Forged& f) { --f.footer().samples; }, ""},
    {"index beyond the file", [](Forged& f) { f.footer().index_offset = kHuge - 63; }, "describes this file"},
    {"index not aligned",
     [](Forged& f) {
         f.footer().index_offset += 8;
         f.footer().index_size -= 8;
     },
     "describes this file"},
    {"index too long", [](Forged& f) { f.footer().index_size = kHuge; }, "describes this file"},
    {"schema too long", [](Forged& f) { f.footer().schema_size = kHuge; }, "describes this file"},
    {"schema elsewhere", [](Forged& f) { f.footer().schema_offset = 64; }, "describes this file"},
    {"another file's size", [](Forged& f) { f.footer().file_size += 64; }, "describes this file"},
    {"another shard's number", [](Forged& f) { f.footer().shard = 5; }, "the header of shard 5"},
    {"another first sample", [](Forged& f) { f.footer().first = 9; }, "the header of shard 0"},
    {"reserved bytes", [](Forged& f) { f.footer().reserved[31] = 1; }, "describes this file"},
    {"version of the footer", [](Forged& f) { f.footer().version = 2; }, "got version 2"},
    {"version of the header", [](Forged& f) { f.set(8, std::uint32_t{7}); }, "got version 7"},
    {"no fields", [](Forged& f) { f.set(f.footer().schema_offset, 0u); }, "1 to 256 fields"},
    {"too many fields", [](Forged& f) { f.set(f.footer().schema_offset, 1u << 31); }, "1 to 256 fields"},
    {"field without a kind", [](Forged& f) { f.set(f.footer().schema_offset + 4, '\x09'); }, "a field kind of 1 to 6"},
    {"name beyond the schema", [](Forged& f) { f.set(f.footer().schema_offset + 8, ~0u); }, "4294967295 bytes"},
    {"classes beyond the schema", [](Forged& f) { f.set(f.footer().schema_offset + 4 + 12 + 5 + 8, ~0u); },
     "classes that fit"},
    {"classes of an image", [](Forged& f) { f.set(f.footer().schema_offset + 12, 1u); }, "classes of a field"},
    {"a field less", [](Forged& f) { f.set(f.footer().schema_offset, 5u); }, "the end of the schema"},
    {"a field more", [](Forged& f) { f.set(f.footer().schema_offset, 7u); }, ""},
    {"a name twice",
     [](Forged& f) {
         f.set(f.footer().schema_offset + 4 + 12, std::array{'l', 'a', 'b', 'e', 'l'});
     },
     "a unique name"},
};

TEST(StkDamage, ForgedShardsAreRefused) {
    const TempDir dir;
    write_every_kind(dir / "x.stk", 8, 1 << 20);
    const fs::path path = dir / "x.stk/shard-000000.stk";
    const std::string good = read_text(path);
    put(path, Forged(good).sealed());
    EXPECT_NO_THROW(StkShard{path});
    for (const Forgery& forgery : kForgeries) {
        Forged forged(good);
        forgery.change(forged);
        put(path, forged.sealed());
        std::string error = "opened";
        try {
            const StkShard shard(path);
        } catch (const DataError& refused) {
            error = refused.what();
        } catch (const Unsupported& refused) {
            error = refused.what();
        }
        EXPECT_THAT(error, AllOf(HasSubstr(forgery.error), Not(HasSubstr("opened")), HasSubstr("shard-000000.stk")))
            << forgery.name;
    }
}

}  // namespace
}  // namespace stoker
