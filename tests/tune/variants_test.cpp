// Which variants of a recipe are worth measuring.
#include "stoker/tune/variants.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

namespace stoker {
namespace {

Recipe photo_recipe() {
    return parse_recipe("[data]\ntrain = \"photos\"\n[model]\nname = \"resnet18\"\n", "photos.toml");
}

TEST(Variants, OnlyWhereTheyCanBeMeasured) {
    const auto codecs = [](const TrialFacts& facts) {
        std::vector<std::string> found;
        for (const Variant& variant : variants_of(photo_recipe(), facts, {})) {
            if (!variant.pack_codec.empty()) {
                found.push_back(variant.pack_codec);
            }
        }
        return found;
    };
    EXPECT_THAT(codecs({.format = "image_folder"}), testing::ElementsAre("dct", "raw"));
    EXPECT_THAT(codecs({.format = "stk", .codec = "raw"}), testing::ElementsAre("dct"));
    Recipe fields = photo_recipe();  // packed data keep them
    fields.data.fields.more.push_back({.name = "mask", .is = "mask", .from = "seg.png"});
    EXPECT_TRUE(std::ranges::any_of(variants_of(fields, {.format = "webdataset"}, {}),
                                    [](const Variant& variant) { return variant.pack_codec == "dct"; }));
    const Recipe mixture = parse_recipe("[data]\ntrain = \"c\"\nmix = [\"a\", \"b\"]\n", "mix.toml");
    for (const Variant& variant : variants_of(mixture, {.format = "image_folder"}, {})) {
        EXPECT_THAT(text_of(variant.change), testing::Not(testing::HasSubstr("data.cache")));
    }
}

// Raw pixels do not store the orientation by which training turns them; dct records do.
TEST(Variants, PixelsThatTrainingTurnsAreNotPackedRaw) {
    Recipe turned = photo_recipe();
    turned.data.exif = true;
    std::vector<std::string> codecs;
    for (const Variant& variant : variants_of(turned, {.format = "image_folder"}, {})) {
        codecs.push_back(variant.pack_codec);
    }
    EXPECT_THAT(codecs, testing::Contains("dct"));
    EXPECT_THAT(codecs, testing::Not(testing::Contains("raw")));
}

TEST(Variants, AGpuMayDecodeDctRecords) {
    const auto decodes = [](const Recipe& recipe, const TrialFacts& facts) {
        return std::ranges::any_of(variants_of(recipe, facts, {}), [](const Variant& variant) {
            return variant.change == std::vector<RecipeChange>{{"data.decode_on", "\"auto\""}};
        });
    };
    const TrialFacts gpu{.device = "cuda", .format = "stk", .codec = "dct"};
    Recipe on_cpu = photo_recipe();
    EXPECT_FALSE(decodes(on_cpu, gpu)) << "it does already";
    on_cpu.data.decode_on = "cpu";
    EXPECT_TRUE(decodes(on_cpu, gpu));
    EXPECT_TRUE(decodes(on_cpu, {.device = "cuda", .format = "stk", .codec = "dct-zstd"}));
    EXPECT_FALSE(decodes(on_cpu, {.device = "cpu", .format = "stk", .codec = "dct"}));
    EXPECT_FALSE(decodes(on_cpu, {.device = "cuda", .format = "stk", .codec = "jpeg"}));
    for (const auto& change : std::vector<std::function<void(DataRecipe&)>>{
             [](DataRecipe& data) { data.decode = "fast"; }, [](DataRecipe& data) { data.cache = "ram"; },
             [](DataRecipe& data) { data.channels = 1; }}) {
        Recipe other = on_cpu;
        change(other.data);
        EXPECT_FALSE(decodes(other, gpu)) << "the GPU would not decode";
    }
}

TEST(Allowed, NamesWhatMayChange) {
    EXPECT_TRUE(parse_allowed({"precision"}).precision);
    EXPECT_FALSE(parse_allowed({"precision"}).decode);
    EXPECT_THROW(parse_allowed({"ops"}), InvalidArgument);
}

}  // namespace
}  // namespace stoker
