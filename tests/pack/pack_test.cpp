// Packing keeps order, keys, labels and pixels in every codec, gives the same bytes if resumed, and never loses bad
// samples silently.
#include "stoker/pack/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "codecs/writers.h"
#include "pack/support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/folder/image_folder.h"
#include "stoker/formats/lmdb/lmdb_writer.h"
#include "stoker/formats/open.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/formats/stk/stk_writer.h"
#include "stoker/pack/target.h"
#include "support/temp_dir.h"

namespace stoker::pack_test {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

struct Stopped {};

// Ends the packing at sample `at` of phase "pack".
auto stop_at(std::int64_t at) {
    return [at](const PackProgress& progress) {
        if (std::string_view(progress.phase) == "pack" && progress.done == at) {
            throw Stopped{};
        }
    };
}

class Pack : public ::testing::Test {
  protected:
    void SetUp() override { make_folder(dir_ / "images"); }

    ImageFolder folder() const { return ImageFolder(dir_ / "images"); }

    TempDir dir_;
};

TEST_F(Pack, EveryCodecKeepsOrderKeysLabelsAndPixels) {
    const ImageFolder dataset = folder();
    const auto expected = all_of(dataset);
    for (const auto codec :
         {PackCodec::keep, PackCodec::dct, PackCodec::dct_zstd, PackCodec::dct_ans, PackCodec::raw}) {
        const fs::path target = dir_ / fmt::format("{}.stk", pack_codec_name(codec));
        const PackResult result =
            pack(dataset, target, {.transcode = {.codec = codec}, .shard_size = 20'000, .workers = 3});
        const StkDataset packed(target);
        EXPECT_EQ(all_of(packed), expected) << pack_codec_name(codec);
        EXPECT_TRUE(std::ranges::equal(packed.classes(), dataset.classes()));
        EXPECT_EQ(result.samples, 12);
        EXPECT_EQ(result.bytes_in, dataset.bytes());
        EXPECT_EQ(result.bytes_out, packed.bytes());
        EXPECT_EQ(result.codecs, packed.codecs());
        EXPECT_GT(result.shards, 1);
        EXPECT_TRUE(result.skipped.empty());
    }
    EXPECT_THAT(StkDataset(dir_ / "keep.stk").codecs(), ElementsAre(Pair("jpeg", 10), Pair("png", 2)));
    EXPECT_THAT(StkDataset(dir_ / "dct.stk").codecs(), ElementsAre(Pair("dct", 10), Pair("png", 2)));
    EXPECT_THAT(StkDataset(dir_ / "dct-zstd.stk").codecs(), ElementsAre(Pair("dct-zstd", 10), Pair("png", 2)));
    EXPECT_THAT(StkDataset(dir_ / "dct-ans.stk").codecs(), ElementsAre(Pair("dct-ans", 10), Pair("png", 2)));
    EXPECT_THAT(StkDataset(dir_ / "raw.stk").codecs(), ElementsAre(Pair("raw", 12)));
}

TEST_F(Pack, KeptImagesAreTheBytesOfTheirFiles) {
    const ImageFolder dataset = folder();
    pack(dataset, dir_ / "x.stk", {});
    const StkDataset packed(dir_ / "x.stk");
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        Sample sample;
        dataset.read(i, sample);
        EXPECT_TRUE(std::ranges::equal(packed.image(i).bytes, sample.bytes));
        EXPECT_TRUE(packed.image(i).original_file);
    }
}

TEST_F(Pack, SaysWhyImagesAreKept) {
    const PackResult result = pack(folder(), dir_ / "x.stk", {.transcode = {.codec = PackCodec::dct}});
    EXPECT_THAT(result.kept, ElementsAre(Pair("png image", 2)));
    const auto digits = open_dataset("synth:digits?count=5", Split::train);
    const PackResult raw = pack(*digits, dir_ / "y.stk", {.transcode = {.codec = PackCodec::dct}});
    EXPECT_THAT(raw.kept, ElementsAre(Pair("raw pixels", 5)));
    EXPECT_EQ(all_of(StkDataset(dir_ / "y.stk")), all_of(*digits));
}

TEST_F(Pack, FromOnePackedFormToAnother) {
    const ImageFolder dataset = folder();
    const auto expected = all_of(dataset);
    pack(dataset, dir_ / "a.stk", {.transcode = {.codec = PackCodec::dct}});
    const StkDataset a(dir_ / "a.stk");
    pack(a, dir_ / "b.stk", {.transcode = {.codec = PackCodec::dct_zstd}});
    pack(a, dir_ / "c.stk", {.transcode = {.codec = PackCodec::keep}});
    pack(a, dir_ / "d.stk", {.transcode = {.codec = PackCodec::raw}});
    const StkDataset b(dir_ / "b.stk");
    EXPECT_EQ(all_of(b), expected);
    EXPECT_THAT(b.codecs(), ElementsAre(Pair("dct-zstd", 10), Pair("png", 2)));
    EXPECT_EQ(all_of(StkDataset(dir_ / "c.stk")), expected);
    EXPECT_EQ(all_of(StkDataset(dir_ / "d.stk")), expected);
    for (std::int64_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(b.image(i).original_file, a.image(i).original_file) << i;
        EXPECT_FALSE(StkDataset(dir_ / "d.stk").image(i).original_file);
    }
}

// For programs that cannot read dct records: the original files.
TEST_F(Pack, DctRecordsBecomeTheirFilesAgain) {
    const ImageFolder dataset = folder();
    pack(dataset, dir_ / "dct.stk", {.transcode = {.codec = PackCodec::dct}});
    pack(dataset, dir_ / "zstd.stk", {.transcode = {.codec = PackCodec::dct_zstd}});
    EXPECT_EQ(target_format(dir_ / "x.stk").codec, PackCodec::keep);
    for (const char* name : {"x.tar", "x-{000000..}.tar", "x.lmdb", "x.h5", "x.npz"}) {
        EXPECT_EQ(target_format(dir_ / name).codec, PackCodec::jpeg);
    }
    for (const char* packed : {"dct.stk", "zstd.stk"}) {
        const fs::path target = dir_ / (std::string(packed) + ".tar");
        const PackResult result = pack(StkDataset(dir_ / packed), target, {.transcode = {.codec = PackCodec::jpeg}});
        EXPECT_THAT(result.codecs, ElementsAre(Pair("jpeg", 10), Pair("png", 2)));
        const auto files = open_dataset(target.string(), Split::train);
        Sample expected;
        Sample found;
        for (std::int64_t i = 0; i < dataset.size(); ++i) {
            dataset.read(i, expected);
            files->read(i, found);
            const bool exact = dataset.key(i) != "c2/9.jpg";  // progressive: the same coefficients in other scans
            EXPECT_EQ(std::ranges::equal(found.bytes, expected.bytes), exact) << dataset.key(i);
        }
        EXPECT_EQ(all_of(*files), all_of(dataset));
    }
}

TEST_F(Pack, ResizesOnlyWhatIsLarger) {
    const ImageFolder dataset = folder();
    pack(dataset, dir_ / "x.stk", {.transcode = {.resize_shorter = 60}});
    const StkDataset packed(dir_ / "x.stk");
    const auto before = all_of(dataset);
    const auto after = all_of(packed);
    for (std::size_t i = 0; i < before.size(); ++i) {
        const auto [key, label, height, width, pixels] = before[i];
        if (std::min(height, width) <= 60) {
            EXPECT_EQ(after[i], before[i]);
            EXPECT_TRUE(packed.image(static_cast<std::int64_t>(i)).original_file);
        } else {
            EXPECT_EQ(std::min(std::get<2>(after[i]), std::get<3>(after[i])), 60);
            EXPECT_EQ(std::get<0>(after[i]), key);
            EXPECT_FALSE(packed.image(static_cast<std::int64_t>(i)).original_file);
        }
    }
    EXPECT_THAT(packed.codecs(), ElementsAre(Pair("jpeg", 10), Pair("png", 2)));

    // As raw pixels they equal the op's output.
    pack(dataset, dir_ / "y.stk", {.transcode = {.codec = PackCodec::raw, .resize_shorter = 60}});
    const StkDataset raw(dir_ / "y.stk");
    TransformScratch scratch;
    StageTimes times;
    StageClock clock(times);
    const Transform resize({Resize{.shorter = 60}});
    Sample from;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        const auto& [key, label, height, width, pixels] = before[static_cast<std::size_t>(i)];
        if (std::min(height, width) > 60) {
            dataset.read(i, from);
            const ConstImageView view = resize.prepare(from, scratch, clock);
            const StkImage image = raw.image(i);
            ASSERT_EQ((std::array{image.height, image.width}), (std::array{view.height, view.width}));
            for (int y = 0; y < view.height; ++y) {
                const auto row = image.bytes.subspan(static_cast<std::size_t>(y) * view.row_bytes(), view.row_bytes());
                ASSERT_EQ(std::memcmp(row.data(), view.row(y), row.size()), 0) << key << " row " << y;
            }
        }
    }
}

TEST_F(Pack, QualityMakesEverythingAJpeg) {
    const PackResult small = pack(folder(), dir_ / "x.stk", {.transcode = {.quality = 20}});
    EXPECT_THAT(small.codecs, ElementsAre(Pair("jpeg", 12)));
    EXPECT_LT(small.bytes_out, small.bytes_in);
    const PackResult dct = pack(folder(), dir_ / "y.stk", {.transcode = {.codec = PackCodec::dct, .quality = 20}});
    EXPECT_THAT(dct.codecs, ElementsAre(Pair("dct", 12)));
    EXPECT_EQ(all_of(StkDataset(dir_ / "x.stk")), all_of(StkDataset(dir_ / "y.stk")));
    EXPECT_THROW(pack(folder(), dir_ / "z.stk", {.transcode = {.codec = PackCodec::raw, .quality = 20}}),
                 InvalidArgument);
    EXPECT_THROW(pack(folder(), dir_ / "z.stk", {.transcode = {.quality = 101}}), InvalidArgument);
}

TEST_F(Pack, ResumedItGivesTheSameBytes) {
    const ImageFolder dataset = folder();
    const PackOptions options{.transcode = {.codec = PackCodec::dct}, .shard_size = 9'000, .workers = 2};
    pack(dataset, dir_ / "whole.stk", options);
    for (std::int64_t at = 1; at <= 12; ++at) {
        const fs::path target = dir_ / fmt::format("{}.stk", at);
        PackOptions stopped = options;
        stopped.progress = stop_at(at);
        EXPECT_THROW(pack(dataset, target, stopped), Stopped);
        EXPECT_FALSE(fs::exists(target / "stk.json"));
        PackOptions other = options;
        other.transcode.codec = PackCodec::keep;
        if (fs::exists(target / "shard-000000.stk")) {  // otherwise nothing was kept, and anything may begin anew
            EXPECT_THAT([&] { pack(dataset, target, other); }, ::testing::Throws<InvalidArgument>());
        }

        const PackResult result = pack(dataset, target, options);
        EXPECT_EQ(files_in(target), files_in(dir_ / "whole.stk")) << at;
        EXPECT_LT(result.resumed_samples, at);
        EXPECT_TRUE(at < 10 || result.resumed_samples > 0) << at;
        EXPECT_EQ(result.samples, 12);
        EXPECT_EQ(result.bytes_in, dataset.bytes());
        EXPECT_THAT(result.kept, ElementsAre(Pair("png image", 2)));
    }
}

TEST_F(Pack, SaysWhichOptionsDiffer) {
    const ImageFolder dataset = folder();
    const PackOptions options{.transcode = {.codec = PackCodec::dct_zstd, .resize_shorter = 50}, .shard_size = 4'000};
    PackOptions stopped = options;
    stopped.progress = stop_at(12);
    EXPECT_THROW(pack(dataset, dir_ / "x.stk", stopped), Stopped);
    const auto said = [&](const Dataset& from, const PackOptions& other, const std::string& text) {
        EXPECT_THAT([&] { pack(from, dir_ / "x.stk", other); },
                    ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("x.stk] expected " + text)));
    };
    PackOptions other = options;
    other.transcode.codec = PackCodec::dct;
    said(dataset, other,
         "--codec dct-zstd, as the data set was begun with, got --codec dct; finish it with these options, name "
         "another target, or remove this one");
    other = options;
    other.transcode.resize_shorter = 0;
    other.transcode.quality = 80;
    other.shard_size = 500'000;
    said(dataset, other,
         "--resize-shorter 50 and no --quality and --shard-size 4000, as the data set was begun with, got no "
         "--resize-shorter and --quality 80 and --shard-size 500000; finish");
    fs::remove(dir_ / "images/c0/0.jpg");
    said(folder(), options,
         "the same source, as the data set was begun with, got another source, or one that has changed since; finish");
}

// A data set with other labels and classes.
class Relabelled final : public Dataset {
  public:
    Relabelled(const Dataset& dataset, std::int64_t first, std::string name) : dataset_(dataset), first_(first) {
        classes_ = {std::move(name), "b", "c"};
    }
    std::int64_t size() const override { return dataset_.size(); }
    void read(std::int64_t index, Sample& sample) const override {
        dataset_.read(index, sample);
        sample.label = *label(index);
    }
    std::string key(std::int64_t index) const override { return dataset_.key(index); }
    std::optional<std::int64_t> label(std::int64_t index) const override {
        return index == 0 ? first_ : *dataset_.label(index);
    }
    std::span<const std::string> classes() const override { return classes_; }

  private:
    const Dataset& dataset_;
    std::int64_t first_;
    std::vector<std::string> classes_;
};

TEST_F(Pack, OtherLabelsOrClassesAreAnotherSource) {
    const ImageFolder dataset = folder();
    const Relabelled before(dataset, 0, "a");
    for (const bool finished : {true, false}) {
        const fs::path target = dir_ / (finished ? "finished.tar" : "part.tar");
        PackOptions options{.shard_size = 5'000};
        options.progress = finished ? options.progress : stop_at(12);
        if (finished) {
            pack(before, target, options);
        } else {
            EXPECT_THROW(pack(before, target, options), Stopped);
        }
        options.progress = {};
        for (const Relabelled& now : {Relabelled(dataset, 1, "a"), Relabelled(dataset, 0, "other")}) {
            EXPECT_THAT([&] { pack(now, target, options); },
                        ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("or one that has changed since")));
        }
        EXPECT_EQ(pack(before, target, options).nothing_to_do, finished);
    }
}

TEST_F(Pack, AFileWrittenAnewIsAnotherSource) {
    const fs::path file = dir_ / "x.npz";
    pack(*open_dataset("synth:digits?count=5", Split::train), file, {});
    pack(*open_dataset(file.string(), Split::train), dir_ / "x.stk", {});
    EXPECT_TRUE(pack(*open_dataset(file.string(), Split::train), dir_ / "x.stk", {}).nothing_to_do);
    fs::last_write_time(file,
                        fs::last_write_time(file) + std::chrono::seconds(1));  // the same size and keys as before
    EXPECT_THAT([&] { pack(*open_dataset(file.string(), Split::train), dir_ / "x.stk", {}); },
                ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("or one that has changed since")));
}

TEST_F(Pack, OtherFieldsAreAnotherPacking) {
    const ImageFolder dataset = folder();
    pack(dataset, dir_ / "x.stk", {.fields = {.image = {}, .label = "fine"}});
    EXPECT_THAT([&] { pack(dataset, dir_ / "x.stk", {.fields = {.image = "small", .label = {}}}); },
                ::testing::ThrowsMessage<InvalidArgument>(
                    HasSubstr("expected no --image-field and --label-field fine, as the data set was packed with, got "
                              "--image-field small and no --label-field;")));
}

TEST_F(Pack, LeavesTheDataSetsOfOtherProgramsAlone) {
    for (const bool finished : {true, false}) {
        const fs::path target = dir_ / (finished ? "finished.stk" : "part.stk");
        {
            StkWriter writer(target, stk_image_schema({}), {.origin = R"({"plan": 5})"});
            const StkValue values[] = {StkImage{.bytes = {}, .codec = StkCodec::jpeg}, std::int64_t{-1}};
            writer.add("x", values);
            finished ? writer.finish(R"({"by": "hand"})") : writer.close_shard("{}");
        }
        EXPECT_THAT([&] { pack(folder(), target, {}); },
                    ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("got one of another program; name another")));
    }
}

TEST_F(Pack, ADamagedShardIsPackedAgain) {
    const ImageFolder dataset = folder();
    const PackOptions options{.shard_size = 5'000};
    pack(dataset, dir_ / "whole.stk", options);
    PackOptions stopped = options;
    stopped.progress = stop_at(12);
    EXPECT_THROW(pack(dataset, dir_ / "x.stk", stopped), Stopped);
    const fs::path shard = dir_ / "x.stk/shard-000001.stk";
    std::string bytes = read_text(shard);
    bytes[100] = static_cast<char>(bytes[100] ^ 1);
    write_file(shard, bytes);
    const PackResult result = pack(dataset, dir_ / "x.stk", options);
    EXPECT_EQ(result.resumed_samples, StkShard(dir_ / "x.stk/shard-000000.stk").samples());
    EXPECT_EQ(files_in(dir_ / "x.stk"), files_in(dir_ / "whole.stk"));
}

TEST_F(Pack, ACompletePackingHasNothingToDo) {
    const ImageFolder dataset = folder();
    const PackResult first = pack(dataset, dir_ / "x.stk", {});
    const auto files = files_in(dir_ / "x.stk");
    const PackResult again = pack(dataset, dir_ / "x.stk", {});
    EXPECT_FALSE(first.nothing_to_do);
    EXPECT_TRUE(again.nothing_to_do);
    EXPECT_EQ(again.codecs, first.codecs);
    EXPECT_EQ(again.bytes_in, first.bytes_in);
    EXPECT_EQ(files_in(dir_ / "x.stk"), files);
    EXPECT_THAT([&] { pack(dataset, dir_ / "x.stk", {.transcode = {.codec = PackCodec::raw}}); },
                ::testing::ThrowsMessage<InvalidArgument>(
                    HasSubstr("x.stk] expected --codec keep, as the data set was packed with, got --codec raw; name "
                              "another target, or remove it first")));
    fs::remove(dir_ / "images/c0/0.jpg");
    EXPECT_THAT([&] { pack(folder(), dir_ / "x.stk", {}); },
                ::testing::ThrowsMessage<InvalidArgument>(
                    HasSubstr("expected the same source, as the data set was packed with, got another source, or one "
                              "that has changed since;")));
}

TEST_F(Pack, ABadSampleEndsItUnlessBadOnesAreSkipped) {
    const std::string good = read_text(dir_ / "images/c1/5.jpg");
    write_file(dir_ / "images/c1/5.jpg", std::string_view(good).substr(0, good.size() / 2));
    write_file(dir_ / "images/c2/9.jpg", std::string_view("no image"));
    for (const auto codec : {PackCodec::keep, PackCodec::dct, PackCodec::raw}) {
        const fs::path target = dir_ / fmt::format("{}.stk", pack_codec_name(codec));
        PackOptions options{.transcode = {.codec = codec}, .shard_size = 5'000, .workers = 3};
        EXPECT_THAT([&] { pack(folder(), target, options); },
                    ::testing::ThrowsMessage<DataError>(AllOf(HasSubstr("c1/5.jpg"), HasSubstr("--skip-bad"))));
        options.skip_bad = true;
        const PackResult result = pack(folder(), target, options);
        EXPECT_EQ(result.samples, 10);
        ASSERT_EQ(result.skipped.size(), 2u);
        EXPECT_EQ(result.skipped[0].key, "c1/5.jpg");
        EXPECT_EQ(result.skipped[1].key, "c2/9.jpg");
        for (const SkippedSample& sample : result.skipped) {  // the key is a separate field, not part of the reason
            EXPECT_THAT(sample.reason, AllOf(HasSubstr("(sample "), ::testing::Not(HasSubstr(sample.key))));
        }
        const PackResult again = pack(folder(), target, options);
        EXPECT_TRUE(again.nothing_to_do);
        EXPECT_EQ(again.skipped.size(), 2u);
        const StkDataset packed(target);
        for (std::int64_t i = 0; i < packed.size(); ++i) {
            EXPECT_NE(packed.key(i), "c1/5.jpg");
            EXPECT_EQ(packed.label(i), packed.key(i)[1] - '0');
        }
    }
}

// The keys of an LMDB that `stoker pack` wrote are parts of its records.
TEST_F(Pack, ADamagedRecordOfAnLmdbIsABadSample) {
    const fs::path source = dir_ / "source.lmdb";
    pack(folder(), source, {});
    {
        LmdbWriter writer(source);
        const auto record = writer.get("00000007");
        ASSERT_TRUE(record);
        const std::vector<std::byte> half(record->begin(), record->begin() + std::ssize(*record) / 2);
        writer.put("00000007", half);
        writer.commit();
    }
    const auto dataset = open_dataset(source, Split::train);
    EXPECT_THROW(dataset->key(7), DataError);
    for (const char* name : {"x.stk", "x.tar"}) {  // x.tar needs unique keys
        EXPECT_THAT([&] { pack(*dataset, dir_ / name, {}); },
                    ::testing::ThrowsMessage<DataError>(AllOf(HasSubstr("00000007"), HasSubstr("--skip-bad"))));
        const PackResult result = pack(*dataset, dir_ / name, {.skip_bad = true});
        EXPECT_EQ(result.samples, 11);
        ASSERT_EQ(result.skipped.size(), 1u);
        EXPECT_EQ(result.skipped[0].key, "7");
    }
}

TEST_F(Pack, NothingButBadSamples) {
    fs::remove_all(dir_ / "images");
    fs::create_directories(dir_ / "images/c");
    write_file(dir_ / "images/c/1.jpg", std::string_view("no image"));
    EXPECT_THAT([&] { pack(folder(), dir_ / "x.stk", {.skip_bad = true}); },
                ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("at least one sample")));
}

TEST_F(Pack, AnAnimationIsReadAsInTraining) {
    const Bytes still = encode_webp(picture(7, 12).view(), /*lossless=*/true);
    put(dir_ / "still/c/1.webp", still);
    put(dir_ / "animated/c/1.webp", animated_webp(still, 7, 12));
    const ImageFolder animated(dir_ / "animated");
    EXPECT_THROW(pack(animated, dir_ / "no.stk", {.transcode = {.codec = PackCodec::raw}}), DataError);
    const PackOptions options{.transcode = {.codec = PackCodec::raw, .first_frame = true}, .skip_bad = true};
    const PackResult result = pack(animated, dir_ / "x.stk", options);
    EXPECT_TRUE(result.skipped.empty());
    EXPECT_EQ(all_of(StkDataset(dir_ / "x.stk")), all_of(ImageFolder(dir_ / "still")));
    EXPECT_TRUE(pack(animated, dir_ / "x.stk", options).nothing_to_do);
    EXPECT_THAT([&] { pack(animated, dir_ / "x.stk", {.transcode = {.codec = PackCodec::raw}}); },
                ::testing::ThrowsMessage<InvalidArgument>(HasSubstr("expected --first-frame, as the data")));
    const PackOptions kept{.transcode = {.codec = PackCodec::dct, .first_frame = true}};
    EXPECT_EQ(pack(animated, dir_ / "dct.stk", kept).kept.at("webp image"), 1);
}

TEST_F(Pack, NotIntoItsOwnSource) {
    const ImageFolder dataset = folder();
    for (const fs::path& target : {dir_ / "images/x.stk", dir_ / "images/c0/x.tar", dir_ / "other/../images/x.stk"}) {
        try {
            pack(dataset, target, {});
            ADD_FAILURE() << target;
        } catch (const InvalidArgument& error) {
            EXPECT_THAT(error.what(), HasSubstr("expected a target outside of the source"));
        }
        EXPECT_FALSE(fs::exists(target));
    }
    EXPECT_EQ(pack(dataset, dir_ / "images.stk", {}).samples, 12);
}

}  // namespace
}  // namespace stoker::pack_test
